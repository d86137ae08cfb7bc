package brain

import (
	"context"
	"net/http"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// handle fills the table of what executors send. What the rest of the protocol
// needs is added beside it by Options.Handle.
func (b *Brain) handle(x *rpc.Mux) {
	rpc.HandleThen(x, protocol.ExecutorRegister, func(ctx context.Context, p protocol.RegisterParams) (protocol.RegisterResult, func(), error) {
		return b.connection(ctx).register(p)
	})
	rpc.Handle(x, protocol.ExecutorHeartbeat, after(b, func(_ context.Context, c *connection, p protocol.HeartbeatParams) (protocol.HeartbeatResult, error) {
		return c.heartbeat(p)
	}))
	rpc.Handle(x, protocol.ExecutorTokenRefresh, after(b, b.tokenRefresh))
	rpc.HandleThen(x, protocol.SessionReady, b.sessionReady)
	rpc.Handle(x, protocol.SessionEnded, after(b, b.sessionEnded))
	rpc.Handle(x, protocol.ToolResult, after(b, b.toolResult))
	if b.opts.OnWake != nil {
		rpc.Handle(x, protocol.SessionWake, after(b, b.sessionWake))
	}

	rpc.HandleNotification(x, protocol.ExecutorCapabilitiesUpdate, func(ctx context.Context, p protocol.CapabilitiesUpdateParams) {
		if x, ok := b.From(ctx); ok {
			x.setCapabilities(p.Capabilities)
		}
	})
	rpc.HandleNotification(x, protocol.ExecutorClose, func(ctx context.Context, p protocol.CloseParams) {
		if x, ok := b.From(ctx); ok {
			b.log.Info("executor leaves", zap.String("executor", x.id), zap.String("reason", p.Reason))
		}
	})
	rpc.HandleNotification(x, protocol.SessionStatus, func(ctx context.Context, p protocol.SessionStatusParams) {
		if s := b.sessionOf(b.connection(ctx), p.SessionID); s != nil {
			s.setStatus(p)
		}
	})
	rpc.HandleNotification(x, protocol.ProcessStatus, func(ctx context.Context, p protocol.ProcessStatusParams) {
		if s := b.sessionOf(b.connection(ctx), p.SessionID); s != nil {
			s.processStatus(p)
		}
	})
	rpc.HandleNotification(x, protocol.ToolProgress, func(ctx context.Context, p protocol.ToolProgressParams) {
		s := b.sessionOf(b.connection(ctx), p.SessionID)
		if s == nil {
			return
		}
		s.progress(p)
		if b.opts.OnProgress != nil {
			b.opts.OnProgress(p)
		}
	})
}

// From tells a handler whose message it handles; false before executor.register.
func (b *Brain) From(ctx context.Context) (*Executor, bool) {
	x := b.connection(ctx).executor.Load()
	return x, x != nil
}

// connection is that of the message being handled.
func (b *Brain) connection(ctx context.Context) *connection {
	if c, ok := b.conns.Load(rpc.FromContext(ctx)); ok {
		return c.(*connection)
	}
	return &connection{b: b} // not one of this Brain's
}

// after makes a handler of what is only answered after executor.register. The
// error is retryable, so that nothing is taken for lost because of it.
func after[P, R any](b *Brain, h func(context.Context, *connection, P) (R, error)) func(context.Context, P) (R, error) {
	return func(ctx context.Context, p P) (R, error) {
		c := b.connection(ctx)
		if err := c.registered(); err != nil {
			var none R
			return none, err
		}
		return h(ctx, c, p)
	}
}

// registered returns an error before executor.register.
func (c *connection) registered() error {
	if c.executor.Load() == nil {
		return protocol.Errorf(protocol.CodeUnauthorized, "executor.register has to come first").WithRetryable(true)
	}
	c.heard()
	return nil
}

// sessionOf finds a session that the connection's executor has.
func (b *Brain) sessionOf(c *connection, id string) *Session {
	if v, ok := b.sessions.Load(id); ok {
		if s := v.(*Session); s.x == c.executor.Load() {
			return s
		}
	}
	return nil
}

// tokenRefresh takes a new token in place of the one the connection was opened
// with, if it is the same executor's.
func (b *Brain) tokenRefresh(ctx context.Context, c *connection, p protocol.TokenRefreshParams) (protocol.TokenRefreshResult, error) {
	var result protocol.TokenRefreshResult
	if b.opts.Authenticate == nil || c.origin == nil {
		return result, nil
	}
	r := c.origin.WithContext(ctx)
	r.Header = http.Header{"Authorization": {"Bearer " + p.Token}}
	principal, err := b.opts.Authenticate(r)
	if err != nil {
		return result, err
	}
	until := principal.ExpiresAt
	principal.ExpiresAt = c.principal.ExpiresAt
	if principal != c.principal {
		return result, protocol.Errorf(protocol.CodeForbidden, "token: it is not this executor's")
	}
	c.goodUntil(until)
	result.ExpiresAt = protocol.At(until)
	return result, nil
}

// sessionReady is acknowledged for any session: one that is not held any more is
// stopped or ended by other means. Requests behind the acknowledgement are taken by
// the executor, and none before it. When it is lost with the connection,
// session.ready comes again.
func (b *Brain) sessionReady(ctx context.Context, p protocol.SessionReadyParams) (protocol.AcceptedResult, func(), error) {
	c := b.connection(ctx)
	if err := c.registered(); err != nil {
		return protocol.AcceptedResult{}, nil, err
	}
	s := b.sessionOf(c, p.SessionID)
	if s == nil || p.WorkID != "" && p.WorkID != s.params.WorkID {
		return protocol.AcceptedResult{Accepted: true}, nil, nil
	}
	return protocol.AcceptedResult{Accepted: true}, func() {
		if c.alive() {
			s.becomeReady(p.MCP)
		}
	}, nil
}

func (b *Brain) sessionEnded(_ context.Context, c *connection, p protocol.SessionEndedParams) (protocol.AcceptedResult, error) {
	if s := b.sessionOf(c, p.SessionID); s != nil && !s.isEndOfOlder() {
		s.end(p.Reason)
	}
	return protocol.AcceptedResult{Accepted: true}, nil
}

// toolResult stores a result, hands it to whoever waits for it, and only then
// acknowledges it. A result nobody waits for is stored and acknowledged too.
func (b *Brain) toolResult(ctx context.Context, c *connection, p protocol.ToolResultParams) (protocol.AcceptedResult, error) {
	var answer protocol.AcceptedResult
	var s *Session
	if v, ok := b.sessions.Load(p.SessionID); ok {
		s = v.(*Session)
		if s.x != c.executor.Load() {
			if s.waitsFor(p.ToolCallID) {
				return answer, protocol.Errorf(protocol.CodeForbidden, "session_id: another executor has this session")
			}
			s = nil
		}
	}
	fresh, err := b.put(ctx, p)
	if err != nil {
		b.log.Warn("result not stored", zap.String("session", p.SessionID), zap.String("call", p.ToolCallID), zap.Error(err))
		return answer, protocol.Errorf(protocol.CodeResourceUnavailable, "the result cannot be stored now")
	}
	// Fresh or not: whoever still waits has not seen it.
	taken := s != nil && s.deliver(p)
	if ce := b.log.Check(zap.DebugLevel, "result stored"); ce != nil {
		ce.Write(zap.String("session", p.SessionID), zap.String("call", p.ToolCallID),
			zap.String("outcome", p.Outcome), zap.Bool("fresh", fresh), zap.Bool("awaited", taken))
	}
	answer.Accepted = true
	return answer, nil
}

// put stores a result. A panic is an error like any other: the executor must not
// take the result for lost.
func (b *Brain) put(ctx context.Context, p protocol.ToolResultParams) (fresh bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			b.log.Error("results panicked", zap.Any("panic", v), zap.Stack("stack"))
			err = protocol.ErrResourceUnavailable
		}
	}()
	return b.opts.Results.Put(ctx, p)
}
