package executor

import (
	"sync"
	"time"
)

// lease is the time for which the brain counts on this executor. It runs on a clock
// that also counts the time the machine was suspended, from the moment the request
// was sent that the brain answered: so it is never longer than the brain's own.
type lease struct {
	mu    sync.Mutex
	until time.Time // on the clock of leaseNow; zero = none yet
}

// renew sets the lease from the moment sent, which leaseNow returned.
func (l *lease) renew(sent time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(ttl)
}

// left is how long the lease still runs; not positive when it ran out.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() {
		return 0
	}
	return l.until.Sub(leaseNow())
}

func (l *lease) valid() bool { return l.left() > 0 }

// leaseNow is the monotonic clock, which stands still while the machine is
// suspended, put forward by the time it was.
func leaseNow() time.Time { return time.Now().Add(suspended()) }
