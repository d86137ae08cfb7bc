package executor

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// The table of sessions: which there are, which is meant, and which the brain still
// holds.

// fence remembers the token of a session that has ended. e.mu is held.
func (e *Executor) fence(p protocol.SessionAssignParams) {
	e.fences.held(p.SessionID, p.Lease.FencingToken)
	faded, forgotten := e.fences.ended(p.SessionID)
	if faded != "" {
		e.box.Fade(faded)
	}
	if forgotten != "" {
		e.box.Forget(forgotten)
	}
}

// reconcile ends what the brain no longer holds, after a register with resume, and
// confirms the rest.
func (e *Executor) reconcile(before string, r protocol.RegisterResult, resumed []string) {
	held := map[string]bool{}
	if r.Sessions != nil {
		for _, id := range *r.Sessions {
			held[id] = true
		}
	}
	other := before != "" && r.ExecutorID != before
	for _, id := range resumed {
		e.mu.Lock()
		s := e.sessions[id]
		e.mu.Unlock()
		switch {
		case s == nil:
		case !other && (r.Sessions == nil || held[id]):
			s.confirm()
		default:
			e.log.Warn("session is not held by the brain", zap.String("session", id))
			e.work.Go(func() { s.end(errNotHeld, "") })
		}
	}
}

// activeSessions are those told to the brain. e.mu is held.
func (e *Executor) activeSessions() []string {
	ids := make([]string, 0, len(e.sessions))
	for id := range e.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// lookup returns the session when it is active.
func (e *Executor) lookup(id string) (*session, error) {
	e.mu.Lock()
	s := e.sessions[id]
	e.mu.Unlock()
	if s == nil {
		return nil, protocol.Errorf(protocol.CodeSessionNotActive, "session_id: %q is not a session of this executor", clip(id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case phaseActive:
		return s, nil
	case phasePreparing:
		if s.restored { // to the brain it may be active: it need not be told an end
			return nil, errRestoring(id)
		}
		return nil, protocol.Errorf(protocol.CodeSessionNotActive, "session_id: %q is not ready; wait for session.ready and acknowledge it", clip(id))
	default:
		return nil, protocol.Errorf(protocol.CodeSessionNotActive, "session_id: %q has ended", clip(id))
	}
}

// clip keeps a peer's string short in a message.
func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
