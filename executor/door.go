package executor

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol/rpc"
)

// listenScheme is that of a URL at which this end listens and the brain dials.
const listenScheme = "unix+listen"

// errDoor is wrapped by the error of an attempt to connect that failed since the
// socket could not be made.
var errDoor = errors.New("cannot listen for the brain")

// door is the socket at which the brain dials, in place of being dialled (spec section
// 1.1). Only Run and the connect loop use it.
type door struct {
	path   string
	listen *rpc.Listener // nil while there is none
}

// openDoor makes the socket when the brain is to dial. An error is final: somebody
// else listens there, or nobody can.
func (e *Executor) openDoor() error {
	u, err := url.Parse(e.opts.URL)
	if e.opts.Dial != nil || err != nil || u.Scheme != listenScheme {
		return nil
	}
	d := &door{path: u.Path}
	if err := d.open(e); err != nil {
		return err
	}
	e.door = d
	e.log.Info("listening for the brain", zap.String("socket", d.path))
	return nil
}

func (e *Executor) closeDoor() {
	if e.door != nil && e.door.listen != nil {
		_ = e.door.listen.Close()
	}
}

func (d *door) open(e *Executor) (err error) {
	d.listen, err = rpc.Listen(d.path, rpc.ListenOptions{Token: e.opts.Token, Subprotocols: rpc.Subprotocols(e.opts.Dialects),
		OnRefused: func(status int, err error) {
			e.log.Warn("connection refused", zap.String("socket", d.path), zap.Int("status", status), zap.Error(err))
		}})
	if err != nil {
		d.listen = nil
		return fmt.Errorf("%w: %w", errDoor, err)
	}
	return nil
}

// accept waits for the brain. A socket that was removed meanwhile is made again.
func (d *door) accept(ctx context.Context, e *Executor) (rpc.Frames, error) {
	if d.listen == nil {
		if err := d.open(e); err != nil {
			return nil, err
		}
		e.log.Info("listening for the brain again", zap.String("socket", d.path))
	}
	f, err := d.listen.Accept(ctx)
	if err != nil && ctx.Err() == nil {
		_ = d.listen.Close()
		d.listen = nil
	}
	return f, err
}
