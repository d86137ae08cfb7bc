package outbox

import (
	"github.com/agent-executor/executor/protocol"
)

// keepResults is how many results of one session answer repeats after they were
// acknowledged (spec section 6).
const keepResults = protocol.DefaultStoredResultsPerScope

// keepIDs is how many calls of one session are remembered beyond that, so that none of
// them runs again.
const keepIDs = 16 << 10

// Results that answer repeats are also bounded in bytes, over all sessions; the oldest
// go first.
const (
	maxKeptInMemory = 64 << 20
	maxKeptOnDisk   = 256 << 20
)

// keeping is what is kept of one session, oldest first.
type keeping struct {
	done []*entry // their results
	gone []*entry // their ids
}

func (b *Box) keeping(session string) *keeping {
	k := b.kept[session]
	if k == nil {
		k = &keeping{}
		b.kept[session] = k
	}
	return k
}

// keep keeps a result that was acknowledged. b.mu is held.
func (b *Box) keep(e *entry) {
	if e.kept || e.phase != phaseDone {
		return
	}
	k := b.keeping(e.session)
	b.orders++
	e.kept, e.order = true, b.orders
	k.done = append(k.done, e)
	b.keptBytes += e.size
	if len(k.done) > keepResults {
		b.drop(k)
	}
	limit := maxKeptOnDisk
	if b.journal == nil || b.full != nil {
		limit = maxKeptInMemory
	}
	for b.keptBytes > limit && b.dropOldest() {
	}
}

// dropOldest drops the oldest result of all sessions.
func (b *Box) dropOldest() bool {
	var oldest *keeping
	for _, k := range b.kept {
		if len(k.done) > 0 && (oldest == nil || k.done[0].order < oldest.done[0].order) {
			oldest = k
		}
	}
	if oldest != nil {
		b.drop(oldest)
	}
	return oldest != nil
}

// drop forgets the oldest result of a session but not its call, or, when it is owed
// again, lets its next Ack keep it anew.
func (b *Box) drop(k *keeping) {
	e := k.done[0]
	k.done = k.done[1:]
	e.kept = false
	b.keptBytes -= e.size
	if !e.owed {
		b.dropResult(e)
		b.unneeded(e)
		b.becomeGone(e)
	}
}

// becomeGone keeps the id of a call, and not too many of them.
func (b *Box) becomeGone(e *entry) {
	e.phase, e.size = phaseGone, 0
	k := b.keeping(e.session)
	k.gone = append(k.gone, e)
	if len(k.gone) > keepIDs {
		oldest := k.gone[0]
		k.gone = k.gone[1:]
		b.forget(oldest)
	}
}

// forget deletes a call, unless it is owed just now.
func (b *Box) forget(e *entry) {
	if e.owed {
		return
	}
	b.dropResult(e)
	b.unneeded(e)
	delete(b.unsaved, e)
	delete(b.calls, e.key)
}

// Forget drops what is kept of a session that has ended and is settled.
func (b *Box) Forget(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[sessionID]
	if k == nil {
		return
	}
	delete(b.kept, sessionID)
	for _, e := range k.done {
		e.kept = false
		b.keptBytes -= e.size
		b.forget(e)
	}
	for _, e := range k.gone {
		b.forget(e)
	}
	b.compactLater()
}

// keepFaded is how many calls are remembered of a session that has faded.
const keepFaded = 100

// Fade drops the results that are kept of a session that has ended and is settled, and
// remembers its last calls, so that none of them runs again should it be assigned anew.
func (b *Box) Fade(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[sessionID]
	if k == nil {
		return
	}
	for len(k.done) > 0 {
		b.drop(k)
	}
	for len(k.gone) > keepFaded {
		b.forget(k.gone[0])
		k.gone = k.gone[1:]
	}
	b.compactLater()
}

// Sessions lists the sessions of which something is kept.
func (b *Box) Sessions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]string, 0, len(b.kept))
	for id := range b.kept {
		list = append(list, id)
	}
	return list
}

const forgotten = "this call has run before; its result was acknowledged and is no longer kept, and it is not run again"

// unknown is the result of a call of which nothing better is known.
func unknown(e *entry, code protocol.Code, text string) protocol.ToolResultParams {
	return failed(e, code, protocol.ReasonOutcomeUnknown, text)
}

func failed(e *entry, code protocol.Code, reason, text string) protocol.ToolResultParams {
	return protocol.ToolResultParams{
		SessionID: e.session, ToolCallID: e.call, Outcome: protocol.OutcomeFailed, IsError: true,
		Content: []protocol.Content{{Type: protocol.ContentText, Text: text}},
		Error:   &protocol.ToolError{Code: code, Reason: reason, Message: text},
	}
}
