package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/protocol"
)

// confirmationWait is how long a method waits for the local user before the brain is told to ask again (spec
// section 6).
const confirmationWait = 25 * time.Second

// decideCall asks the gate about a tool's call, before it is accepted.
func (e *Executor) decideCall(s *session, p protocol.ToolCallParams, effect func() capabilities.Effect) gate.Verdict {
	alwaysAsk := p.Permission != nil && p.Permission.Mode == protocol.PermissionAlwaysAsk
	if e.opts.Decide == nil {
		if alwaysAsk { // without anybody to ask, running it would be the wrong answer
			return gate.Verdict{Wait: func(context.Context) error { return errNobodyToAsk }}
		}
		return gate.Verdict{}
	}
	r := e.request(s.caps)
	r.Name, r.ID, r.Input, r.Effect, r.AlwaysAsk = p.Tool, p.ToolCallID, p.Input, effect(), alwaysAsk
	return e.opts.Decide(r)
}

func (e *Executor) request(s *capabilities.Session) gate.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := gate.Request{Brain: e.knownURL(), ExecutorID: e.executorID, Session: s}
	if e.conn != nil {
		r.ConnectionID = e.connectionID
	}
	return r
}

// waits makes a handler that waits for its confirmation first. What a tool counts for its timeout begins after
// that.
func (c *call) waits(wait func(context.Context) error, handler capabilities.ToolHandler) capabilities.ToolHandler {
	return func(ctx context.Context, caps *capabilities.Call) (protocol.ToolOutput, error) {
		if err := c.confirm(ctx, wait); err != nil {
			return protocol.ToolOutput{}, err
		}
		return handler(ctx, caps)
	}
}

// confirm waits until the call may run. Its end, the session's and a drain end the waiting.
func (c *call) confirm(ctx context.Context, wait func(context.Context) error) error {
	e := c.s.e
	e.box.Waiting(c.params.SessionID, c.params.ToolCallID)
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.staying, func() { cancel(errLeaving) })
	defer stop()
	c.caps.Progress("waiting for the local user's confirmation")
	err := wait(waiting)
	if err == nil && waiting.Err() == nil {
		e.box.Started(c.params.SessionID, c.params.ToolCallID)
		return nil
	}
	c.refused.Store(true)
	switch {
	case ctx.Err() == nil && waiting.Err() != nil:
		return errLeaving
	case ctx.Err() != nil:
		return causeOf(ctx).WithDetail("it waited for the local user's confirmation and had not started")
	}
	return err
}

// tellEnd tells the gate how the call has ended.
func (c *call) tellEnd(r protocol.ToolResultParams) {
	if c.ended == nil {
		return
	}
	end := gate.End{Outcome: r.Outcome, IsError: r.IsError, Mutations: r.Mutations}
	if r.Error != nil {
		end.Reason = r.Error.Reason
	}
	c.ended(end)
}

// notStarted tells the gate that the call was not accepted after all.
func (c *call) notStarted(err error) {
	if c.ended != nil {
		c.ended(gate.End{Outcome: gate.NotStarted, Reason: reasonIn(err)})
	}
}

func reasonIn(err error) string {
	var e *protocol.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Reason()
	}
	return protocol.CodeInternalError.String()
}

// keptInput is what the gate gets of a method's params; nil when it is not asked, or they are data.
func (e *Executor) keptInput(p capabilities.Prepared, raw json.RawMessage) json.RawMessage {
	if e.opts.Decide == nil || p.Effect.ReadOnly || p.Effect.Follows {
		return nil
	}
	return bytes.Clone(raw)
}

// runMethod runs a method of a capability, after the gate has let it through.
func (e *Executor) runMethod(ctx context.Context, spec protocol.Spec, p capabilities.Prepared, input json.RawMessage, s *capabilities.Session) (any, error) {
	if e.opts.Decide == nil || p.Effect.ReadOnly {
		return p.Run(ctx, s)
	}
	r := e.request(s)
	r.Name, r.Method, r.ID, r.Input, r.Effect = spec.Name, true, p.ID, input, p.Effect
	verdict := e.opts.Decide(r)
	if verdict.Refuse != nil {
		return nil, verdict.Refuse
	}
	ended := verdict.Ended
	if ended == nil {
		ended = func(gate.End) {}
	}
	if verdict.Wait != nil {
		pending, err := e.awaitConfirmation(ctx, verdict.Wait)
		if err != nil {
			if !pending {
				ended(gate.End{Outcome: gate.NotStarted, Reason: reasonIn(err)})
			}
			return nil, err
		}
	}
	result, err := p.Run(ctx, s)
	end := gate.End{Outcome: protocol.OutcomeSucceeded, IsError: err != nil, Reason: reasonIn(err)}
	if err != nil {
		end.Outcome = protocol.OutcomeFailed
	}
	ended(end)
	return result, err
}

// awaitConfirmation waits for the decision on a method. pending: there is none yet, and the brain may ask again.
func (e *Executor) awaitConfirmation(ctx context.Context, wait func(context.Context) error) (pending bool, err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, confirmationWait, errPending)
	defer cancel()
	waiting, leave := context.WithCancelCause(waiting)
	defer leave(nil)
	stop := context.AfterFunc(e.staying, func() { leave(errLeaving) })
	defer stop()
	err = wait(waiting)
	switch {
	case waiting.Err() == nil:
		return false, err
	case ctx.Err() != nil:
		return true, ctx.Err()
	case errors.Is(context.Cause(waiting), errLeaving):
		return false, errDraining()
	}
	return true, errPending
}

var errPending = protocol.Errorf(protocol.CodeExecutorBusy, "the local user has not decided yet; ask again with the same id").
	WithReason(protocol.ReasonConfirmationPending)
