package brain

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// refuseDelay is for how long a connection that was refused may close itself.
const refuseDelay = 200 * time.Millisecond

// connection is one executor's connection, from its first byte to its last.
type connection struct {
	b         *Brain
	rpc       *rpc.Conn
	principal Principal
	origin    *http.Request // what a refreshed token is checked with; nil = none
	kick      chan struct{} // something below has changed
	late      func()        // a request was not answered in time

	executor  atomic.Pointer[Executor] // set by register
	named     bool                     // with an id that its executor did not have before
	confirmed atomic.Bool              // the executor has read the answer to register

	published time.Time // when it was attached to its executor

	mu     sync.Mutex
	id     string
	result *protocol.RegisterResult // what register was answered with
	binary bool                     // the executor takes binary messages
	parts  bool                     // and messages in parts

	// What has to happen at what time; zero = not.
	endAt   time.Time // the register timeout, later the lease
	goodTo  time.Time // the credential
	closeAt time.Time
	closing rpc.CloseError
}

// connect makes a connection. b.enter was called for it.
func (b *Brain) connect(f rpc.Frames, p Principal) *connection {
	c := &connection{b: b, principal: p, kick: make(chan struct{}, 1), endAt: time.Now().Add(registerTimeout), goodTo: p.ExpiresAt}
	c.late = func() { c.close(protocol.CloseInternal, "a request was not answered in time") }
	c.rpc = rpc.NewConn(f, b.mux, &rpc.Options{
		Dialect:         rpc.DialectOf(b.opts.Dialects, f.Subprotocol()),
		OnProtocolError: func(err error) { b.log.Debug("message ignored", zap.Error(err)) },
		OnInternalError: func(method string, err error, stack []byte) {
			b.log.Error("handler failed", zap.String("method", method), zap.Error(err), zap.ByteString("stack", stack))
		},
	})
	return c
}

// serve is the connection's life. It returns when everything of it has ended.
func (c *connection) serve() error {
	c.b.conns.Store(c.rpc, c)
	defer c.b.conns.Delete(c.rpc)
	if c.b.ctx.Err() != nil { // Shutdown may have looked before
		c.close(protocol.CloseGoingAway, "going away")
	}
	c.rpc.Start()
	timer := time.NewTimer(registerTimeout)
	defer timer.Stop()
	for lost := c.rpc.Context().Done(); ; {
		select {
		case <-lost:
			if x := c.executor.Load(); x != nil {
				x.detach(c)
			}
			<-c.rpc.Done()
			c.logEnd()
			return c.rpc.Err()
		case <-c.kick:
		case <-timer.C:
		}
		timer.Reset(c.step())
	}
}

// step does what is due and returns how long until something is.
func (c *connection) step() time.Duration {
	c.mu.Lock()
	now := time.Now()
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	end := c.closing
	switch {
	case due(c.closeAt):
	case due(c.endAt) && c.result == nil:
		end = rpc.CloseError{Code: protocol.ClosePolicy, Reason: "executor.register did not come"}
	case due(c.endAt):
		end = rpc.CloseError{Code: protocol.CloseLeaseExpired, Reason: "no heartbeat within the lease"}
	case due(c.goodTo):
		end = rpc.CloseError{Code: protocol.CloseUnauthorized, Reason: "the token has run out"}
	default:
		end.Code = 0
	}
	next := time.Hour
	for _, t := range []time.Time{c.endAt, c.goodTo, c.closeAt} {
		if !t.IsZero() {
			next = min(next, t.Sub(now))
		}
	}
	c.mu.Unlock()

	if end.Code != 0 {
		c.rpc.Shutdown(end.Code, end.Reason) // then its context ends
		return time.Hour
	}
	return max(next, 0)
}

// goodUntil says when the credential ends that the connection has by now.
func (c *connection) goodUntil(t time.Time) {
	c.mu.Lock()
	c.goodTo = t
	c.mu.Unlock()
	c.wake()
}

// close ends the connection soon; only the first call has an effect.
func (c *connection) close(code int, reason string) { c.closeAfter(0, code, reason) }

func (c *connection) closeAfter(d time.Duration, code int, reason string) {
	c.mu.Lock()
	if c.closeAt.IsZero() {
		c.closeAt, c.closing = time.Now().Add(d), rpc.CloseError{Code: code, Reason: reason}
	}
	c.mu.Unlock()
	c.wake()
}

func (c *connection) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// alive is false as soon as nothing can be sent any more.
func (c *connection) alive() bool { return c.rpc.Err() == nil }

// refuse refuses a registration: an error, and the close code it stands for.
func (c *connection) refuse(code int, e *protocol.Error) (protocol.RegisterResult, func(), error) {
	c.b.log.Info("registration refused", zap.String("principal", c.principal.Name), zap.Error(e))
	c.closeAfter(refuseDelay, code, e.Message) // the peer that understands the error closes before
	return protocol.RegisterResult{}, nil, e
}

// register answers executor.register. A repeat on the same connection gets the
// same answer. Behind the answer the executor may be sent requests.
func (c *connection) register(p protocol.RegisterParams) (protocol.RegisterResult, func(), error) {
	b := c.b
	spoken := rpc.DialectOf(b.opts.Dialects, c.rpc.Subprotocol()).Subprotocol
	if p.Protocol != spoken {
		return c.refuse(protocol.CloseUnsupportedProtocol, protocol.Errorf(protocol.CodeUnsupportedProtocol,
			"protocol %q is not spoken here; this end speaks %s", p.Protocol, spoken))
	}
	if env := c.principal.EnvironmentID; env != "" && p.EnvironmentID != "" && p.EnvironmentID != env {
		return c.refuse(protocol.CloseRegistrationRefused, protocol.Errorf(protocol.CodeForbidden,
			"the credential is for another environment"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result != nil {
		return *c.result, nil, nil
	}
	c.id = uuid.NewString()
	c.binary = p.Capabilities.Has(protocol.CapabilityBinaryFrames)
	c.parts = p.Capabilities.Has(protocol.CapabilityMessageParts)
	x, sessions := b.adopt(c, p)
	if x == nil {
		return protocol.RegisterResult{}, nil, protocol.Errorf(protocol.CodeResourceUnavailable, "the brain is going away")
	}
	now := time.Now()
	c.endAt = now.Add(b.opts.LeaseTTL)
	c.result = &protocol.RegisterResult{
		ConnectionID: c.id, ExecutorID: x.id, Protocol: spoken,
		HeartbeatIntervalMS:  b.opts.HeartbeatInterval.Milliseconds(),
		LeaseTTLMS:           b.opts.LeaseTTL.Milliseconds(),
		ServerTime:           protocol.At(now),
		Limits:               b.opts.Limits,
		MaxControlFrameBytes: b.opts.MaxControlFrameBytes,
		MaxMCPFrameBytes:     protocol.DefaultMaxMCPFrame,
		Sessions:             &sessions,
		BinaryFrames:         true,
		MessageParts:         true,
		ChannelResume:        true,
	}
	// A larger limit holds from now on, a smaller one once the peer knows it.
	c.rpc.SetMaxReceiveBytes(max(b.opts.MaxControlFrameBytes, protocol.DefaultMaxControlFrame))
	c.executor.Store(x)
	c.wake()
	return *c.result, c.publish, nil
}

// publish makes the connection the one its executor is reached by: the answer to
// register is on its way.
func (c *connection) publish() {
	c.rpc.SetMaxReceiveBytes(c.b.opts.MaxControlFrameBytes)
	c.rpc.SetMaxSendBytes(c.b.opts.MaxControlFrameBytes)
	c.rpc.SetBinary(c.binary)
	c.rpc.SetParts(c.parts)
	c.published = time.Now()
	x := c.executor.Load()
	x.attach(c)
	x.repeat(c)
}

// heartbeat renews the lease.
func (c *connection) heartbeat(p protocol.HeartbeatParams) (protocol.HeartbeatResult, error) {
	c.mu.Lock()
	if p.ConnectionID != c.id {
		c.mu.Unlock()
		return protocol.HeartbeatResult{}, protocol.Errorf(protocol.CodeConflict, "connection_id: not that of this connection")
	}
	now := time.Now()
	c.endAt = now.Add(c.b.opts.LeaseTTL) // the timer finds that out when it fires
	c.mu.Unlock()
	c.executor.Load().beat(p, now)
	return protocol.HeartbeatResult{LeaseTTLMS: c.b.opts.LeaseTTL.Milliseconds(), ServerTime: protocol.At(now)}, nil
}

func (c *connection) logEnd() {
	fields := []zap.Field{zap.String("connection", c.id), zap.Error(c.rpc.Err())}
	if x := c.executor.Load(); x != nil {
		fields = append(fields, zap.String("executor", x.id))
	}
	var ce *rpc.CloseError
	if errors.As(c.rpc.Err(), &ce) {
		fields = append(fields, zap.Int("code", ce.Code))
	}
	c.b.log.Info("connection ended", fields...)
}
