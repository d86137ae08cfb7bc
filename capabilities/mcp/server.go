package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// wishStart is what a policy knows the start of a server that the brain names by.
const wishStart = "mcp.start"

const (
	// longRun is how long a run lasts that the brain has not ended in haste: the next one begins at once.
	longRun = time.Second
	// maxRestartDelay bounds the time before a restart, where many are allowed.
	maxRestartDelay = time.Minute
	// maxReason is how long the reason of a close may be, in bytes.
	maxReason = 120
)

// server is one server of a session, over all its runs. up begins it, in a goroutine of the table; the end
// of the session's context ends it.
type server struct {
	t       *table
	key     string
	spec    protocol.MCPServer
	local   bool
	log     *zap.Logger
	hide    secrets
	group   *spawn.Group // of a program's runs
	crashes []time.Time  // within the window
}

// run is one run of a server: from its start, or the connection to it, to its end.
type run interface {
	// serve passes messages on in both directions until the run has ended, and then ends what is left of it. It
	// does not close the channel.
	serve(ch capabilities.Channel) ending
	// discard ends a run that is not served.
	discard()
}

// ending says why a run has ended.
type ending struct {
	server string // the server has, for this reason
	brain  error  // the channel has
	// Neither: the session has.
}

func newServer(t *table, spec protocol.MCPServer, local bool) *server {
	return &server{t: t, key: spec.ServerKey, spec: spec, local: local, log: t.log.With(zap.String("server", spec.ServerKey)),
		hide: secretsOf(spec.Transport.SecretEnv)}
}

// up starts the server, says how it came up, and leaves it to a goroutine.
func (s *server) up(ctx context.Context) {
	allowed, err := s.ask()
	if err != nil {
		s.t.failed(s.key, err)
		return
	}
	if allowed.Wait != nil {
		s.t.failed(s.key, protocol.Errorf(protocol.CodeMCPUnavailable, "the start of the server waits for the local user's confirmation; its channel comes when that is given").
			WithReason(protocol.ReasonConfirmationPending).WithRetryable(true))
		s.t.work.Go(func() { s.later(allowed) })
		return
	}
	first, err := s.start(ctx)
	if err != nil {
		s.t.failed(s.key, err)
		s.over(allowed, false, err)
		return
	}
	s.log.Info("MCP server is ready", zap.String("transport", s.spec.Transport.Type), zap.Bool("local", s.local))
	s.t.session.SetMCP(s.key, protocol.MCPState{State: stateReady})
	s.t.work.Go(func() { s.over(allowed, true, s.runs(first)) })
}

// later starts a server when the user has let it.
func (s *server) later(allowed capabilities.Permission) {
	ctx := s.t.ctx
	if err := allowed.Wait(ctx); err != nil {
		s.log.Warn("MCP server is not started", zap.Error(err))
		s.over(allowed, false, err)
		return
	}
	first, err := s.start(ctx)
	if err != nil {
		s.log.Warn("MCP server is not available", zap.Error(err))
		_ = s.giveUp(nil, err.Message, "")
		s.over(allowed, false, err)
		return
	}
	s.log.Info("MCP server is ready, as the local user has let it", zap.String("transport", s.spec.Transport.Type))
	s.t.session.SetMCP(s.key, protocol.MCPState{State: stateReady})
	s.over(allowed, true, s.runs(first))
}

func (s *server) over(allowed capabilities.Permission, begun bool, err error) {
	if s.group != nil {
		if survivors := s.group.Close(0); len(survivors) > 0 {
			s.log.Warn("processes survived their MCP server", survivorField(survivors))
		}
	}
	if allowed.Ended != nil {
		allowed.Ended(begun, err)
	}
}

// ask asks for a server that the brain names: it is a command of the brain's like any other.
func (s *server) ask() (capabilities.Permission, *protocol.Error) {
	if s.local {
		return capabilities.Permission{}, nil
	}
	t := s.spec.Transport
	if t.Type == protocol.TransportHTTP && s.t.options.NoHTTP != "" {
		return capabilities.Permission{}, protocol.Errorf(protocol.CodeForbidden, "transport.url: %s", s.t.options.NoHTTP)
	}
	// What is secret is not shown, but another secret is another wish.
	shown := s.spec
	shown.Transport.SecretEnv = map[string]string{}
	for name, value := range t.SecretEnv {
		sum := sha256.Sum256([]byte(name + "=" + value))
		shown.Transport.SecretEnv[name] = "(secret " + hex.EncodeToString(sum[:4]) + ")"
	}
	if u, err := url.Parse(t.URL); err == nil && u.User != nil {
		shown.Transport.URL = u.Redacted()
	}
	input, err := json.Marshal(shown)
	if err != nil {
		return capabilities.Permission{}, protocol.Errorf(protocol.CodeInvalidParams, "mcp_servers: %v", err)
	}
	w := capabilities.Wish{Name: wishStart, ID: s.key, Input: input}
	if t.Type == protocol.TransportStdio {
		w.Effect = capabilities.Effect{Argv: append([]string{t.Command}, t.Args...), Dir: t.Cwd, Env: map[string]string{}, Interactive: true}
		maps.Copy(w.Effect.Env, t.Env)
		maps.Copy(w.Effect.Env, shown.Transport.SecretEnv)
	}
	p := s.t.session.Ask(w)
	if p.Refused != nil {
		return capabilities.Permission{}, asError(p.Refused)
	}
	return p, nil
}

// start starts a run, within the time that is given for it.
func (s *server) start(ctx context.Context) (run, *protocol.Error) {
	limit := s.t.options.ConnectTimeout
	if ms := s.spec.Transport.TimeoutMS; ms > 0 {
		limit = protocol.Millis(ms)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var r run
	var err error
	if s.spec.Transport.Type == protocol.TransportHTTP {
		r, err = s.connect(ctx)
	} else {
		r, err = s.launch(ctx)
	}
	if err != nil {
		e := asError(err)
		e.Message = s.hide.maskString(e.Message)
		return nil, e
	}
	return r, nil
}

// runs is one run after another until the session ends, the brain wants no channel, or the server has ended
// too often, which is the error.
func (s *server) runs(r run) error {
	ctx := s.t.ctx
	for {
		ch, err := s.t.session.Open(ctx, protocol.ChannelTarget{Channel: protocol.ChannelMCP, ServerKey: s.key, Incarnation: rand.Text()})
		if err != nil {
			r.discard()
			if ctx.Err() != nil {
				return nil
			}
			s.log.Warn("no channel for the MCP server", zap.Error(err))
			return err
		}
		since := time.Now()
		guard := s.guarded(ch)
		end := r.serve(guard)
		guard.end()
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			_ = ch.Close(protocol.CloseNormal, "")
			return nil
		case end.brain != nil && !wantsAnother(end.brain):
			s.log.Warn("the channel of the MCP server has ended", zap.Error(end.brain))
			_ = ch.Close(protocol.CloseNormal, "")
			return end.brain
		case end.brain != nil:
			s.log.Info("the brain is done with this run of the MCP server", zap.Error(end.brain))
			_ = ch.Close(protocol.CloseNormal, "")
			if time.Since(since) < longRun {
				wait = s.t.options.RestartDelay
			}
		default:
			var again bool
			if wait, again = s.crashed(); !again {
				return s.giveUp(ch, end.server, s.tooOften())
			}
			s.log.Warn("MCP server has ended and is started again", zap.String("why", end.server), zap.Duration("in", wait))
			_ = ch.Close(protocol.CloseMCPServerExited, short(end.server))
		}
		if r, err = s.again(ctx, wait); err != nil {
			return err
		}
		if r == nil {
			return nil
		}
	}
}

// again starts the next run, after a while; nil when the session has ended.
func (s *server) again(ctx context.Context, wait time.Duration) (run, error) {
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, nil
		}
		r, err := s.start(ctx)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return nil, nil
		}
		more := false
		if wait, more = s.crashed(); !more {
			return nil, s.giveUp(nil, err.Message, s.tooOften())
		}
		s.log.Warn("MCP server does not start and is tried again", zap.Error(err), zap.Duration("in", wait))
	}
}

// wantsAnother says whether the next run has a chance: the brain has closed the channel of this one, or has
// forgotten it.
func wantsAnother(err error) bool {
	var closed *capabilities.ChannelClosed
	return errors.As(err, &closed) || errors.Is(err, capabilities.ErrChannelForgotten)
}

// crashed counts an end of the server, and says whether and after what time it is started again.
func (s *server) crashed() (wait time.Duration, again bool) {
	o, now := s.t.options, time.Now()
	for len(s.crashes) > 0 && now.Sub(s.crashes[0]) >= o.RestartWindow {
		s.crashes = s.crashes[1:]
	}
	if len(s.crashes) >= o.MaxRestarts {
		return 0, false
	}
	s.crashes = append(s.crashes, now)
	return min(o.RestartDelay<<min(len(s.crashes)-1, 10), maxRestartDelay), true
}

// tooOften says why a server is not started again.
func (s *server) tooOften() string {
	o := s.t.options
	return fmt.Sprintf("; not started again after %d restarts in %s", o.MaxRestarts, minutes(o.RestartWindow))
}

// giveUp says to the brain that the server does not come back: on its channel, or on one of its own.
func (s *server) giveUp(ch capabilities.Channel, why, and string) error {
	s.log.Warn("MCP server is not available any more", zap.String("why", why+and))
	if ch == nil {
		var err error
		ch, err = s.t.session.Open(s.t.ctx, protocol.ChannelTarget{Channel: protocol.ChannelMCP, ServerKey: s.key, Incarnation: rand.Text()})
		if err != nil {
			return err
		}
	}
	prefix := protocol.CodeMCPUnavailable.String() + ": "
	_ = ch.Close(protocol.CloseMCPServerExited, prefix+clipTo(why, maxReason-len(prefix)-len(and))+and)
	return protocol.Errorf(protocol.CodeMCPUnavailable, "%s%s", why, and)
}

// minutes is a time in words.
func minutes(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}

// asError is an error in the protocol's words.
func asError(err error) *protocol.Error {
	var known *protocol.Error
	if errors.As(err, &known) {
		one := *known
		return &one
	}
	return protocol.Errorf(protocol.CodeMCPUnavailable, "%v", err)
}

func short(reason string) string { return clipTo(reason, maxReason) }

func survivorField(survivors []spawn.Survivor) zap.Field {
	pids := make([]int, len(survivors))
	for i, s := range survivors {
		pids[i] = s.PID
	}
	return zap.Ints("pids", pids)
}
