package brain

import (
	"context"
	"errors"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Dial dials an executor that listens, at unix:///path, serves the connection as
// ServeHTTP would serve one that came in, and blocks until it has ended: by either end,
// by Close, or because ctx is done. p is who is there; nobody else vouches for it than
// the token in o, which the executor has compared. The error says why there was no
// connection, as rpc.Dial does, or why it ended; it is nil after a close with 1000 or 1001.
// Whoever wants the executor back dials again.
func (b *Brain) Dial(ctx context.Context, url string, p Principal, o rpc.DialOptions) error {
	if !b.enter() {
		return ErrClosed
	}
	defer b.work.Done()
	if len(o.Subprotocols) == 0 {
		o.Subprotocols = rpc.Subprotocols(b.opts.Dialects)
	}
	dialling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	f, err := rpc.Dial(dialling, url, o)
	switch {
	case err != nil && b.ctx.Err() != nil:
		return ErrClosed
	case err != nil:
		return err
	}
	c := b.connect(f, p)
	defer context.AfterFunc(ctx, func() { c.close(protocol.CloseGoingAway, "going away") })()
	return served(c.serve())
}

// served is why a connection ended, nil when one of the two only left.
func served(err error) error {
	var ce *rpc.CloseError
	if errors.As(err, &ce) && (ce.Code == protocol.CloseNormal || ce.Code == protocol.CloseGoingAway) {
		return nil
	}
	return err
}
