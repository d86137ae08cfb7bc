package outbox

import (
	"sync"
	"time"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
)

// An acceptance, and a note, need not wait for the disk, as long as nobody runs a call a
// second time for want of its record. After a kill it is there. When the machine goes down
// it may not be, so the journal says before that it lags: then the next start knows that
// calls may be missing, and no session comes back (Wounded). Where a start of the machine
// has no name, each acceptance waits.

// calmAfter is how long nothing is accepted or noted before the journal says that it has
// all: with sessions at rest a power loss costs none.
const calmAfter = 30 * time.Second

// lag is what the journal says. Its lock is held while that changes, and taken before the Box's.
type lag struct {
	sync.Mutex
	calming sync.WaitGroup

	// Guarded by the Box's.
	told    bool      // that it lags
	writing int       // records that rely on it
	last    time.Time // that something was written that relies on it
}

// mayLag has the journal say that it lags, if it can. b.mu is not held.
func (b *Box) mayLag() {
	if b.journal == nil {
		return
	}
	b.mu.Lock()
	ready := b.lag.told || b.full != nil || b.closed
	b.mu.Unlock()
	if ready {
		return
	}
	b.lag.Lock()
	defer b.lag.Unlock()
	able, err := b.journal.SetLagging(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.fail(err)
	case able && !b.lag.told && !b.closed:
		b.lag.told, b.lag.last = true, time.Now()
		b.lag.calming.Go(b.calmDown)
	}
}

// saveAcceptance writes the record of a call that is to run. b.mu is held, and let go meanwhile.
func (b *Box) saveAcceptance(e *entry, record journal.Entry) {
	if !record.Sync || !b.lag.told {
		b.save(e, record)
		return
	}
	b.lag.writing++
	b.lag.last = time.Now()
	b.saveLate(e, record)
	b.lag.writing--
}

// calmDown has the journal say that it has all when it has been so for a while. Close says so too.
func (b *Box) calmDown() {
	timer := time.NewTimer(calmAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-b.closing:
			return
		}
		wait := b.calm()
		if wait <= 0 {
			return
		}
		timer.Reset(wait)
	}
}

// calm returns for how long it is too early.
func (b *Box) calm() time.Duration {
	b.lag.Lock()
	defer b.lag.Unlock()
	b.mu.Lock()
	wait := calmAfter - time.Since(b.lag.last)
	if wait <= 0 && (b.lag.writing > 0 || len(b.late) > 0 || b.full != nil) {
		wait = calmAfter
	}
	b.lag.told = wait > 0
	b.mu.Unlock()
	if wait > 0 {
		return wait
	}
	if _, err := b.journal.SetLagging(false); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fail(err)
	}
	return 0
}
