package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// connection is one connection to the brain, from the dial to its loss. serve starts
// all its loops and waits for them.
type connection struct {
	e   *Executor
	rpc *rpc.Conn
	log *zap.Logger

	bad       atomic.Int64 // malformed messages
	id        string
	interval  time.Duration // between heartbeats
	beats     int           // heartbeats that were answered
	replay    int           // results that were owed when it was made
	replayed  chan struct{} // closed when each of those was sent and answered
	announced chan struct{} // closed when the ends of sessions that were owed were said
	telling   chan struct{} // holds a token while notices are sent
	delivery  delivery
	failed    chan error // what ends it, told by whoever finds it out
}

func (e *Executor) newConnection(frames rpc.Frames) *connection {
	c := &connection{e: e, log: e.log, replayed: make(chan struct{}), announced: make(chan struct{}), telling: make(chan struct{}, 1), failed: make(chan error, 1)}
	c.delivery = delivery{c: c, retry: newResultRetry(), underWay: map[callID]*shipment{}, resting: map[callID]*rest{}, failed: make(chan error, 1)}
	c.rpc = rpc.NewConn(frames, e.mux, &rpc.Options{
		Dialect:         rpc.DialectOf(e.opts.Dialects, frames.Subprotocol()),
		OnProtocolError: c.malformed,
		OnInternalError: func(method string, err error, stack []byte) {
			e.log.Error("handler failed", zap.String("method", method), zap.Error(err), zap.ByteString("stack", stack))
		},
	})
	e.mu.Lock()
	e.gate = make(chan struct{})
	e.expectLocked(e.opts.RequestTimeout)
	e.mu.Unlock()
	c.rpc.Start()
	return c
}

// malformed logs what the peer got wrong: the first few times, and then now and then,
// so that a broken peer does not fill the disk.
func (c *connection) malformed(err error) {
	if n := c.bad.Add(1); n <= 10 || n%1000 == 0 {
		c.log.Warn("malformed message", zap.Error(err), zap.Int64("so_far", n))
	}
}

// register is the first message of a connection. When it returns, the brain's
// requests are taken.
func (c *connection) register(ctx context.Context) error {
	e := c.e
	e.mu.Lock()
	active := e.activeSessions()
	params := protocol.RegisterParams{
		Protocol:      c.protocol(),
		EnvironmentID: e.opts.EnvironmentID,
		Executor:      e.opts.info(),
		Capabilities:  e.capabilities(),
	}
	if e.executorID != "" {
		params.Resume = &protocol.Resume{ExecutorID: e.executorID, LastConnectionID: e.connectionID, ActiveSessions: active}
	}
	before := e.executorID
	e.mu.Unlock()

	sent := e.lease.now()
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	r, err := rpc.Call(ctx, c.rpc, protocol.ExecutorRegister, params)
	if err != nil {
		var refused *protocol.Error
		if errors.As(err, &refused) && !errors.Is(err, rpc.ErrClosed) {
			return &errRegister{cause: refused}
		}
		return err
	}
	if r.Protocol != "" && r.Protocol != c.protocol() {
		return fmt.Errorf("%w: asked for %s, the brain answered %q", protocol.ErrUnsupportedProtocol, c.protocol(), r.Protocol)
	}
	if r.ConnectionID == "" || r.ExecutorID == "" && before == "" {
		return errors.New("the brain's answer to executor.register has no connection_id or no executor_id")
	}
	c.id = r.ConnectionID
	c.interval = protocol.Millis(r.HeartbeatIntervalMS)
	if c.interval <= 0 {
		c.interval = protocol.DefaultHeartbeatInterval
	}
	c.interval = max(c.interval, minHeartbeat)
	c.rpc.SetMaxSendBytes(r.MaxControlFrameBytes)
	c.rpc.SetMaxReceiveBytes(max(r.MaxControlFrameBytes, protocol.DefaultMaxControlFrame))
	c.rpc.SetBinary(r.BinaryFrames)
	c.rpc.SetParts(r.MessageParts)
	c.log = e.log.With(zap.String("connection", c.id))
	e.lease.renew(sent, leaseTTL(r.LeaseTTLMS))
	if r.ExecutorID == "" {
		r.ExecutorID = before
	}

	e.reconcile(before, r, active)
	c.replay = e.box.Owed()
	e.mu.Lock()
	e.executorID, e.connectionID = r.ExecutorID, r.ConnectionID
	if r.MaxControlFrameBytes > 0 {
		e.maxFrame = r.MaxControlFrameBytes
	}
	e.brainLimits = withDefaults(r.Limits)
	e.channels = channelLimits{resume: r.ChannelResume, maxFrame: r.MaxMCPFrameBytes}
	e.notices.begin(c)
	e.registered(c)
	e.setConn(c)
	close(e.gate)
	e.mu.Unlock()
	e.state.change(r.ExecutorID != before)
	c.log.Info("registered", zap.String("executor_id", r.ExecutorID), zap.Int("results_owed", c.replay),
		zap.Duration("clock_skew", clockSkew(r.ServerTime)))
	e.setState(StateReady, nil)
	if r.Drain {
		e.beginDrain("the brain asked for it", 0)
	}
	return nil
}

// protocol is what the two ends agreed on in the handshake.
func (c *connection) protocol() string {
	return rpc.DialectOf(c.e.opts.Dialects, c.rpc.Subprotocol()).Subprotocol
}

const (
	minHeartbeat = 100 * time.Millisecond
	maxLease     = 365 * 24 * time.Hour // beyond that a lease is for ever, and times do not overflow
)

func leaseTTL(ms int64) time.Duration {
	if ms <= 0 {
		return protocol.DefaultLeaseTTL
	}
	return min(protocol.Millis(ms), maxLease)
}

// clockSkew is for the log only; nothing is decided by the brain's clock.
func clockSkew(server protocol.Time) time.Duration {
	if server.IsZero() {
		return 0
	}
	return time.Until(server.Time).Round(time.Millisecond)
}

// serve runs the loops of the connection until it is lost, one of them fails, or ctx
// is done, and waits for all of them.
func (c *connection) serve(ctx context.Context) (healthy bool, err error) {
	since := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.rpc.Context(), func() { cancel(c.rpc.Err()) })
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{c.heartbeat, c.deliver, c.announce, c.tell, c.renew} {
		loops.Go(func() {
			if err := loop(ctx); err != nil {
				cancel(err)
			}
		})
	}
	select {
	case <-ctx.Done():
	case err := <-c.failed:
		cancel(err)
	}
	stop()
	c.e.mu.Lock()
	c.e.setConn(nil)
	c.e.expectLocked(c.e.opts.RequestTimeout)
	c.e.mu.Unlock()
	c.end(protocol.CloseGoingAway, "")
	loops.Wait()
	cancel(nil)
	err = c.rpc.Err()
	var closed *rpc.CloseError
	if errors.As(err, &closed) && closed.Local {
		err = context.Cause(ctx) // why this end closed it
	}
	return c.beats > 0 && time.Since(since) >= healthyAfter, err
}

// owns reports whether the lease still holds, which is what anything that speaks for
// work of this executor needs. When it does not, the connection ends, and the next one
// says it.
func (c *connection) owns() bool {
	if c.e.lease.valid() {
		return true
	}
	select {
	case c.failed <- errLeaseLost:
	default:
	}
	return false
}

// end closes the connection and waits for its handlers.
func (c *connection) end(code int, reason string) {
	c.rpc.Shutdown(code, reason)
	_ = c.rpc.Close()
}

// setConn makes c the current connection, nil for none. e.mu is held.
func (e *Executor) setConn(c *connection) {
	e.conn = c
	close(e.connChanged)
	e.connChanged = make(chan struct{})
}

// waitConn returns the current connection, and waits for one while there is none.
func (e *Executor) waitConn(ctx context.Context) (*connection, error) {
	for {
		e.mu.Lock()
		c, changed := e.conn, e.connChanged
		e.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// awaitLoss waits until c, which has ended, is no longer the current connection.
func (e *Executor) awaitLoss(ctx context.Context, c *connection) {
	for {
		e.mu.Lock()
		current, changed := e.conn, e.connChanged
		e.mu.Unlock()
		if current != c {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// timeout bounds one request; no answer by then means that the connection is dead
// (spec section 14.4).
func (c *connection) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.e.opts.RequestTimeout)
}

// lateness is the request timeout of what may be large: it begins anew as long as the
// brain reads what is being sent to it, however slowly.
type lateness struct {
	mu    sync.Mutex
	timer *time.Timer // nil when stopped
	moved int64
}

// whenLate calls f after the timeout, unless it is stopped before.
func (c *connection) whenLate(timeout time.Duration, f func(error)) *lateness {
	l := &lateness{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved, _ = c.rpc.Sending()
	l.timer = time.AfterFunc(timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		moved, waiting := c.rpc.Sending()
		switch {
		case l.timer == nil:
		case waiting && moved != l.moved:
			l.moved = moved
			l.timer.Reset(timeout)
		default:
			f(errNoAnswer(timeout))
		}
	})
	return l
}

func errNoAnswer(timeout time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", timeout, context.DeadlineExceeded)
}

// causeOfEnd is why a request ended whose context was cancelled with a cause.
func causeOfEnd(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *lateness) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}
