package brain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// mcpServers are the MCP servers of a session as far as their channels are there. The
// zero value is ready.
type mcpServers struct {
	mu      sync.Mutex
	byKey   map[string]*mcpServer
	changed chan struct{} // closed when a server has come or gone; nil when nobody waits
	err     error         // the session has ended
}

// mcpServer is one run of a server.
type mcpServer struct {
	incarnation string
	ch          *rpc.Channel
	claimed     bool // a client has it
	released    bool // and was closed: the next run is to come
}

// gone reports whether the run is over, and why when it ended by itself. The lock of its
// mcpServers is held.
func (s *mcpServer) gone() (bool, error) {
	err := s.ch.Err()
	return err != nil || s.released, err
}

func (m *mcpServers) wake() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// end ends all channels of the session.
func (m *mcpServers) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	for _, s := range m.byKey {
		s.ch.End(err)
	}
	m.wake()
}

// arrive is the channel of a run of a server whose executor has dialled. A run that is
// not known takes the place of the one before.
func (m *mcpServers) arrive(key, incarnation string) (*mcpServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	s := m.byKey[key]
	if s != nil && incarnation != "" && s.incarnation == incarnation {
		return s, nil
	}
	if s != nil {
		s.ch.End(protocol.Errorf(protocol.CodeMCPUnavailable, "server %s was started anew", key))
	}
	if m.byKey == nil {
		m.byKey = map[string]*mcpServer{}
	}
	s = &mcpServer{incarnation: incarnation, ch: rpc.NewChannel(protocol.DefaultMaxMCPFrame)}
	m.byKey[key] = s
	m.wake()
	return s, nil
}

// ended is the end of a server's channel.
func (m *mcpServers) ended(s *mcpServer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.ch.End(err)
	m.wake()
}

// release says that the client of a run is done with it, which ends it.
func (m *mcpServers) release(s *mcpServer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.released = true
	_ = s.ch.Close(protocol.CloseNormal, "the client has closed it")
}

// claim returns the running server to the one who talks to it, and waits until
// there is one. states are those of session.ready.
func (m *mcpServers) claim(ctx context.Context, key string, states map[string]protocol.MCPState) (*mcpServer, error) {
	for {
		m.mu.Lock()
		s := m.byKey[key]
		over, end := true, error(nil)
		if s != nil {
			over, end = s.gone()
		}
		var err error
		switch {
		case m.err != nil:
			err = m.err
		case !over && !s.claimed:
			s.claimed = true
			m.mu.Unlock()
			return s, nil
		case !over:
			err = protocol.Errorf(protocol.CodeConflict, "server %s is in use; close its other client first", key)
		case errors.Is(end, protocol.ErrMCPUnavailable) && !isRestart(end):
			err = end
		case s == nil && states != nil:
			err = stateError(key, states)
		}
		if err != nil {
			m.mu.Unlock()
			return nil, err
		}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for server %s: %w", key, ctx.Err())
		}
	}
}

// stateError is why a server cannot be had; nil when it is running, or may be soon: the
// local user is asked about it.
func stateError(key string, states map[string]protocol.MCPState) error {
	state, ok := states[key]
	switch {
	case !ok:
		return protocol.Errorf(protocol.CodeNotFound, "server %s: the session has no MCP server of that key", key)
	case state.Error != nil && !state.Error.Retryable:
		return protocol.Errorf(protocol.CodeMCPUnavailable, "server %s: %s", key, state.Error.Message).WithDetail(state.Error.Reason)
	}
	return nil
}

// mcpUnavailable is the beginning of the close reason of a server that is not started
// again.
const mcpUnavailable = "mcp_unavailable"

// exited is the end of a server that has exited.
func exited(key string, e *rpc.CloseError) error {
	return &serverExited{again: !strings.HasPrefix(e.Reason, mcpUnavailable),
		said: protocol.Errorf(protocol.CodeMCPUnavailable, "server %s has exited: %s", key,
			strings.TrimPrefix(strings.TrimPrefix(e.Reason, mcpUnavailable), ": "))}
}

// serverExited is the end of a run of a server.
type serverExited struct {
	said  *protocol.Error
	again bool // it is being started again
}

func (e *serverExited) Error() string { return e.said.Error() }
func (e *serverExited) Unwrap() error { return e.said }

func isRestart(err error) bool {
	var e *serverExited
	return !errors.As(err, &e) || e.again
}

// serveMCP takes the connection of an MCP channel. Who sends the request has to be the
// executor that has the session.
func (b *Brain) serveMCP(w http.ResponseWriter, r *http.Request, p Principal) {
	query := r.URL.Query()
	id, key := query.Get("session_id"), query.Get("server_key")
	s := b.sessionFor(p, id)
	if s == nil || key == "" {
		// The session may be known soon: the executor asks again.
		http.Error(w, fmt.Sprintf("session_id %q or server_key %q: not known here", id, key), http.StatusConflict)
		return
	}
	f := b.upgrade(w, r)
	if f == nil {
		return
	}
	go func() { // not this goroutine: the HTTP server's has a large stack
		defer b.work.Done()
		b.carryMCP(s, key, query.Get("incarnation"), query.Get("resume") == "1", f)
	}()
}

// ServeChannel takes the connection of a channel that is already there and authenticated,
// as ServeFrames takes that of an executor, and blocks until it has ended. The error is
// not_found when the executor of p has no such session, or t is no MCP channel.
func (b *Brain) ServeChannel(f rpc.Frames, p Principal, t protocol.ChannelTarget) error {
	s := b.sessionFor(p, t.SessionID)
	if s == nil || t.Channel != protocol.ChannelMCP || t.ServerKey == "" {
		_ = f.Close(protocol.CloseServiceRestart, "not known here") // it is dialled again
		return protocol.Errorf(protocol.CodeNotFound, "channel %s of session %q: not known here", t.Channel, t.SessionID)
	}
	if !b.enter() {
		_ = f.Close(protocol.CloseGoingAway, "going away")
		return ErrClosed
	}
	defer b.work.Done()
	b.carryMCP(s, t.ServerKey, t.Incarnation, t.Incarnation != "", f)
	return nil
}

// carryMCP carries a channel over one connection.
func (b *Brain) carryMCP(s *Session, key, incarnation string, resume bool, f rpc.Frames) {
	server, err := s.servers.arrive(key, incarnation)
	if err != nil {
		_ = f.Close(protocol.CloseNormal, "the session has ended")
		return
	}
	log := b.log.With(zap.String("session", s.ID()), zap.String("server", key))
	log.Debug("channel connected", zap.Bool("resume", resume))
	err = server.ch.Serve(b.ctx, f, resume)
	log.Debug("channel connection ended", zap.Error(err))
	var closed *rpc.CloseError
	switch {
	case b.ctx.Err() != nil:
		s.servers.ended(server, ErrClosed)
	case errors.As(err, &closed) && closed.Code == protocol.CloseMCPServerExited:
		s.servers.ended(server, exited(key, closed))
	case errors.As(err, &closed) && closed.Code != protocol.CloseGoingAway && closed.Code != protocol.CloseServiceRestart:
		s.servers.ended(server, err)
	case !resume && server.ch.Err() == nil && incarnation == "":
		// Nobody can say what of it was lost.
		s.servers.ended(server, protocol.Errorf(protocol.CodeMCPUnavailable, "the channel of server %s was lost", key))
	}
}

// sessionFor finds a session for a channel of its executor's.
func (b *Brain) sessionFor(p Principal, id string) *Session {
	v, ok := b.sessions.Load(id)
	if !ok {
		return nil
	}
	s := v.(*Session)
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	if p.Name != s.x.owner || p.ExecutorID != "" && p.ExecutorID != s.x.id {
		return nil
	}
	return s
}
