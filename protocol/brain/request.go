package brain

import (
	"context"
	"errors"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

const (
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// errSettled says that what was to be asked for has come by other means.
var errSettled = errors.New("settled")

// Do sends one request and waits for its answer, over the current connection, or
// the next one when there is none. It is not repeated: when the connection is lost
// the error wraps rpc.ErrClosed, and whether it was done is unknown. When the
// context has no deadline, a request that is not answered within 30 s (and what
// its params say it may wait) ends the connection, which is taken for dead.
func Do[P, R any](ctx context.Context, x *Executor, m protocol.Method[P, R], p P) (R, error) {
	c, err := x.current(ctx, nil)
	if err != nil {
		var none R
		return none, err
	}
	if _, ok := ctx.Deadline(); ok {
		r, err := rpc.Call(ctx, c.rpc, m, p)
		c.answered(err)
		return r, err
	}
	return request(ctx, c, m, p)
}

// Notify sends one notification, over the current connection, or the next one when
// there is none. Nobody answers it: it may be lost with the connection.
func Notify[P any](ctx context.Context, x *Executor, n protocol.Notification[P], p P) error {
	c, err := x.current(ctx, nil)
	if err != nil {
		return err
	}
	return rpc.Notify(ctx, c.rpc, n, p)
}

// request is one request on one connection, which is dead when it is not answered
// in time.
func request[P, R any](ctx context.Context, c *connection, m protocol.Method[P, R], p P) (R, error) {
	t := time.AfterFunc(protocol.DefaultRequestTimeout+mayWait(&p), c.late)
	var r R
	err := c.rpc.CallRaw(ctx, m.Spec, &p, &r)
	t.Stop()
	c.answered(err)
	return r, err
}

// maxWait keeps a time that a caller may choose from overflowing the timer it is added
// to, which would end the connection at once.
const maxWait = 365 * 24 * time.Hour

// mayWait is how long an answer may be held back on purpose.
func mayWait(params any) time.Duration {
	var ms int64
	switch p := params.(type) {
	case *protocol.ProcessStartParams:
		ms = p.WaitMS
	case *protocol.ProcessReadParams:
		ms = p.WaitMS
	case *protocol.ProcessSignalParams: // of terminate, answered at the end
		if p.GraceMS != nil {
			ms = *p.GraceMS
		}
	case *protocol.SessionStopParams:
		ms = p.DeadlineMS
	}
	return min(protocol.Millis(ms), maxWait)
}

// attempt is a request that is repeated until it is answered. It is written to by
// persist.
type attempt struct {
	settled <-chan struct{} // closed when the answer does not matter any more
	early   *Session        // may have become ready just now
	sent    bool            // the executor may have got it
	lost    bool            // an answer was lost with its connection
	conn    *connection     // the last it was sent on

	busy      time.Duration // how long the executor may say that it is busy; 0: for ever
	busySince time.Time
}

// tooBusy reports whether the executor has been busy for as long as that is waited for.
func (a *attempt) tooBusy(e *protocol.Error) bool {
	switch {
	case a.busy == 0:
		return false
	case e.Code != protocol.CodeExecutorBusy:
		a.busySince = time.Time{}
		return false
	case a.busySince.IsZero():
		a.busySince = time.Now()
	}
	return time.Since(a.busySince) >= a.busy
}

// persist repeats a request that is harmless to repeat, over as many connections
// as it takes, until it gets an answer that is no retryable error. The error is
// the executor's *protocol.Error, errSettled, the context's, or ErrClosed.
func persist[P, R any](ctx context.Context, x *Executor, m protocol.Method[P, R], p P, a *attempt) (R, error) {
	var none R
	for delay := minRetry; ; delay = min(2*delay, maxRetry) {
		c, err := x.current(ctx, a.settled)
		if err != nil {
			return none, err
		}
		a.sent, a.conn = true, c
		r, err := request(ctx, c, m, p)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		if errors.Is(err, rpc.ErrClosed) {
			a.lost, delay = true, minRetry/2
			continue // current waits until there is another one
		}
		var e *protocol.Error
		if !errors.As(err, &e) {
			return none, err
		}
		if !e.Data.Retryable && !a.early.tooEarly(e, c) {
			return none, e
		}
		if a.tooBusy(e) {
			return none, e
		}
		if err := x.pause(ctx, delay, a.settled); err != nil {
			return none, err
		}
	}
}

func (x *Executor) pause(ctx context.Context, d time.Duration, settled <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-settled:
		return errSettled
	case <-ctx.Done():
		return ctx.Err()
	case <-x.b.ctx.Done():
		return ErrClosed
	}
}
