// Package outbox is the journal of tool calls accepted and of results owed: what
// makes a call run at most once and its result arrive. Recorded before answered, on
// both steps:
//
//	state, err := box.Accept(params)   // before the call runs
//	err = box.Put(result)              // before the result is sent
//	result, ok := box.Peek()           // the oldest one owed; Next waits for it
//	err = box.Ack(session, call)       // the brain has stored it
//
// This Box lives in memory: it holds across connections, not across a restart.
package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// State is what the box knows of a call.
type State int

const (
	Fresh   State = iota // never seen: it is to be run
	Running              // accepted, and its result is not there yet
	Done                 // its result is there; it is owed again when it was asked for
)

// keepResults is how many results of one session answer repeats after they were
// acknowledged (spec section 6).
const keepResults = protocol.DefaultStoredResultsPerScope

// keepIDs is how many calls of one session are remembered beyond that, so that none of
// them runs again.
const keepIDs = 16 << 10

// maxOwed is how many bytes of results may wait for a brain that does not take them.
// Beyond it no further call is accepted; what runs is still recorded.
const maxOwed = 8 << 20

// Box is used concurrently; Next by one goroutine at a time.
type Box struct {
	mu      sync.Mutex
	calls   map[key]*entry
	owed    []*entry            // oldest first
	done    map[string][]*entry // by session, oldest first: results that were acknowledged
	ids     map[string][]*entry // by session, oldest first: calls whose result is no longer kept
	bytes   int                 // of the results owed, about
	changed chan struct{}       // closed when owed changes; nil while nobody waits
	closed  bool
}

type key struct{ session, call string }

type entry struct {
	key
	digest [sha256.Size]byte
	result *protocol.ToolResultParams
	owed   bool
	kept   bool // in done
	gone   bool // in ids
}

// Open opens the box in dir. An empty dir is a box that ends with the process.
func Open(dir string) (*Box, error) {
	_ = dir
	return &Box{calls: map[key]*entry{}, done: map[string][]*entry{}, ids: map[string][]*entry{}}, nil
}

// Close ends the box: Next and Settled return.
func (b *Box) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.wake()
	}
	return nil
}

// Lookup says what is known of a call without recording it. The error is conflict
// when the id was used for another call. A result that is there is owed again, since
// whoever asks has not got it.
func (b *Box) Lookup(p protocol.ToolCallParams) (State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookup(p, digest(p))
}

func (b *Box) lookup(p protocol.ToolCallParams, d [sha256.Size]byte) (State, error) {
	e := b.calls[key{p.SessionID, p.ToolCallID}]
	switch {
	case e == nil:
		return Fresh, nil
	case e.digest != d:
		return Fresh, protocol.Errorf(protocol.CodeConflict,
			"tool_call_id: %q was used for another call of this session; use a new id", p.ToolCallID)
	case e.result == nil:
		return Running, nil
	}
	if !e.owed {
		b.owe(e)
	}
	return Done, nil
}

func (b *Box) owe(e *entry) {
	e.owed = true
	b.owed = append(b.owed, e)
	b.bytes += size(e.result)
	b.wake()
}

// size is about what a result takes in memory.
func size(r *protocol.ToolResultParams) int {
	n := 200 + len(r.Structured)
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data)
	}
	return n
}

// Accept records that a call will be run, before it returns. Only for Fresh is the
// caller to run it; the other states are those of Lookup, for a repeat that came at
// the same time.
func (b *Box) Accept(p protocol.ToolCallParams) (State, error) {
	d := digest(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, err := b.lookup(p, d); s != Fresh || err != nil {
		return s, err
	}
	if b.bytes > maxOwed {
		return Fresh, protocol.Errorf(protocol.CodeResourceUnavailable,
			"%d results, of more than %d MiB, wait to be acknowledged; no call is accepted until the brain takes them", len(b.owed), maxOwed>>20)
	}
	k := key{p.SessionID, p.ToolCallID}
	b.calls[k] = &entry{key: k, digest: d}
	return Fresh, nil
}

// Put records a result, before it returns. It is owed until Ack. A result for a
// call that already has one takes its place only while that one is owed.
func (b *Box) Put(r protocol.ToolResultParams) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{r.SessionID, r.ToolCallID}
	e := b.calls[k]
	switch {
	case e == nil:
		e = &entry{key: k}
		b.calls[k] = e
	case e.result != nil:
		if e.owed {
			b.bytes += size(&r) - size(e.result)
			e.result = &r
		}
		return nil
	}
	e.result = &r
	b.owe(e)
	return nil
}

// Peek returns the oldest result that is owed, again and again until Ack; false when
// there is none.
func (b *Box) Peek() (protocol.ToolResultParams, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.owed) == 0 {
		return protocol.ToolResultParams{}, false
	}
	return *b.owed[0].result, true
}

// Next waits for a result that is owed and returns the oldest, again and again until
// Ack. The error is the context's, or context.Canceled after Close.
func (b *Box) Next(ctx context.Context) (protocol.ToolResultParams, error) {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return protocol.ToolResultParams{}, context.Canceled
		}
		if len(b.owed) > 0 {
			r := *b.owed[0].result
			b.mu.Unlock()
			return r, nil
		}
		changed := b.change()
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return protocol.ToolResultParams{}, ctx.Err()
		}
	}
}

// Ack takes a result out of those owed. It stays for repeats of its call.
func (b *Box) Ack(sessionID, toolCallID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.calls[key{sessionID, toolCallID}]
	if e == nil || !e.owed {
		return nil
	}
	e.owed = false
	b.bytes -= size(e.result)
	for i := range b.owed {
		if b.owed[i] == e {
			b.owed = append(b.owed[:i], b.owed[i+1:]...)
			break
		}
	}
	if e.kept || e.gone {
		b.wake()
		return nil
	}
	e.kept = true
	kept := append(b.done[sessionID], e)
	for len(kept) > keepResults {
		b.drop(kept[0])
		kept = kept[1:]
	}
	b.done[sessionID] = kept
	b.wake()
	return nil
}

// Settled waits until no result of the session is owed.
func (b *Box) Settled(ctx context.Context, sessionID string) error {
	return b.until(ctx, func() bool {
		for _, e := range b.owed {
			if e.session == sessionID {
				return false
			}
		}
		return true
	})
}

// Drained waits until no result is owed.
func (b *Box) Drained(ctx context.Context) error {
	return b.until(ctx, func() bool { return len(b.owed) == 0 })
}

func (b *Box) until(ctx context.Context, done func() bool) error {
	for {
		b.mu.Lock()
		ok, changed, closed := done(), b.change(), b.closed
		b.mu.Unlock()
		switch {
		case ok:
			return nil
		case closed:
			return context.Canceled
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Forget drops what is kept of a session that has ended and is settled.
func (b *Box) Forget(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range [][]*entry{b.done[sessionID], b.ids[sessionID]} {
		for _, e := range list {
			e.kept, e.gone = false, false
			if !e.owed {
				delete(b.calls, e.key)
			}
		}
	}
	delete(b.done, sessionID)
	delete(b.ids, sessionID)
}

// drop forgets a result but not its call, or, when it is owed again, lets its next Ack
// keep it anew.
func (b *Box) drop(e *entry) {
	e.kept = false
	if e.owed {
		return
	}
	e.gone = true
	e.result = &protocol.ToolResultParams{
		SessionID: e.session, ToolCallID: e.call, Outcome: protocol.OutcomeFailed, IsError: true,
		Content: []protocol.Content{{Type: protocol.ContentText, Text: forgotten}},
		Error:   &protocol.ToolError{Code: protocol.CodeConflict, Reason: protocol.ReasonOutcomeUnknown, Message: forgotten},
	}
	ids := append(b.ids[e.session], e)
	if len(ids) > keepIDs {
		ids[0].gone = false
		if !ids[0].owed {
			delete(b.calls, ids[0].key)
		}
		ids = ids[1:]
	}
	b.ids[e.session] = ids
}

const forgotten = "this call has run before; its result was acknowledged and is no longer kept, and it is not run again"

// Owed counts the results that were not acknowledged.
func (b *Box) Owed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owed)
}

// change is closed at the next change.
func (b *Box) change() <-chan struct{} {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

func (b *Box) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// digest identifies what a call is: a repeat may be spaced differently and have
// another deadline. No input is an empty one.
func digest(p protocol.ToolCallParams) [sha256.Size]byte {
	mode := ""
	if p.Permission != nil {
		mode = p.Permission.Mode
	}
	var b bytes.Buffer
	b.Grow(len(p.Tool) + len(mode) + len(p.Input) + 2*binary.MaxVarintLen64)
	for _, s := range []string{p.Tool, mode} {
		b.Write(binary.AppendUvarint(b.AvailableBuffer(), uint64(len(s))))
		b.WriteString(s)
	}
	start := b.Len()
	switch {
	case len(p.Input) == 0 || string(p.Input) == "null":
		b.WriteString("{}")
	case json.Compact(&b, p.Input) != nil:
		b.Truncate(start)
		b.Write(p.Input)
	}
	return sha256.Sum256(b.Bytes())
}
