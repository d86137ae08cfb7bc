// Package outbox is the journal of tool calls accepted and of results owed: what
// makes a call run at most once and its result arrive. Recorded before answered, on
// both steps, and on the disk soon:
//
//	state, err := box.Accept(params, readOnly) // before the call runs
//	err = box.Put(result)                      // before the result is sent
//	result, ok := box.Peek(nil)                // the oldest one owed
//	err = box.Ack(session, call)               // the brain has stored it
//
// A Box in a directory survives a kill: after one, a call that was accepted and has no
// result is owed a failed one, outcome_unknown. After a power loss, in or soon after
// which the last acceptances may be missing, it is Wounded, so that no session comes back.
// Either way no call runs again. Only a read-only one may, after a power loss, which harms
// nobody.
//
// While the disk is full the Box goes on in memory, within a limit, and says so with
// Degraded; what is there only is written as soon as there is room.
//
//	outbox.go   Box: a call from its acceptance to its acknowledgement
//	kept.go     results that answer repeats, and what is forgotten when
//	notes.go    Note: what else is kept of a session
//	wait.go     waiting until nothing is owed
//	record.go   what is written of a call
//	durable.go  writing it; the disk being full; reading results again
//	late.go     what the disk gets a moment after it was written
//	lag.go      that acceptances are among it
//	restart.go  Open: what the last process has left
//	compact.go  the log is kept small
package outbox

import (
	"fmt"
	"sync"
	"time"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
	"github.com/agent-executor/executor/protocol"
)

// State is what the box knows of a call.
type State int

const (
	Fresh   State = iota // never seen: it is to be run
	Running              // accepted, and its result is not there yet
	Done                 // its result is there; it is owed again when it was asked for
)

// What waits for a brain that does not take it is bounded, in bytes: results in memory,
// and results on the disk. Beyond, no further call is accepted; what runs is still
// recorded.
const (
	maxInMemory = 8 << 20
	maxOnDisk   = 256 << 20
)

// Box is used concurrently.
type Box struct {
	journal *journal.Journal // nil: everything is in memory only
	losses  []journal.Loss
	work    sync.WaitGroup // compaction, and what is synced late
	closing chan struct{}  // closed by Close

	flushing sync.Mutex // held while what is late is synced; taken before mu
	lag      lag

	mu         sync.Mutex // taken before the journal's; never held while the disk is waited for
	calls      map[key]*entry
	owed       []*entry // oldest first
	kept       map[string]*keeping
	notes      map[string]notes // by their scope
	owedBytes  int              // of the results owed
	inMemory   int              // of the results in memory
	keptBytes  int              // of the acknowledged results kept
	orders     int64
	unsaved    map[*entry]struct{}
	late       []late
	wounded    bool
	full       error     // why the last write failed; nil = it did not
	tryAgain   time.Time // when full is looked into again
	compacting bool
	changed    chan struct{} // closed when owed changes; nil while nobody waits
	closed     bool
}

type key struct{ session, call string }

// entry is one call, or one note.
type entry struct {
	key
	digest   digest
	readOnly bool
	phase    phase
	owed     bool
	sent     bool                       // since it was owed
	again    bool                       // it was asked for after it was sent
	size     int                        // of the result, about
	result   *protocol.ToolResultParams // nil: there is none, or it is on the disk only
	ref      journal.Ref                // its newest record; zero = none
	dead     bool                       // the journal was told that the record need not stay
	kept     bool                       // in keeping.done
	order    int64                      // among those kept
	staged   *journal.Staged            // the record that is being written; nil = none

	value     []byte // of a note
	forgotten bool   // a note, which is only there to say so
}

type phase int

const (
	phaseRunning phase = iota
	phaseDone          // it has a result
	phaseGone          // it had one, which is no longer kept
	phaseNote          // it is no call, but a note
)

// Close ends the box: what waits returns, and the files are closed.
func (b *Box) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.closing)
	b.wake()
	b.mu.Unlock()
	b.work.Wait()
	b.lag.calming.Wait()
	if b.journal == nil {
		return nil
	}
	return b.journal.Close()
}

// Lookup says what is known of a call without recording it. The error is conflict
// when the id was used for another call. A result that is there is owed again, since
// whoever asks has not got it.
func (b *Box) Lookup(p protocol.ToolCallParams) (State, error) {
	b.mu.Lock()
	return b.known(p, digestOf(p))
}

// known is Lookup with the lock held, which it lets go, unless the call is fresh. It
// returns Running when the acceptance is recorded.
func (b *Box) known(p protocol.ToolCallParams, d digest) (State, error) {
	defer b.mu.Unlock()
	e := b.calls[key{p.SessionID, p.ToolCallID}]
	switch {
	case e == nil:
		return Fresh, nil
	case e.digest != d:
		return Fresh, protocol.Errorf(protocol.CodeConflict,
			"tool_call_id: %q was used for another call of this session; use a new id", p.ToolCallID)
	case e.phase == phaseRunning:
		if staged := e.staged; staged != nil { // a repeat that came at the same time
			b.mu.Unlock()
			_ = staged.Wait()
			b.mu.Lock()
		}
		return Running, nil
	}
	switch {
	case !e.owed:
		b.owe(e)
	case e.sent: // it may have passed whoever asks now
		e.again = true
	}
	return Done, nil
}

// Accept records that a call will be run, before it returns; the disk has it a moment
// later. Only for Fresh is the
// caller to run it; the other states are those of Lookup, for a repeat that came at
// the same time.
func (b *Box) Accept(p protocol.ToolCallParams, readOnly bool) (State, error) {
	d := digestOf(p)
	if !readOnly {
		b.mayLag()
	}
	b.mu.Lock()
	if b.calls[key{p.SessionID, p.ToolCallID}] != nil {
		return b.known(p, d)
	}
	defer b.mu.Unlock()
	if err := b.tooMuch(); err != nil {
		return Fresh, err
	}
	e := &entry{key: key{p.SessionID, p.ToolCallID}, digest: d, readOnly: readOnly}
	b.calls[e.key] = e
	b.saveAcceptance(e, journal.Entry{Kind: kindAccept, Head: headOf(e), Sync: !readOnly})
	return Fresh, nil
}

// tooMuch is why no further call is accepted. b.mu is held.
func (b *Box) tooMuch() error {
	limit, why := maxOnDisk, ""
	switch {
	case b.full != nil:
		limit, why = maxInMemory, fmt.Sprintf(" (the state directory cannot be written: %v)", b.full)
	case b.journal == nil:
		limit = maxInMemory
	}
	if b.owedBytes <= limit {
		return nil
	}
	return protocol.Errorf(protocol.CodeResourceUnavailable,
		"%d results, of more than %d MiB, wait to be acknowledged; no call is accepted until the brain takes them%s", len(b.owed), limit>>20, why)
}

// Put records a result, before it returns; the disk has it a moment later. It is owed until Ack. A result for a
// call that already has one takes its place only while that one is owed.
func (b *Box) Put(r protocol.ToolResultParams) error {
	body, err := encode(&r)
	if err != nil { // a call without a result would be waited for for ever
		e := &entry{key: key{r.SessionID, r.ToolCallID}}
		r = unknown(e, protocol.CodeInternalError, fmt.Sprintf("the result cannot be written as JSON: %v", err))
		body, _ = encode(&r)
	}
	k := key{r.SessionID, r.ToolCallID}
	b.mu.Lock()
	e := b.calls[k]
	if e == nil {
		e = &entry{key: k}
		b.calls[k] = e
	}
	again := e.phase != phaseRunning
	if again && !e.owed || e.phase == phaseGone {
		b.mu.Unlock()
		return nil
	}
	record := journal.Entry{Kind: kindResult, Head: headOf(e), Body: body, Sync: !e.readOnly}
	if b.journal != nil && b.full == nil && len(body) > journal.BodyLimit {
		b.mu.Unlock() // it takes its time
		prepared, err := b.journal.Prepare(record)
		b.mu.Lock()
		if err != nil {
			b.fail(err)
		} else {
			record = prepared
		}
	}
	defer b.mu.Unlock()
	b.setResult(e, &r)
	if record.Sync {
		b.saveLate(e, record)
	} else {
		b.save(e, record)
	}
	b.trim(e)
	if e.phase = phaseDone; !again {
		b.owe(e)
	}
	return nil
}

// setResult puts a result into memory. b.mu is held.
func (b *Box) setResult(e *entry, r *protocol.ToolResultParams) {
	b.dropResult(e)
	n := size(r)
	if e.owed {
		b.owedBytes += n - e.size
	}
	e.result, e.size = r, n
	b.inMemory += n
}

// dropResult takes a result out of memory. b.mu is held.
func (b *Box) dropResult(e *entry) {
	if e.result != nil {
		e.result = nil
		b.inMemory -= e.size
	}
}

func (b *Box) owe(e *entry) {
	e.owed, e.sent, e.again = true, false, false
	b.owed = append(b.owed, e)
	b.owedBytes += e.size
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

// Peek returns the oldest result that is owed, again and again until Ack; false when
// there is none. Those of calls that skip names are passed over; nil = none.
func (b *Box) Peek(skip func(sessionID, toolCallID string) bool) (protocol.ToolResultParams, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return protocol.ToolResultParams{}, false
	}
	for _, e := range b.owed {
		if skip == nil || !skip(e.session, e.call) {
			e.sent, e.again = true, false
			return b.load(e), true
		}
	}
	return protocol.ToolResultParams{}, false
}

// Ack takes a result out of those owed. It stays for repeats of its call, and is owed
// once more when one came while it was on its way.
func (b *Box) Ack(sessionID, toolCallID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.calls[key{sessionID, toolCallID}]
	if e == nil || !e.owed {
		return nil
	}
	e.owed = false
	b.owedBytes -= e.size
	for i := range b.owed {
		if b.owed[i] == e {
			b.owed = append(b.owed[:i], b.owed[i+1:]...)
			break
		}
	}
	again := e.again
	b.acknowledged(e)
	b.keep(e)
	if again {
		b.owe(e)
	}
	b.compactLater()
	b.wake()
	return nil
}

// Owed counts the results that were not acknowledged.
func (b *Box) Owed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owed)
}
