package executor

import (
	"context"
	"errors"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// peer is the brain as capabilities see it, over whatever connection there is.
type peer struct{ e *Executor }

// specs are the protocol's own, for what the writer must know of a method.
var specs = func() map[string]protocol.Spec {
	m := map[string]protocol.Spec{}
	for _, s := range protocol.Specs() {
		m[s.Name] = s
	}
	return m
}()

func specOf(method string) protocol.Spec {
	if s, ok := specs[method]; ok {
		return s
	}
	return protocol.Spec{Name: method, From: protocol.Executor}
}

// Notify fails at once when there is no connection. With a context that is done already
// it does not wait, and what fails then is not lost.
func (p peer) Notify(ctx context.Context, method string, params any) error {
	counts := ctx.Err() == nil
	p.e.mu.Lock()
	c := p.e.conn
	p.e.mu.Unlock()
	err := errNoConnection
	if c != nil {
		err = c.rpc.NotifyRaw(ctx, specOf(method), params)
	}
	if err != nil && counts {
		p.e.dropped.Add(1)
	}
	return err
}

// Call waits for a connection, and sends the request again on the next one when the
// answer was lost: every method the executor sends is harmless to repeat.
func (p peer) Call(ctx context.Context, method string, params, result any) error {
	for {
		c, err := p.e.waitConn(ctx)
		if err != nil {
			return err
		}
		attempt, cancel := c.timeout(ctx)
		err = c.rpc.CallRaw(attempt, specOf(method), params, result)
		cancel()
		switch {
		case errors.Is(err, rpc.ErrClosed):
			p.e.awaitLoss(ctx, c)
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		default:
			return err
		}
	}
}
