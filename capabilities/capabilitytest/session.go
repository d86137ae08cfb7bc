package capabilitytest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Host has capabilities installed, for any number of sessions. The test's cleanup
// ends it.
type Host struct {
	Registry *capabilities.Registry
	Peer     *Peer

	machine *capabilities.Session
	count   atomic.Int64
}

// NewHost installs capabilities. When the test ends, the machine's session ends
// and the capabilities are closed, after all sessions.
func NewHost(t testing.TB, caps ...capabilities.Capability) *Host {
	t.Helper()
	h := &Host{Registry: capabilities.NewRegistry(nil), Peer: &Peer{}}
	for _, c := range caps {
		if err := h.Registry.Install(c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	workspace := newWorkspace(t)
	h.machine = capabilities.NewSession(ctx, capabilities.SessionConfig{Workspace: workspace, Peer: h.Peer})
	t.Cleanup(func() {
		cancel()
		if err := h.Registry.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func newWorkspace(t testing.TB) *capabilities.Workspace {
	t.Helper()
	dir := t.TempDir()
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// Options of a session. The zero value is one in an empty workspace.
type Options struct {
	Assign    protocol.SessionAssignParams // an empty SessionID is replaced by session-1, session-2, …
	Workspace *capabilities.Workspace      // nil: an empty temporary directory
	Env       map[string]string
	Upload    capabilities.Uploader // nil: the brain takes no artifacts
	// Memory is what the session finds and notes; nil: nothing is kept. Given to a
	// further session it stands for a restart of the executor.
	Memory capabilities.Memory
	Limits func() protocol.Limits // of the brain; nil: none are said
}

// Session is an active session of a Host.
type Session struct {
	*capabilities.Session
	Host *Host

	upload capabilities.Uploader
	cancel context.CancelFunc
	calls  sync.WaitGroup
	number atomic.Int64
	once   sync.Once
}

// NewSession starts the only session of a new Host with these capabilities.
func NewSession(t testing.TB, caps ...capabilities.Capability) *Session {
	t.Helper()
	return NewHost(t, caps...).NewSession(t, Options{})
}

// NewSession starts a session; the test's cleanup ends it.
func (h *Host) NewSession(t testing.TB, o Options) *Session {
	t.Helper()
	if o.Assign.SessionID == "" {
		o.Assign.SessionID = fmt.Sprintf("session-%d", h.count.Add(1))
	}
	if o.Workspace == nil {
		o.Workspace = newWorkspace(t)
	}
	s, err := h.start(o)
	if err != nil {
		t.Fatalf("start session: %v", err)
	}
	t.Cleanup(s.End)
	return s
}

func (h *Host) start(o Options) (*Session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{Host: h, upload: o.Upload, cancel: cancel, Session: capabilities.NewSession(ctx, capabilities.SessionConfig{
		Assign: o.Assign, Workspace: o.Workspace, Env: o.Env, Peer: h.Peer,
		Memory: o.Memory, Limits: o.Limits})}
	if err := h.Registry.StartSession(ctx, s.Session); err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// End ends the session as the executor does: its context is cancelled, its calls
// return, the end hooks are called. It may be called more than once.
func (s *Session) End() {
	s.once.Do(func() {
		s.cancel()
		s.calls.Wait()
		s.Host.Registry.EndSession(s.Session)
	})
}
