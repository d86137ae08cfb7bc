package brain

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// readyGrace is how long after session.ready, or after a reconnect, the first
// session_not_active is taken for a request that came before the executor had read
// the acknowledgement, which it asks for again when it was lost.
const readyGrace = 2 * time.Second

// Session is one session on an executor, over all its connections, from Assign to
// its end. Its methods may be called concurrently.
type Session struct {
	x        *Executor
	params   protocol.SessionAssignParams
	replaces bool          // an older assignment of the same session
	settled  chan struct{} // closed when it has become ready or has ended
	ended    chan struct{}
	active   atomic.Bool // the executor took a call: it has read the acknowledgement

	mu        sync.Mutex
	assigners int // Assign calls that wait
	readyAt   time.Time
	err       error // why it has ended
	status    protocol.SessionStatusParams
	mcp       map[string]protocol.MCPState
	misses    int
	calls     map[string]*PendingCall // those without a result
	processes map[*Process]struct{}   // those whose end is not known
	wakes     wakes
	followers map[string]func(protocol.ToolProgressParams) // by tool_call_id

	servers mcpServers
}

// ID is the session's id.
func (s *Session) ID() string { return s.params.SessionID }

// Executor is where the session is.
func (s *Session) Executor() *Executor { return s.x }

// Assignment is what the session was assigned with, with what Assign filled in.
func (s *Session) Assignment() protocol.SessionAssignParams { return s.params }

// Status is what the executor said last about the session: one of the
// protocol.Status constants, and a text.
func (s *Session) Status() (status, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Status, s.status.Detail
}

// MCPServers is how the session's MCP servers were when it became ready, by server_key:
// those it was assigned with, and those of the machine's own configuration.
func (s *Session) MCPServers() map[string]protocol.MCPState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mcp
}

// Ended is closed when the session has ended, for whatever reason.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Err says why the session has ended; nil while it lives. It is
// protocol.ErrSessionNotActive after an end by the executor.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Assign gives the executor a session and waits until it is ready. Empty ids, lease
// token and fencing token are filled in. It goes on over reconnects; when the
// context ends first, the session is given up and stopped. To assign a session that
// it has again, with the same work id, returns the same Session; with another work
// id and a higher fencing token (or none) it takes over.
func (x *Executor) Assign(ctx context.Context, p protocol.SessionAssignParams) (*Session, error) {
	return x.assign(ctx, p, 0)
}

// AssignIfRoom is Assign that gives up with the executor's executor_busy when it has been
// that for as long as wait: it has as many sessions as it takes.
func (x *Executor) AssignIfRoom(ctx context.Context, p protocol.SessionAssignParams, wait time.Duration) (*Session, error) {
	return x.assign(ctx, p, max(wait, 1))
}

func (x *Executor) assign(ctx context.Context, p protocol.SessionAssignParams, busy time.Duration) (*Session, error) {
	s, err := x.hold(p)
	if err != nil {
		return nil, err
	}
	a := attempt{settled: s.settled, busy: busy}
	err = s.assign(ctx, &a)
	if s.leave(err) {
		var refused *protocol.Error
		if a.sent && !errors.As(err, &refused) {
			x.b.behind(func(ctx context.Context) {
				_, _ = persist(ctx, x, protocol.SessionStop, protocol.SessionStopParams{SessionID: s.ID(), Reason: "assign given up"}, &attempt{})
			})
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// hold finds or makes the session that p is about.
func (x *Executor) hold(p protocol.SessionAssignParams) (*Session, error) {
	b := x.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	p.SessionID = cmp.Or(p.SessionID, uuid.NewString())
	p.WorkID = cmp.Or(p.WorkID, uuid.NewString())
	var old *Session
	if v, ok := b.sessions.Load(p.SessionID); ok {
		old = v.(*Session)
		if old.x != x {
			return nil, protocol.Errorf(protocol.CodeConflict, "session %s is on executor %s", p.SessionID, old.x.id)
		}
		held := old.params.Lease.FencingToken
		if p.WorkID == old.params.WorkID && (p.Lease.FencingToken == 0 || p.Lease.FencingToken == held) {
			old.mu.Lock()
			old.assigners++
			old.mu.Unlock()
			return old, nil
		}
		if p.Lease.FencingToken != 0 && p.Lease.FencingToken <= held {
			return nil, protocol.Errorf(protocol.CodeConflict, "session %s is held with fencing token %d", p.SessionID, held)
		}
		b.fencing = max(b.fencing, held)
	}
	if p.Lease.FencingToken == 0 {
		// By the clock, so that it rises over restarts of the brain too.
		p.Lease.FencingToken = max(b.fencing+1, time.Now().UnixMicro())
	}
	b.fencing = max(b.fencing, p.Lease.FencingToken)
	p.Lease.Token = cmp.Or(p.Lease.Token, uuid.NewString())

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forgotten {
		return nil, ErrForgotten
	}
	p.EnvironmentID = cmp.Or(p.EnvironmentID, x.env)
	s := &Session{x: x, params: p, replaces: old != nil, assigners: 1,
		settled: make(chan struct{}), ended: make(chan struct{}), calls: map[string]*PendingCall{}}
	x.sessions[p.SessionID] = s
	b.sessions.Store(p.SessionID, s)
	if old != nil {
		old.finish(protocol.Errorf(protocol.CodeSessionNotActive, "session %s was assigned anew", p.SessionID))
	}
	return s, nil
}

// assign repeats session.assign, on each new connection, until the session is
// ready.
func (s *Session) assign(ctx context.Context, a *attempt) error {
	for {
		r, err := persist(ctx, s.x, protocol.SessionAssign, s.params, a)
		switch {
		case errors.Is(err, errSettled):
			return s.Err()
		case err != nil:
			return err
		case !r.Accepted:
			return protocol.Errorf(protocol.CodeForbidden, "the executor did not accept session %s", s.ID()).
				WithReason(protocol.ReasonSessionRejected)
		}
		select {
		case <-s.settled:
			return s.Err()
		case <-a.conn.rpc.Context().Done():
		case <-ctx.Done():
			return ctx.Err()
		case <-s.x.b.ctx.Done():
			return ErrClosed
		}
	}
}

// leave is the end of an Assign. True: the session was given up with it.
func (s *Session) leave(err error) (gaveUp bool) {
	s.mu.Lock()
	s.assigners--
	gaveUp = err != nil && s.assigners == 0 && s.readyAt.IsZero()
	s.mu.Unlock()
	return gaveUp && s.drop(err)
}

// Stop ends the session and waits until the executor has said that it has ended.
// It goes on over reconnects. It returns nil for a session that has ended already.
func (s *Session) Stop(ctx context.Context, reason string) error {
	a := attempt{settled: s.ended}
	for {
		r, err := persist(ctx, s.x, protocol.SessionStop, protocol.SessionStopParams{SessionID: s.ID(), Reason: reason}, &a)
		switch {
		case errors.Is(err, errSettled):
			return nil
		case errors.Is(err, protocol.ErrSessionNotActive), errors.Is(err, protocol.ErrNotFound), err == nil && !r.Stopped:
			s.end("the executor did not have it")
			return nil
		case err != nil:
			return err
		}
		select {
		case <-s.ended:
			return nil
		case <-a.conn.rpc.Context().Done():
		case <-ctx.Done():
			return ctx.Err()
		case <-s.x.b.ctx.Done():
			return ErrClosed
		}
	}
}

// becomeReady is called when the acknowledgement of session.ready is on its way.
func (s *Session) becomeReady(mcp map[string]protocol.MCPState) {
	s.mu.Lock()
	first := s.readyAt.IsZero() && s.err == nil
	if first {
		s.readyAt, s.mcp = time.Now(), mcp
		close(s.settled)
	}
	s.mu.Unlock()
	if first {
		s.x.b.log.Info("session ready", zap.String("session", s.ID()), zap.String("executor", s.x.id))
	}
}

// tooEarly reports whether an error that came over c may be due to an
// acknowledgement of session.ready that the executor has not read yet.
func (s *Session) tooEarly(e *protocol.Error, c *connection) bool {
	if s == nil || e.Code != protocol.CodeSessionNotActive || s.active.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && !s.readyAt.IsZero() && min(time.Since(s.readyAt), time.Since(c.published)) < readyGrace
}

func (s *Session) setStatus(p protocol.SessionStatusParams) {
	s.mu.Lock()
	s.status = p
	s.mu.Unlock()
}

// missed counts the heartbeats in a row that did not name the session; true when
// there were too many.
func (s *Session) missed(yes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !yes || s.readyAt.IsZero() {
		s.misses = 0
		return false
	}
	s.misses++
	return s.misses > 1
}

// isEndOfOlder reports whether a session.ended that comes now is that of the
// assignment which this one took over.
func (s *Session) isEndOfOlder() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaces && s.readyAt.IsZero()
}

// end ends the session for a reason of the executor's.
func (s *Session) end(reason string) {
	s.drop(protocol.Errorf(protocol.CodeSessionNotActive, "session %s has ended: %s", s.ID(), cmp.Or(reason, "no reason given")))
}

// drop takes the session off the tables and ends it; false when it had ended.
func (s *Session) drop(err error) bool {
	b := s.x.b
	b.mu.Lock()
	b.sessions.CompareAndDelete(s.ID(), s)
	s.x.mu.Lock()
	if s.x.sessions[s.ID()] == s {
		delete(s.x.sessions, s.ID())
	}
	s.x.mu.Unlock()
	b.mu.Unlock()
	if !s.finish(err) {
		return false
	}
	b.log.Info("session ended", zap.String("session", s.ID()), zap.String("executor", s.x.id), zap.NamedError("reason", err))
	return true
}

// finish ends the session for all who wait.
func (s *Session) finish(err error) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err = err
	if s.readyAt.IsZero() {
		close(s.settled)
	}
	close(s.ended)
	calls := s.calls
	s.calls = nil
	s.mu.Unlock()
	for _, c := range calls {
		c.err = err
		close(c.done)
	}
	s.servers.end(err)
	return true
}
