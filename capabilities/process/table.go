package process

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// maxForgotten is how many ids of processes that are not kept any more are remembered, so that a late
// repeat of their start does not start them again.
const maxForgotten = 4096

// specHash identifies what a process was started with.
type specHash [sha256.Size]byte

// table holds the processes of one session. close ends it.
type table struct {
	session *capabilities.Session
	options Options
	group   *spawn.Group
	work    sync.WaitGroup // goroutines of the processes; added to by run alone

	mu        sync.Mutex
	closed    bool
	all       map[string]*child
	order     []*child // all, by their start
	finished  []*child // those that have ended, by their end
	running   int      // those that have not, and those that are being started
	forgotten map[string]bool
	oldest    []string // the forgotten in order
	unknown   []string // those that are not even that any more, and whose note is to be forgotten
}

func newTable(s *capabilities.Session, o Options) *table {
	return &table{session: s, options: o, group: o.Children.NewGroup(), all: map[string]*child{}, forgotten: map[string]bool{}}
}

// run starts a goroutine that close waits for; false when the table is closed.
func (t *table) run(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.work.Go(f)
	return true
}

// reserve finds the process of that id, or makes a place for it, which is to be filled by started or
// given back by failed. fresh says which.
func (t *table) reserve(p protocol.ProcessStartParams) (ch *child, fresh bool, err error) {
	id, spec := p.ProcessID, hashOf(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(time.Now())
	if ch := t.all[id]; ch != nil {
		if ch.spec != spec {
			return nil, false, protocol.Errorf(protocol.CodeConflict, "process_id: %s was started with another specification; choose another id", quote(id)).
				WithReason(protocol.ReasonProcessIDSpecMismatch)
		}
		return ch, false, nil
	}
	switch {
	case t.closed:
		return nil, false, errSessionEnds
	case t.forgotten[id]:
		return nil, false, protocol.Errorf(protocol.CodeNotFound, "process_id: %s has ended and is not kept any more; choose another id to run it again", quote(id))
	case t.running >= lower(t.options.MaxProcesses, t.session.Limits().MaxProcessesPerSession):
		return nil, false, protocol.Errorf(protocol.CodeResourceUnavailable, "%d processes run in this session, which is the limit; end one first", t.running)
	}
	ch = newChild(p, spec, t.options.BufferBytes)
	t.all[id] = ch
	t.order = append(t.order, ch)
	t.running++
	return ch, true, nil
}

// failed gives the place back: nothing was started, and the same id may be tried again.
func (t *table) failed(ch *child, err error) {
	if ch.noted {
		t.forgetNote(ch.id)
	}
	t.mu.Lock()
	t.running--
	t.remove(ch)
	t.mu.Unlock()
	ch.err = err
	close(ch.started)
}

// ended counts a process that has ended.
func (t *table) ended(ch *child) {
	t.mu.Lock()
	t.running--
	t.finished = append(t.finished, ch)
	t.prune(time.Now())
	t.mu.Unlock()
	t.forgetNotes()
}

// prune forgets what has ended long ago, or too many processes before the newest. t.mu is held.
func (t *table) prune(now time.Time) {
	for len(t.finished) > 0 {
		ch := t.finished[0]
		if len(t.finished) <= t.options.KeepFinished && now.Sub(ch.endTime()) < t.options.KeepFor {
			return
		}
		t.finished = slices.Delete(t.finished, 0, 1)
		t.remove(ch)
		ch.discard()
		t.forgotten[ch.id] = true
		if t.oldest = append(t.oldest, ch.id); len(t.oldest) > maxForgotten {
			delete(t.forgotten, t.oldest[0])
			t.unknown = append(t.unknown, t.oldest[0])
			t.oldest = slices.Delete(t.oldest, 0, 1)
		}
	}
}

func (t *table) remove(ch *child) {
	delete(t.all, ch.id)
	t.order = slices.DeleteFunc(t.order, func(other *child) bool { return other == ch })
}

// get is the process of that id; it waits while it is being started.
func (t *table) get(ctx context.Context, id string) (*child, error) {
	t.mu.Lock()
	t.prune(time.Now())
	ch := t.all[id]
	t.mu.Unlock()
	if ch == nil {
		return nil, errUnknown(id)
	}
	if err := ch.awaitStart(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errUnknown(id) // the start failed
	}
	return ch, nil
}

// list is the state of each process, by the order of their starts.
func (t *table) list() []protocol.ProcessState {
	t.mu.Lock()
	t.prune(time.Now())
	order := slices.Clone(t.order)
	t.mu.Unlock()
	list := make([]protocol.ProcessState, 0, len(order))
	for _, ch := range order {
		select {
		case <-ch.started:
			if ch.err == nil {
				list = append(list, ch.snapshot())
			}
		default: // nobody has been told of it yet
		}
	}
	return list
}

// close ends every process, with a grace, and returns when nothing is left of them but what could not
// be ended. No process starts afterwards.
func (t *table) close(grace time.Duration) []spawn.Survivor {
	t.mu.Lock()
	t.closed = true
	order := slices.Clone(t.order)
	t.mu.Unlock()
	for _, ch := range order {
		ch.ask(reasonSessionEnded)
		ch.letGo()
	}
	survivors := t.group.Close(grace)
	for _, ch := range order {
		ch.release()
	}
	t.work.Wait()
	return survivors
}

func errUnknown(id string) *protocol.Error {
	return protocol.Errorf(protocol.CodeNotFound, "process_id: there is no process %s in this session, or not any more", quote(id))
}

// quote shows an id, which may be any string, in a message.
func quote(id string) string {
	if len(id) > 100 {
		id = id[:100] + "…"
	}
	return capabilities.QuoteName(id)
}
