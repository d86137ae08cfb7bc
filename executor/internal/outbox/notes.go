package outbox

import (
	"bytes"
	"maps"
	"time"
)

// A note is a small value under a key of a scope, which is a session's assignment. It
// is written before Note returns and not synced: so it is there after a kill, and costs
// no wait for the disk. After a power loss the newest notes may be missing; where a start of
// the machine has a name, the Box is Wounded then.
//
// Its record has the head of a call, with the scope and the key in place of the two ids
// and the value behind them. A note that is forgotten leaves a record that says so, for
// as long as its segment is there.

const headForgotten = 2

// notes are those of one scope, by their keys.
type notes map[string]*entry

// Note keeps a value under a key, in place of the one that was there. Notes under one
// key come one after another. On a full disk it is kept in memory only, as calls are.
func (b *Box) Note(scope, name string, value []byte) {
	b.mayLag()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lag.last = time.Now()
	e := b.notes[scope][name]
	if e == nil {
		e = &entry{key: key{scope, name}, phase: phaseNote}
		b.addNote(e)
	}
	e.value = bytes.Clone(value)
	b.lag.writing++
	b.save(e, noteOf(e))
	b.lag.writing--
	b.compactLater()
}

// ForgetNote forgets one note. One that is not there is forgotten already.
func (b *Box) ForgetNote(scope, name string) { b.forgetNote(scope, name, false) }

// forgetNote waits for the disk when that is asked for.
func (b *Box) forgetNote(scope, name string, sync bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.notes[scope][name]
	if e == nil {
		return
	}
	delete(b.notes[scope], name)
	if len(b.notes[scope]) == 0 {
		delete(b.notes, scope)
	}
	if !e.ref.IsZero() {
		end := &entry{key: e.key, phase: phaseNote, forgotten: true}
		record := noteOf(end)
		record.Sync = sync
		b.save(end, record)
	}
	b.unneeded(e)
	delete(b.unsaved, e)
	b.compactLater()
}

// ForgetNotes forgets all notes of a scope, which is not used again.
func (b *Box) ForgetNotes(scope string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.notes[scope]
	delete(b.notes, scope)
	for _, e := range all {
		b.unneeded(e)
		delete(b.unsaved, e)
	}
	if len(all) > 0 {
		b.compactLater()
	}
}

// Notes are the values of a scope by their keys. They are not to be written to.
func (b *Box) Notes(scope string) map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	values := make(map[string][]byte, len(b.notes[scope]))
	for name, e := range b.notes[scope] {
		values[name] = e.value
	}
	return values
}

// Scopes lists those that have notes, in no order.
func (b *Box) Scopes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]string, 0, len(b.notes))
	for scope := range maps.Keys(b.notes) {
		list = append(list, scope)
	}
	return list
}

func (b *Box) addNote(e *entry) {
	if b.notes[e.session] == nil {
		b.notes[e.session] = notes{}
	}
	b.notes[e.session][e.call] = e
}

// holds reports whether e is what the box has of its call or note. b.mu is held.
func (b *Box) holds(e *entry) bool {
	if e.phase == phaseNote {
		return b.notes[e.session][e.call] == e
	}
	return b.calls[e.key] == e
}

// takeNotes makes the notes what the records say.
func (b *Box) takeNotes(left leftovers) {
	for _, records := range left {
		r := b.newest(records)
		if r.forgotten {
			b.journal.Drop(r.Ref)
			continue
		}
		b.addNote(r.entry)
	}
}
