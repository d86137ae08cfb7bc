// Package mcp is the capability that runs MCP servers for the brain: those that an assignment names and
// those that the machine's user has configured (spec section 8).
//
//	ex.Register(mcp.New(mcp.Options{Servers: local}))
//
// A server is a program whose standard input and output are the transport, or is reached over streamable
// HTTP. It is started with the session, gets a channel of its own to the brain, and ends with the session.
// Messages are passed on as they are, in both directions; who does not read holds up who writes. A server
// that fails costs the session nothing but itself: session.ready says how each came up. One that ends is
// started again, a few times, each time with a new channel, since the brain has to initialize it anew.
//
// The parts: table.go the servers of one session, check.go what is wrong with a server that is named,
// server.go one server from its start to its end with all its runs, stdio.go a run of a program, pin.go its
// hash, stderr.go the end of what it complains about; http.go a run over HTTP, post.go one message to it,
// events.go the streams of what comes back; relay.go the way of a message to the brain, lines.go and
// envelope.go how it is taken in.
package mcp

import (
	"context"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// Options configures the capability. Zero fields are the defaults.
type Options struct {
	// Servers are the user's own: every session has them, beside those that its assignment names, and they are
	// started without a question. CheckServers says what is wrong with them.
	Servers []protocol.MCPServer
	// MaxServers is how many one session may have, its own and the user's; 16.
	MaxServers int
	// NoHTTP, when set, says why servers that the brain names are not reached over HTTP: what commands may not
	// do, since they are in a sandbox without a network, the brain is not to do in this way.
	NoHTTP string

	ConnectTimeout time.Duration // where timeout_ms says nothing; 30 s
	// Grace is how long a program has to end when its standard input is closed, and again after a SIGTERM;
	// 1 s.
	Grace time.Duration
	// MaxRestarts within RestartWindow is how often a server that has ended is started again, 3 in 10 minutes;
	// the first time after RestartDelay, 200 ms, which doubles.
	MaxRestarts   int
	RestartWindow time.Duration
	RestartDelay  time.Duration

	// KeepEnv names variables to pass to programs although they look like secrets.
	KeepEnv []string
	// Secrets are credentials of the executor: a variable that contains one is never passed.
	Secrets []string
	// LoginEnv is the environment of the user's login shell; nil asks the shell, once.
	LoginEnv map[string]string
	// Children keeps hold of the programs and what they start; nil does not.
	Children *spawn.Keeper
}

func (o *Options) defaults() {
	for _, n := range []struct {
		field *int
		value int
	}{{&o.MaxServers, 16}, {&o.MaxRestarts, 3}} {
		if *n.field <= 0 {
			*n.field = n.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.ConnectTimeout, 30 * time.Second}, {&o.Grace, time.Second}, {&o.RestartWindow, 10 * time.Minute}, {&o.RestartDelay, 200 * time.Millisecond}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
}

// Servers is the capability. One value serves all sessions at once.
type Servers struct{ options Options }

// New makes the capability. It starts nothing.
func New(o Options) *Servers {
	o.defaults()
	return &Servers{options: o}
}

// Name implements capabilities.Capability.
func (c *Servers) Name() string { return protocol.CapabilityMCP }

// Install implements capabilities.Capability. The error is of the user's own servers.
func (c *Servers) Install(r *capabilities.Registrar) error {
	if err := CheckServers(c.options.Servers); err != nil {
		return err
	}
	r.Advertise(protocol.MCPDetails{Stdio: true, HTTP: c.options.NoHTTP == "", MaxServers: c.options.MaxServers, SecretEnv: true, Servers: c.keys()})
	r.OnSessionStart(c.startSession)
	r.OnSessionEnd(c.endSession)
	return nil
}

// tableKey is where a session keeps its servers.
type tableKey struct{}

// startSession starts the servers, all at once, and says how each came up. None of them keeps the session
// from being ready.
func (c *Servers) startSession(ctx context.Context, s *capabilities.Session) error {
	t := newTable(s, &c.options)
	s.SetValue(tableKey{}, t)
	t.start(ctx)
	return nil
}

// endSession ends the servers and everything that they have started.
func (c *Servers) endSession(s *capabilities.Session) {
	if t, ok := s.Value(tableKey{}).(*table); ok {
		t.close()
	}
}

func (c *Options) login() map[string]string {
	if c.LoginEnv != nil {
		return c.LoginEnv
	}
	return c.Children.Login()
}

// keys are those of the user's own servers.
func (c *Servers) keys() []string {
	var keys []string
	for _, s := range c.options.Servers {
		keys = append(keys, s.ServerKey)
	}
	return keys
}
