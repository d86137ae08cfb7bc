package capabilities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Peer is the brain as a capability reaches it, whatever connection there is just
// now. The host implements it; it may be used concurrently. Every call of it is
// bounded by its context.
type Peer interface {
	// Notify sends a notification or fails at once when there is no connection.
	// params is a pointer, which may be a protocol.Blob; it is not used after Notify
	// has returned. With a context that is done already it does not wait for a brain
	// that reads slowly, and fails instead.
	Notify(ctx context.Context, method string, params any) error
	// Call sends a request and decodes the answer into result, a pointer. It waits
	// through a lost connection as long as ctx allows; a refusal of the other end is
	// a *protocol.Error.
	Call(ctx context.Context, method string, params, result any) error
	// Open makes a channel beside the control connection, which is dialled behind its
	// back, and again when it was lost. Who opened it closes it.
	Open(ctx context.Context, t protocol.ChannelTarget) (Channel, error)
}

// Channel is an MCP or terminal channel. It outlives connections: what the brain has not
// taken when one is lost is sent again on the next, if both ends can (spec section 1.5).
// One goroutine may read while another writes; Close may be called from anywhere, also
// twice.
type Channel interface {
	// ReadFrame returns the next frame; the slice is the caller's own. It waits through a
	// lost connection. The error of a channel that the brain has closed is a
	// *ChannelClosed; one that cannot go on, since the brain has forgotten it, is
	// ErrChannelForgotten.
	ReadFrame(ctx context.Context) ([]byte, error)
	// WriteFrame has taken the frame, and its memory, when it returns, and waits while the
	// brain does not take those before. A frame that is too large is refused with
	// payload_too_large, and the channel goes on.
	WriteFrame(ctx context.Context, frame []byte) error
	// Close returns at once; what was written before goes out first.
	Close(code int, reason string) error
}

// ErrChannelForgotten is the end of a channel that the brain does not remember: a message
// may be missing, and nobody knows which.
var ErrChannelForgotten = errors.New("the brain has forgotten the channel")

// ChannelClosed is the end of a channel that the brain has closed.
type ChannelClosed struct {
	Code   int
	Reason string
}

func (e *ChannelClosed) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the channel was closed with code %d", e.Code)
	}
	return fmt.Sprintf("the channel was closed with code %d: %s", e.Code, e.Reason)
}

// SessionConfig is what a host makes a session of. Only Peer is required.
type SessionConfig struct {
	Assign    protocol.SessionAssignParams
	Workspace *Workspace
	Env       map[string]string // for the children of the session, beside the executor's own
	Peer      Peer
	Logger    *zap.Logger // nil: none
	// Working is told of each piece of work that begins, see [Session.Working]; the
	// function it returns is called once, at its end. nil: nobody asks.
	Working func() (done func())
	// Memory keeps what is noted over a restart, see [Session.Note]. nil: nothing is.
	Memory Memory
	// Limits are those of the brain just now, see [Session.Limits]. nil: none are said.
	Limits func() protocol.Limits
	// Ask asks about what a capability begins on the brain's word, see [Session.Ask]. nil: all is done.
	Ask func(s *Session, w Wish) Permission
	// Tell sends a notification at least once, see [Tell]; params is a pointer. nil: it
	// is sent once, when there is a connection.
	Tell func(spec protocol.Spec, params any)
}

// Session is one assignment, from before session.ready until session.ended. It
// outlives connections. Its methods may be called concurrently. The host ends it:
// it cancels the context, waits for the calls, then calls [Registry.EndSession].
type Session struct {
	ctx    context.Context // the session's lifetime; the one context that is kept
	config SessionConfig
	values sync.Map

	mu     sync.Mutex
	spills []string // names of the spill files its calls have made
	mcp    map[string]protocol.MCPState
}

// NewSession makes a session that lives as long as ctx. It starts nothing.
func NewSession(ctx context.Context, c SessionConfig) *Session {
	c.Env = maps.Clone(c.Env)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Session{ctx: ctx, config: c}
}

// ID is the session_id; "" is the machine's session, see [HandleMachine].
func (s *Session) ID() string { return s.config.Assign.SessionID }

// Context ends with the session. What a capability starts for the session derives
// its contexts from it.
func (s *Session) Context() context.Context { return s.ctx }

// Workspace is the part of the file system the session may touch.
func (s *Session) Workspace() *Workspace { return s.config.Workspace }

// Env is what the session's children get beside the executor's own environment.
// The map is the caller's own.
func (s *Session) Env() map[string]string {
	if s.config.Env == nil {
		return map[string]string{}
	}
	return maps.Clone(s.config.Env)
}

// Assign is what the session was assigned with. It is not to be written to.
func (s *Session) Assign() protocol.SessionAssignParams { return s.config.Assign }

// Logger is never nil. Never log params, inputs, environments or tokens.
func (s *Session) Logger() *zap.Logger { return s.config.Logger }

// Working says that something begins for the session that is no call, a process for
// example: a drain waits for it as it waits for calls. done says that it has ended;
// only its first call does something.
func (s *Session) Working() (done func()) {
	if s.config.Working == nil {
		return func() {}
	}
	return sync.OnceFunc(s.config.Working())
}

// Open dials a channel for the session. An empty t.SessionID is the session's
// own. Who opened it closes it, at the latest in OnSessionEnd.
func (s *Session) Open(ctx context.Context, t protocol.ChannelTarget) (Channel, error) {
	if t.SessionID == "" {
		t.SessionID = s.ID()
	}
	return s.config.Peer.Open(ctx, t)
}

// SetMCP says how an MCP server of the session came up, for session.ready; OnSessionStart is the place to
// call it.
func (s *Session) SetMCP(key string, st protocol.MCPState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mcp == nil {
		s.mcp = map[string]protocol.MCPState{}
	}
	s.mcp[key] = st
}

// MCP is what SetMCP was told, by server_key; nil when there is no server. The map is the caller's own.
func (s *Session) MCP() map[string]protocol.MCPState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.mcp)
}

// Value returns what a capability keeps for the session under key, or nil. Like
// the key of a context value it is best of an unexported type of the capability.
func (s *Session) Value(key any) any {
	v, _ := s.values.Load(key)
	return v
}

// SetValue keeps v under key as long as the session; OnSessionStart is the place
// to call it.
func (s *Session) SetValue(key, v any) { s.values.Store(key, v) }

// Notify sends a notification of the session to the brain. It fails when there is
// no connection just now; with a context that is done already, also when it would have
// to wait.
func Notify[P any](ctx context.Context, s *Session, n protocol.Notification[P], params P) error {
	return s.config.Peer.Notify(ctx, n.Name, &params) // a pointer, so that a protocol.Blob is seen as one
}

// Request sends a request of the session to the brain and returns its answer. It
// waits through a lost connection as long as ctx allows; a refusal is a
// *protocol.Error.
func Request[P, R any](ctx context.Context, s *Session, m protocol.Method[P, R], params P) (R, error) {
	var result R
	err := s.config.Peer.Call(ctx, m.Name, &params, &result)
	return result, err
}
