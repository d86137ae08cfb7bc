package outbox

import (
	"time"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
)

// lateBy is how long a record may wait for the disk. A result is sent as
// soon as it is written: that survives the end of the process, and until the disk has it
// too the machine's memory and the brain have it. Only when the power fails within this
// time, and the brain has not got it, is a result replaced by outcome_unknown. What has
// come within that time has one sync.
const lateBy = 50 * time.Millisecond

// late is a record that is written, and not synced.
type late struct {
	e      *entry
	staged *journal.Staged
	before journal.Ref // the record in whose place it is, needed until then; zero = none
}

// saveLate writes a record of e, and has it synced within lateBy. b.mu is held, and let
// go meanwhile.
func (b *Box) saveLate(e *entry, record journal.Entry) {
	staged := b.write(e, record, (*journal.Staged).Write)
	if staged == nil {
		return
	}
	l := late{e: e, staged: staged}
	if !e.dead {
		l.before = e.ref
	}
	e.dead = true // it is let go later
	b.saved(e, staged.Ref())
	b.late = append(b.late, l)
	if len(b.late) == 1 && !b.closed {
		b.work.Go(b.syncLate)
	}
}

// syncLate syncs what is written by then.
func (b *Box) syncLate() {
	soon := time.NewTimer(lateBy)
	defer soon.Stop()
	select {
	case <-soon.C:
	case <-b.closing:
	}
	b.flush()
}

// flush syncs what is late, and returns when none of what was late before is.
func (b *Box) flush() {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	b.mu.Lock()
	list := b.late
	b.late = nil
	b.mu.Unlock()
	var failed error
	for _, l := range list { // the first one waits for the disk
		if err := l.staged.Wait(); err != nil {
			failed = err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if failed != nil {
		b.fail(failed)
	}
	for _, l := range list {
		switch {
		case failed == nil:
			b.journal.Drop(l.before)
		case b.holds(l.e) && l.e.ref == l.staged.Ref():
			b.inMemoryOnly(l.e)
		}
		l.staged.Release()
	}
}
