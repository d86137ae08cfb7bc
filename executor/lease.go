package executor

import (
	"sync"
	"time"
)

// lease is the time for which the brain counts on this executor. It runs on a clock
// that also counts the time the machine was suspended, from the moment the request
// was sent that the brain answered: so it is never longer than the brain's own.
type lease struct {
	asleepFor func() time.Duration // since when does not matter (default: suspended)

	mu    sync.Mutex
	until time.Time // on the clock of now; zero = none yet

	asleep time.Duration // what asleepFor said
	asked  time.Time     // when
}

// askAgain is how old the answer of asleepFor may be: it costs two system calls, and
// each tool call needs it.
const askAgain = 5 * time.Millisecond

// renew sets the lease from the moment sent, which now returned.
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
	now := time.Now()
	if d := now.Sub(l.asked); d >= askAgain || d < 0 {
		l.asleep, l.asked = l.asleepSoFar(), now
	}
	return l.until.Sub(now.Add(l.asleep))
}

func (l *lease) valid() bool { return l.left() > 0 }

// now is the monotonic clock, which stands still while the machine is suspended, put
// forward by the time it was.
func (l *lease) now() time.Time { return time.Now().Add(l.asleepSoFar()) }

func (l *lease) asleepSoFar() time.Duration {
	if l.asleepFor == nil {
		return suspended()
	}
	return l.asleepFor()
}
