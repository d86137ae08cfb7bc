package outbox

import (
	"github.com/agent-executor/executor/executor/internal/outbox/journal"
)

// compactAtOnce is about how many bytes of records are moved at once.
const compactAtOnce = 1 << 20

// compactLater empties segments of the log behind the caller's back, when any is worth
// it. b.mu is held.
func (b *Box) compactLater() {
	if b.journal == nil || b.compacting || b.closed || b.full != nil {
		return
	}
	if _, worth := b.journal.Victim(); !worth {
		return
	}
	b.compacting = true
	b.work.Go(b.compact)
}

func (b *Box) compact() {
	for {
		b.mu.Lock()
		// Under the lock: who makes a segment worth it a moment later starts anew.
		victim, ok := b.journal.Victim()
		b.compacting = ok
		b.mu.Unlock()
		if !ok {
			return
		}
		if err := b.empty(victim); err != nil {
			b.mu.Lock()
			b.compacting = false
			b.fail(err)
			b.mu.Unlock()
			return
		}
	}
}

// moving is a record on its way to another segment.
type moving struct {
	e      *entry
	ref    journal.Ref
	marked bool
	gone   bool
	staged *journal.Staged
}

// empty moves what is needed out of a segment and removes it.
func (b *Box) empty(victim journal.Segment) error {
	b.mu.Lock()
	var list []*moving
	for _, e := range b.calls {
		if e.ref.In(victim) {
			list = append(list, &moving{e: e, ref: e.ref, marked: e.phase == phaseDone && !e.owed, gone: e.phase == phaseGone})
		}
	}
	for _, of := range b.notes {
		for _, e := range of {
			if e.ref.In(victim) {
				list = append(list, &moving{e: e, ref: e.ref})
			}
		}
	}
	b.mu.Unlock()
	for len(list) > 0 {
		n, bytes := 0, 0
		for n < len(list) && bytes < compactAtOnce {
			bytes += list[n].ref.Len()
			n++
		}
		if err := b.move(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	b.flush() // a record that is late may have its predecessor here
	return b.journal.Remove(victim)
}

func (b *Box) move(list []*moving) error {
	for _, m := range list {
		var err error
		if m.gone {
			m.staged, err = b.journal.Shrink(m.ref, kindGone)
		} else {
			m.staged, err = b.journal.Copy(m.ref, m.marked)
		}
		if err != nil { // it cannot be read any more: what is known of the call is written anew
			b.mu.Lock()
			m.staged = b.journal.Stage(b.recordOf(m.e))
			b.mu.Unlock()
		}
	}
	var err error
	for _, m := range list {
		if waited := m.staged.Wait(); waited != nil {
			err = waited
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range list {
		if err == nil {
			b.moved(m)
		}
		m.staged.Release()
	}
	return err
}

// moved makes the copy the record of its call, unless that has another one by now.
func (b *Box) moved(m *moving) {
	e, copied := m.e, m.staged.Ref()
	if e.ref != m.ref || !b.holds(e) {
		b.journal.Drop(copied)
		return
	}
	if !e.dead {
		b.journal.Moved(e.ref)
	}
	e.ref, e.dead = copied, false
	switch {
	case e.phase == phaseGone && !m.gone:
		b.unneeded(e)
	case e.phase == phaseDone && !e.owed && !m.marked:
		_ = b.journal.Mark(copied)
	}
}
