package outbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
	"github.com/agent-executor/executor/protocol"
)

// Loss is a part of the journal's files that could not be read.
type Loss = journal.Loss

// muchRead is how much of a journal is worth a garbage collection: it takes milliseconds,
// and most have next to nothing.
const muchRead = 1 << 20

// Open opens the box in dir, which is there and belongs to the caller alone. An empty
// dir is a box that ends with the process. What the last process has left is there: results owed, oldest first; for
// calls it has not finished, results that say so; results that answer repeats. No
// damage is an error: Losses tells it.
func Open(dir string) (*Box, error) { return open(dir, journal.Boot()) }

// open is Open on a machine whose present start has that name.
func open(dir, boot string) (*Box, error) {
	b := &Box{calls: map[key]*entry{}, kept: map[string]*keeping{}, notes: map[string]notes{}, unsaved: map[*entry]struct{}{}, closing: make(chan struct{})}
	if dir == "" {
		return b, nil
	}
	dir = filepath.Join(dir, "journal")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	left, noted := leftovers{}, leftovers{}
	var err error
	if b.journal, b.losses, err = journal.Open(dir, boot, func(r journal.Record) {
		if r.Kind == kindNote {
			noted.visit(r)
		} else {
			left.visit(r)
		}
	}); err != nil {
		return nil, err
	}
	b.takeNotes(noted)
	b.wounded = slices.ContainsFunc(b.losses, func(l Loss) bool { return !l.Torn })
	b.take(left)
	b.ForgetNotes(waitingScope)
	b.wounded = slices.ContainsFunc(b.losses, func(l Loss) bool { return !l.Torn })
	b.compactLater()
	if b.journal.Size() > muchRead {
		debug.FreeOSMemory() // whole segments were read, which will not be again
	}
	return b, nil
}

// Losses are what Open could not read of the files it has found.
func (b *Box) Losses() []Loss { return b.losses }

// Wounded reports whether calls that were accepted may be among the losses. It is so
// after each further Open, until Heal says that it does not matter any more.
func (b *Box) Wounded() bool { return b.wounded }

// Heal says that no session is left of which calls may have been lost.
func (b *Box) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wounded = false
	b.complete()
}

// ID is the journal's, from its beginning; "" in memory.
func (b *Box) ID() string {
	if b.journal == nil {
		return ""
	}
	return b.journal.ID()
}

// leftovers are the records that were found of each call.
type leftovers map[key][]*leftover

type leftover struct {
	*entry
	journal.Record
}

func (l leftovers) visit(r journal.Record) {
	e := readHead(r.Head)
	if e == nil || r.Kind < kindAccept || r.Kind > kindNote {
		return // whole, and not of this version: left alone
	}
	if e.ref, e.size = r.Ref, int(r.BodyLen); r.Kind == kindNote {
		e.phase = phaseNote
	}
	l[e.key] = append(l[e.key], &leftover{e, r})
}

// newest picks the record that says how a call stands, and drops the others of it.
func (b *Box) newest(records []*leftover) *leftover {
	best := slices.MaxFunc(records, func(x, y *leftover) int {
		return cmp.Or(cmp.Compare(x.Seq, y.Seq),
			cmp.Compare(x.Kind, y.Kind), // a result that was replaced by its id
			rank(x.Marked)-rank(y.Marked))
	})
	for _, r := range records {
		if r == best {
			continue
		}
		if r.Seq == best.Seq && r.Kind == best.Kind {
			b.journal.Moved(r.Ref) // a copy: they have one file of the body
		} else {
			b.journal.Drop(r.Ref)
		}
	}
	return best
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// take makes the box what the records say.
func (b *Box) take(left leftovers) {
	var all []*leftover
	for _, records := range left {
		all = append(all, b.newest(records))
	}
	slices.SortFunc(all, func(x, y *leftover) int { return cmp.Compare(x.Seq, y.Seq) })
	var open []*entry // accepted, and no result
	for _, r := range all {
		e := r.entry
		b.calls[e.key] = e
		switch {
		case r.Kind == kindAccept:
			open = append(open, e)
		case r.Kind == kindGone:
			b.becomeGone(e)
		case r.Marked:
			e.phase = phaseDone
			b.keep(e)
		default:
			if _, err := b.read(e.ref); err != nil {
				b.losses = append(b.losses, Loss{File: e.ref.File(), Bytes: r.BodyLen, What: fmt.Sprintf("the result of a call could not be read: %v", err)})
				open = append(open, e)
				continue
			}
			e.phase = phaseDone
			b.owe(e)
		}
	}
	for _, e := range open {
		r := unknown(e, protocol.CodeInternalError, "the executor ended while this call ran or before its result was recorded; whether it has done its work is not known, and it is not run again")
		if b.waited(e) && !b.wounded { // else it may be missing that it has started
			r = failed(e, protocol.CodeInternalError, protocol.ReasonExecutorRestarted,
				"the executor ended while this call waited for the local user's confirmation: it had not started, and it is not run")
		}
		_ = b.Put(r)
	}
}
