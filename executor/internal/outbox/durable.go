package outbox

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
	"github.com/agent-executor/executor/protocol"
)

// retryFull is how long a full disk is left alone.
const retryFull = time.Second

// save writes a record of e and waits for it. When that fails the entry is in memory
// only, until there is room. b.mu is held, and let go meanwhile.
func (b *Box) save(e *entry, record journal.Entry) {
	if staged := b.write(e, record, (*journal.Staged).Wait); staged != nil {
		b.saved(e, staged.Ref())
		staged.Release()
	}
}

// write has wait wait for a record of e. It returns nil when the record is not there.
// b.mu is held, and let go meanwhile.
func (b *Box) write(e *entry, record journal.Entry, wait func(*journal.Staged) error) *journal.Staged {
	if b.journal == nil {
		return nil
	}
	if b.full != nil && time.Now().After(b.tryAgain) {
		b.recover()
	}
	if b.full != nil {
		b.journal.Discard(record)
		b.inMemoryOnly(e)
		return nil
	}
	staged := b.journal.Stage(record)
	e.staged = staged
	b.mu.Unlock()
	err := wait(staged)
	b.mu.Lock()
	e.staged = nil
	if err != nil {
		staged.Release()
		b.journal.Discard(record)
		b.fail(err)
		b.inMemoryOnly(e)
		return nil
	}
	return staged
}

// inMemoryOnly says that the newest of e is nowhere else, and has the journal remember
// that there is such a call: that takes no room. b.mu is held, and let go meanwhile.
func (b *Box) inMemoryOnly(e *entry) {
	b.unsaved[e] = struct{}{}
	b.mu.Unlock()
	_ = b.journal.SetIncomplete(true) // as well as it goes
	b.mu.Lock()
}

// complete has the journal say that it has all, if it has. b.mu is held.
func (b *Box) complete() {
	if b.journal == nil || b.wounded || b.full != nil {
		return
	}
	if err := b.journal.SetIncomplete(false); err != nil {
		b.fail(err)
	}
}

// saved says where the newest record of e is.
func (b *Box) saved(e *entry, ref journal.Ref) {
	delete(b.unsaved, e)
	b.unneeded(e)
	e.ref, e.dead = ref, false
	if !b.holds(e) { // forgotten meanwhile
		b.unneeded(e)
	}
}

// unneeded says that the record of e need not stay. It is still where e.ref says.
func (b *Box) unneeded(e *entry) {
	if !e.ref.IsZero() && !e.dead {
		b.journal.Drop(e.ref)
		e.dead = true
	}
}

func (b *Box) fail(err error) {
	b.full, b.tryAgain = err, time.Now().Add(retryFull)
}

// trim takes a result out of memory that is on the disk, when there is too much.
func (b *Box) trim(e *entry) {
	if b.inMemory > maxInMemory && b.onDisk(e) {
		b.dropResult(e)
	}
}

func (b *Box) onDisk(e *entry) bool {
	_, unsaved := b.unsaved[e]
	return !e.ref.IsZero() && !unsaved
}

// acknowledged marks the record of a result. When that fails it is delivered once more
// after a restart, which harms nobody. Of a result that is in memory only, for want of
// room, nothing but the id is kept.
func (b *Box) acknowledged(e *entry) {
	switch {
	case b.journal == nil || e.phase != phaseDone:
		return
	case !b.onDisk(e):
		b.dropResult(e)
		b.becomeGone(e)
		return
	}
	if err := b.journal.Mark(e.ref); err != nil {
		b.fail(err)
	}
	b.dropResult(e)
}

// load returns the result of e. b.mu is held.
func (b *Box) load(e *entry) protocol.ToolResultParams {
	switch {
	case e.result != nil:
		return *e.result
	case e.phase == phaseGone:
		return unknown(e, protocol.CodeConflict, forgotten)
	}
	r, err := b.read(e.ref)
	if err != nil {
		return unknown(e, protocol.CodeInternalError,
			fmt.Sprintf("this call has run, but its result could not be read again (%v); it is not run again", err))
	}
	return r
}

func (b *Box) read(ref journal.Ref) (protocol.ToolResultParams, error) {
	body, err := b.journal.Read(ref)
	if err != nil {
		return protocol.ToolResultParams{}, err
	}
	return protocol.DecodeParams[protocol.ToolResultParams](body, nil)
}

// recordOf is what is to be written of a call as it stands. b.mu is held.
func (b *Box) recordOf(e *entry) journal.Entry {
	record := journal.Entry{Kind: kindAccept, Head: headOf(e), Sync: true}
	switch e.phase {
	case phaseNote:
		return noteOf(e)
	case phaseGone:
		record.Kind = kindGone
	case phaseDone:
		r := b.load(e)
		record.Kind, record.Marked = kindResult, !e.owed
		record.Body, _ = encode(&r) // it could be when it was put
	}
	return record
}

// Recover writes what is in memory only, if there is anything, and returns why it
// cannot. It is to be called now and then.
func (b *Box) Recover() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full != nil && !b.closed {
		b.recover()
	}
	return b.full
}

// Degraded is why results are held in memory only; nil when they are not.
func (b *Box) Degraded() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full
}

// recover is Recover. b.mu is held, and let go meanwhile; others go on as on a full
// disk until all is written.
func (b *Box) recover() {
	b.tryAgain = time.Now().Add(retryFull) // nobody else tries meanwhile
	for {
		type pending struct {
			e      *entry
			phase  phase
			owed   bool
			result *protocol.ToolResultParams
			value  []byte
			record journal.Entry
			staged *journal.Staged
		}
		var list []*pending
		for e := range b.unsaved {
			list = append(list, &pending{e: e, phase: e.phase, owed: e.owed, result: e.result, value: e.value, record: b.recordOf(e)})
		}
		slices.SortFunc(list, func(x, y *pending) int { return len(x.record.Body) - len(y.record.Body) }) // the small ones fit first
		b.mu.Unlock()
		err := b.journal.Probe()
		for _, p := range list {
			if err != nil {
				break
			}
			var record journal.Entry
			if record, err = b.journal.Prepare(p.record); err == nil {
				p.record, p.staged = record, b.journal.Stage(record)
			}
		}
		for _, p := range list {
			if p.staged == nil {
				continue
			}
			if waited := p.staged.Wait(); waited != nil {
				p.staged.Release()
				b.journal.Discard(p.record)
				p.staged, err = nil, waited
			}
		}
		b.mu.Lock()
		for _, p := range list {
			if p.staged == nil {
				continue
			}
			b.saved(p.e, p.staged.Ref())
			p.staged.Release()
			if p.e.phase != p.phase || p.e.owed != p.owed || p.e.result != p.result || !bytes.Equal(p.e.value, p.value) {
				b.unsaved[p.e] = struct{}{} // it has changed meanwhile
			}
			b.trim(p.e)
		}
		if err != nil {
			b.fail(err)
			return
		}
		if len(b.unsaved) == 0 {
			b.full = nil
			b.complete()
			return
		}
	}
}
