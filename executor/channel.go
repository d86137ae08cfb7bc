package executor

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// channelLinger is for how long after its session what was written to a channel before
// may still go out.
const channelLinger = time.Second

// channelLimits are what the brain said of channels when it answered register.
type channelLimits struct {
	resume   bool
	maxFrame int
}

// channel is a channel as capabilities see it.
type channel struct{ *rpc.Channel }

func (c channel) ReadFrame(ctx context.Context) ([]byte, error) {
	frame, err := c.Channel.ReadFrame(ctx)
	return frame, channelError(err)
}

func (c channel) WriteFrame(ctx context.Context, frame []byte) error {
	return channelError(c.Channel.WriteFrame(ctx, frame))
}

// channelError is the end of a channel in the words of package capabilities.
func channelError(err error) error {
	var closed *rpc.CloseError
	switch {
	case errors.As(err, &closed):
		return &capabilities.ChannelClosed{Code: closed.Code, Reason: closed.Reason}
	case errors.Is(err, rpc.ErrNotResumed):
		return errors.Join(capabilities.ErrChannelForgotten, err)
	}
	return err
}

// Open makes a channel of a session, and carries it over one connection after another
// until it has ended, or the session has.
func (p peer) Open(_ context.Context, t protocol.ChannelTarget) (capabilities.Channel, error) {
	e := p.e
	if e.door != nil || e.opts.Dial != nil && e.opts.DialChannel == nil {
		return nil, protocol.Errorf(protocol.CodeCapabilityUnavailable,
			"channels beside the control connection need a brain that can be dialled, and this executor does not dial one")
	}
	e.mu.Lock()
	s, limits := e.sessions[t.SessionID], e.channels
	e.mu.Unlock()
	if s == nil {
		return nil, protocol.Errorf(protocol.CodeSessionNotActive, "session %q is not there", t.SessionID)
	}
	ch := rpc.NewChannel(limits.maxFrame)
	e.work.Go(func() { e.carry(s, ch, t) })
	return channel{ch}, nil
}

// carry dials for a channel, again and again.
func (e *Executor) carry(s *session, ch *rpc.Channel, t protocol.ChannelTarget) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	defer cancel()
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer cancel()
	go func() {
		defer close(ended)
		lingers(ctx, s.gone)
		cancel()
	}()
	log := s.log.With(zap.String("channel", t.Channel), zap.String("server", t.ServerKey))
	delays := newDelays(e.opts.MinBackoff, e.opts.MaxBackoff)
	for {
		since := time.Now()
		err := e.carryOnce(ctx, ch, t)
		switch {
		case ctx.Err() != nil:
			ch.End(protocol.Errorf(protocol.CodeSessionNotActive, "session %s has ended", t.SessionID))
			return
		case ch.Err() != nil:
			return
		case endsChannel(err):
			log.Info("channel ended", zap.Error(err))
			ch.End(err)
			return
		}
		if time.Since(since) >= healthyAfter {
			delays.reset()
		}
		delay := delays.next(err)
		log.Debug("channel lost", zap.Error(err), zap.Duration("retry_in", delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// lingers returns when the session has been gone for a while, or ctx is done.
func lingers(ctx context.Context, gone <-chan struct{}) {
	select {
	case <-gone:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(channelLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// carryOnce carries a channel over one connection, beside the control connection: it is
// dialled when that is there.
func (e *Executor) carryOnce(ctx context.Context, ch *rpc.Channel, t protocol.ChannelTarget) error {
	if _, err := e.waitConn(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	resume := e.channels.resume && t.Incarnation != ""
	e.mu.Unlock()
	frames, err := e.dialChannel(ctx, t, resume)
	if err != nil {
		return err
	}
	return ch.Serve(ctx, frames, resume)
}

func (e *Executor) dialChannel(ctx context.Context, t protocol.ChannelTarget, resume bool) (rpc.Frames, error) {
	given, err := e.creds.get(ctx)
	if err != nil {
		return nil, err
	}
	if !resume {
		t.Incarnation = ""
	}
	if e.opts.DialChannel != nil {
		return e.opts.DialChannel(ctx, given.Token, t)
	}
	brainURL, err := e.brainURL()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(brainURL)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	maps.Copy(query, channelQuery(t))
	u.RawQuery = query.Encode()
	return e.dialURL(ctx, u.String(), given.Token)
}

// channelQuery is what tells the brain which channel is dialled (spec section 1.5).
func channelQuery(t protocol.ChannelTarget) url.Values {
	q := url.Values{"channel": {t.Channel}, "session_id": {t.SessionID}, "server_key": {t.ServerKey}}
	if t.Incarnation != "" {
		q.Set("incarnation", t.Incarnation)
		q.Set("resume", "1")
	}
	return q
}

// endsChannel reports whether an end of a connection is the channel's: closed for its own
// sake, or not served by this brain.
func endsChannel(err error) bool {
	var closed *rpc.CloseError
	if errors.As(err, &closed) {
		switch closed.Code {
		case protocol.CloseGoingAway, protocol.CloseInternal, protocol.CloseServiceRestart, protocol.CloseUnauthorized:
			return false
		}
		return true
	}
	var refused *rpc.DialError
	return errors.As(err, &refused) && refused.Status == http.StatusNotFound || errors.Is(err, rpc.ErrNotResumed)
}
