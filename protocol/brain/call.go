package brain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// owedGrace is how long the result of a call is waited for whose session is gone
// and whose acceptance may have been lost with a connection: results that are owed
// come soon after a reconnect.
const owedGrace = 5 * time.Second

// PendingCall is a tool call that was accepted. Its methods may be called
// concurrently; nothing has to be done to end it.
type PendingCall struct {
	s      *Session
	params protocol.ToolCallParams
	done   chan struct{}

	accepted atomic.Bool

	// Set before done is closed.
	result protocol.ToolResultParams
	err    error
}

// Call has a tool called and waits for the result. input is marshalled to JSON; nil
// is an empty object. It goes on over reconnects under one tool_call_id, and tries
// again what is refused for now. A refusal is a *protocol.Error; what goes wrong
// after the acceptance is in the result. When the context ends the call is
// cancelled, which nobody waits for.
func (s *Session) Call(ctx context.Context, tool string, input any) (protocol.ToolResultParams, error) {
	raw, err := inputJSON(input)
	if err != nil {
		return protocol.ToolResultParams{}, fmt.Errorf("input of %s: %w", tool, err)
	}
	p := protocol.ToolCallParams{SessionID: s.ID(), ToolCallID: uuid.NewString(), Tool: tool, Input: raw}
	if r, err, done := s.quickCall(ctx, p); done {
		return r, err
	}
	c, err := s.Start(ctx, p)
	if err != nil {
		return protocol.ToolResultParams{}, err
	}
	r, err := c.Result(ctx)
	if err == nil || ctx.Err() == nil {
		return r, err
	}
	if !s.give(c, nil) { // it has ended just now
		return c.result, c.err
	}
	s.x.b.behind(func(ctx context.Context) { _, _ = c.Cancel(ctx, "given up") })
	return r, err
}

// quickCall is the way of most calls: it is sent once, and the caller is woken once, by
// the result. Anything else is left to Start, under the same id: then done is false.
func (s *Session) quickCall(ctx context.Context, p protocol.ToolCallParams) (r protocol.ToolResultParams, err error, done bool) {
	conn := s.x.connected()
	if conn == nil || !s.active.Load() {
		return r, nil, false
	}
	c, err := s.call(p)
	if err != nil {
		return r, err, true
	}
	late := time.AfterFunc(protocol.DefaultRequestTimeout, conn.late)
	other := make(chan struct{}) // closed when it was not accepted
	err = rpc.Send(conn.rpc, protocol.ToolCall, p, func(a protocol.AcceptedResult, err error) {
		late.Stop()
		if err != nil || !a.Accepted {
			close(other)
			return
		}
		c.take(conn)
	})
	if err != nil {
		late.Stop()
		return r, nil, false
	}
	select {
	case <-c.done:
		return c.result, c.err, true
	case <-other:
		return r, nil, false
	case <-s.x.b.ctx.Done():
		return r, nil, false
	case <-ctx.Done():
	}
	if !s.give(c, nil) { // it has ended just now
		return c.result, c.err, true
	}
	s.x.b.behind(func(ctx context.Context) { c.cancelUnanswered(ctx, conn) })
	return r, ctx.Err(), true
}

func inputJSON(input any) (json.RawMessage, error) {
	switch v := input.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return v, nil
	default:
		return json.Marshal(v)
	}
}

// Start has a tool called and returns when that was accepted. The session id is
// filled in, and the tool_call_id when it is empty; the same id with the same
// contents is the same call. When the context ends first, the call is cancelled,
// which nobody waits for.
func (s *Session) Start(ctx context.Context, p protocol.ToolCallParams) (*PendingCall, error) {
	p.SessionID = s.ID()
	if p.ToolCallID == "" {
		p.ToolCallID = uuid.NewString()
	}
	c, err := s.call(p)
	if err != nil {
		return nil, err
	}
	a := attempt{settled: c.done, early: s}
	r, err := persist(ctx, s.x, protocol.ToolCall, p, &a)
	if err == nil && r.Accepted {
		c.take(a.conn)
		if !s.active.Load() {
			s.active.Store(true)
		}
		if ce := s.x.b.log.Check(zap.DebugLevel, "call accepted"); ce != nil {
			ce.Write(zap.String("session", p.SessionID), zap.String("call", p.ToolCallID), zap.String("tool", p.Tool))
		}
		return c, nil
	}
	if err == nil {
		err = protocol.Errorf(protocol.CodeInternalError, "the executor did not accept call %s", p.ToolCallID)
	}
	if a.lost && (errors.Is(err, protocol.ErrSessionNotActive) || errors.Is(err, protocol.ErrNotFound)) {
		if errors.Is(s.x.pause(ctx, owedGrace, c.done), errSettled) {
			err = errSettled
		} else { // it may have begun before the connection was lost, and ended with its session
			var refused *protocol.Error
			if errors.As(err, &refused) {
				err = refused.WithReason(protocol.ReasonOutcomeUnknown)
			}
		}
	}
	if errors.Is(err, errSettled) || !s.give(c, err) {
		<-c.done // it has a result, or the session has ended
		return c, c.err
	}
	if a.sent && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		s.x.b.behind(func(ctx context.Context) { c.cancelUnanswered(ctx, a.conn) })
	}
	return nil, err
}

// call finds or makes the call of an id.
func (s *Session) call(p protocol.ToolCallParams) (*PendingCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if c := s.calls[p.ToolCallID]; c != nil {
		if c.params.Tool != p.Tool || !bytes.Equal(c.params.Input, p.Input) {
			return nil, protocol.Errorf(protocol.CodeConflict, "call %s is running with other contents", p.ToolCallID)
		}
		return c, nil
	}
	c := &PendingCall{s: s, params: p, done: make(chan struct{})}
	s.calls[p.ToolCallID] = c
	return c, nil
}

// deliver hands a result to the call that waits for it; false when none does.
func (s *Session) deliver(p protocol.ToolResultParams) bool {
	s.mu.Lock()
	c := s.calls[p.ToolCallID]
	delete(s.calls, p.ToolCallID)
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.result = p
	close(c.done)
	return true
}

func (s *Session) waitsFor(toolCallID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[toolCallID] != nil
}

// give gives up a call; others who wait for it get err. False when it has ended.
func (s *Session) give(c *PendingCall, err error) bool {
	s.mu.Lock()
	waiting := s.calls[c.params.ToolCallID] == c
	if waiting {
		delete(s.calls, c.params.ToolCallID)
	}
	s.mu.Unlock()
	if waiting {
		c.err = cmp.Or(err, error(protocol.ErrCanceled))
		close(c.done)
	}
	return waiting
}

// Cancel cancels a call by its id; Canceled is false when it had ended. The result
// of a cancelled call comes as any other does.
func (s *Session) Cancel(ctx context.Context, toolCallID, reason string) (protocol.ToolCancelResult, error) {
	r, err := persist(ctx, s.x, protocol.ToolCancel,
		protocol.ToolCancelParams{SessionID: s.ID(), ToolCallID: toolCallID, Reason: reason}, &attempt{settled: s.ended})
	if errors.Is(err, errSettled) {
		err = s.Err()
	}
	return r, err
}

// ID is the tool_call_id.
func (c *PendingCall) ID() string { return c.params.ToolCallID }

// Done is closed when Result returns at once.
func (c *PendingCall) Done() <-chan struct{} { return c.done }

// Result waits for the result. The end of the context does not cancel the call.
func (c *PendingCall) Result(ctx context.Context) (protocol.ToolResultParams, error) {
	var err error
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.s.x.b.ctx.Done():
		err = ErrClosed
	}
	select {
	case <-c.done: // a result that is there wins
		return c.result, c.err
	default:
		return protocol.ToolResultParams{}, err
	}
}

// Cancel cancels the call; Canceled is false when it had ended. Its result comes
// still.
func (c *PendingCall) Cancel(ctx context.Context, reason string) (protocol.ToolCancelResult, error) {
	return c.s.Cancel(ctx, c.params.ToolCallID, reason)
}

// cancelUnanswered cancels a call of which it is not known whether it was
// accepted. On the connection it was sent on it is sent again first: once that is
// answered the first one was too, and the cancel overtakes neither.
func (c *PendingCall) cancelUnanswered(ctx context.Context, conn *connection) {
	if conn.alive() {
		r, err := request(ctx, conn, protocol.ToolCall, c.params)
		var refused *protocol.Error
		if errors.As(err, &refused) || err == nil && !r.Accepted {
			return
		}
	}
	_, _ = c.Cancel(ctx, "given up")
}
