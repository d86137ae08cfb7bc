package executor

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// newMux says who answers which method: the executor itself, a capability, or, for a
// method of a capability that is not there, a refusal that names it.
func (e *Executor) newMux() *rpc.Mux {
	x := rpc.NewMux(e.opts.MaxInFlight)
	rpc.Handle(x, protocol.SessionAssign, gated(e, e.sessionAssign))
	rpc.Handle(x, protocol.SessionStop, gated(e, e.sessionStop))
	rpc.HandleThen(x, protocol.ToolCall, e.toolCall)
	rpc.Handle(x, protocol.ToolCancel, gated(e, e.toolCancel))
	rpc.HandleThen(x, protocol.ExecutorDrain, e.drainRequest)
	rpc.HandleNotification(x, protocol.ExecutorClose, func(_ context.Context, p protocol.CloseParams) {
		e.log.Info("brain closes the connection", zap.String("reason", clip(p.Reason)))
	})
	advertised := e.registry.Capabilities()
	for _, m := range e.registry.Methods() {
		if gate := m.Spec.Capability; gate != "" && !advertised.Has(gate) {
			x.Refuse(m.Spec, errUnavailable(gate))
			continue
		}
		x.HandleRaw(m.Spec, true, e.capabilityMethod(m))
	}
	for _, spec := range protocol.Specs() {
		if spec.From == protocol.Brain && !x.Handles(spec.Name) {
			x.Refuse(spec, errUnavailable(spec.Capability))
		}
	}
	return x
}

// gated holds a request back until the connection it came on is registered: the
// brain may send it right behind its answer to executor.register.
func gated[P, R any](e *Executor, h func(context.Context, P) (R, error)) func(context.Context, P) (R, error) {
	return func(ctx context.Context, p P) (R, error) {
		if err := e.awaitGate(ctx); err != nil {
			var none R
			return none, err
		}
		return h(ctx, p)
	}
}

func (e *Executor) awaitGate(ctx context.Context) error {
	e.mu.Lock()
	gate := e.gate
	e.mu.Unlock()
	select {
	case <-gate:
		return nil
	default:
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// capabilityMethod passes a method on to the capability that registered it, with the
// session it is for. The context ends with the connection or the session.
func (e *Executor) capabilityMethod(m capabilities.RegisteredMethod) rpc.Prepare {
	startsWork := m.Spec.Name == protocol.ProcessStart.Name || m.Spec.Name == protocol.TurnStart.Name
	return func(raw json.RawMessage, data []byte) (string, rpc.Run, error) {
		p, err := m.Prepare(raw, data)
		if err != nil {
			return "", nil, err
		}
		input := e.keptInput(p, raw)
		return p.Lane, func(ctx context.Context) (any, error) {
			if err := e.awaitGate(ctx); err != nil {
				return nil, err
			}
			if m.Machine {
				return e.runMethod(ctx, m.Spec, p, input, e.machine)
			}
			s, err := e.lookup(p.SessionID)
			switch {
			case err != nil:
				return nil, err
			case startsWork && !e.lease.valid():
				return nil, errLeaseExpired()
			case startsWork && e.isDraining():
				return nil, errDraining()
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
			defer stop()
			ctx, answer := capabilities.WithAnswer(ctx)
			result, err := e.runMethod(ctx, m.Spec, p, input, s.caps)
			if then := answer.Then(); then != nil {
				return rpc.Then(result, then), err
			}
			return result, err
		}, nil
	}
}

func errUnavailable(capability string) *protocol.Error {
	return protocol.Errorf(protocol.CodeCapabilityUnavailable, "the capability %q is not available on this executor", capability).WithCapability(capability)
}

// capabilities is what is advertised. e.mu is held.
func (e *Executor) capabilities() protocol.Capabilities {
	c := e.registry.Capabilities()
	e.reroot(c)
	_ = c.Set(protocol.CapabilityBinaryFrames, true) // a bool
	_ = c.Set(protocol.CapabilityMessageParts, true)
	return c
}
