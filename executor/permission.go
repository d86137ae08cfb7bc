package executor

import (
	"context"
	"errors"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/protocol"
)

// askAbout asks the gate about what a capability begins on the brain's word, as about a method.
func (e *Executor) askAbout(s *capabilities.Session, w capabilities.Wish) capabilities.Permission {
	if e.opts.Decide == nil {
		return capabilities.Permission{}
	}
	r := e.request(s)
	r.Name, r.Method, r.ID, r.Input, r.Effect = w.Name, true, w.ID, w.Input, w.Effect
	verdict := e.opts.Decide(r)
	if verdict.Refuse != nil {
		return capabilities.Permission{Refused: verdict.Refuse}
	}
	p := capabilities.Permission{}
	if verdict.Ended != nil {
		p.Ended = func(begun bool, err error) { verdict.Ended(endOf(begun, err)) }
	}
	if verdict.Wait != nil {
		p.Wait = func(ctx context.Context) error { return e.awaitDecision(ctx, verdict.Wait) }
	}
	return p
}

func endOf(begun bool, err error) gate.End {
	end := gate.End{Outcome: protocol.OutcomeSucceeded, IsError: err != nil, Reason: reasonIn(err)}
	switch {
	case !begun:
		end.Outcome = gate.NotStarted
	case err != nil:
		end.Outcome = protocol.OutcomeFailed
	}
	return end
}

// awaitDecision waits as long as ctx and the executor last.
func (e *Executor) awaitDecision(ctx context.Context, wait func(context.Context) error) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.staying, func() { cancel(errLeaving) })
	defer stop()
	err := wait(waiting)
	switch {
	case waiting.Err() == nil:
		return err
	case errors.Is(context.Cause(waiting), errLeaving):
		return errDraining()
	}
	return ctx.Err()
}
