package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// The control API: HTTP with JSON over the control socket. Whoever may open the
// socket may do everything.

const (
	stopTimeout   = 15 * time.Second // for the end of a session that was made for one call
	cancelTimeout = 10 * time.Second // for the result of a call that was cancelled
	maxInputBytes = 8 << 20
)

// executorInfo is one executor as it is listed.
type executorInfo struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	OS          string        `json:"os"`
	Arch        string        `json:"arch"`
	Version     string        `json:"version"`
	Environment string        `json:"environment_id,omitempty"`
	Connected   bool          `json:"connected"`
	LastSeen    protocol.Time `json:"last_seen"`
	Tools       []string      `json:"tools"`
	Sessions    []string      `json:"sessions"`
	Processes   int           `json:"processes"` // that the brain has started and knows no end of
	// Load is what its last heartbeat said; nil when it did not, or is away.
	Load *protocol.Load `json:"load,omitempty"`
}

// callRequest asks for one call. An empty Session is one for this call alone; one
// that is not there is made and stays.
type callRequest struct {
	Executor string          `json:"executor,omitempty"` // id or name
	Session  string          `json:"session,omitempty"`
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"input"`
	WaitMS   int64           `json:"wait_ms"` // for an executor to be connected
}

func (s *server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/executors", func(w http.ResponseWriter, _ *http.Request) {
		cli.Answer(w, http.StatusOK, s.executors())
	})
	mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, r *http.Request) {
		var q callRequest
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInputBytes))
		d.DisallowUnknownFields()
		if err := d.Decode(&q); err != nil {
			cli.Answer(w, http.StatusBadRequest, cli.AnswerError{Error: "bad request: " + err.Error()})
			return
		}
		result, err := s.call(r.Context(), q)
		if err != nil {
			cli.Answer(w, http.StatusUnprocessableEntity, cli.AnswerError{Error: err.Error()})
			return
		}
		cli.Answer(w, http.StatusOK, result)
	})
	mux.HandleFunc("POST /v1/exec", s.exec)
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, _ *http.Request) {
		cli.Answer(w, http.StatusOK, s.sessions())
	})
	mux.HandleFunc("POST /v1/mcp", s.mcp)
	mux.HandleFunc("POST /v1/mcp/listen", s.mcpListen)
	return mux
}

func (s *server) executors() []executorInfo {
	list := []executorInfo{}
	for _, x := range s.brain.Executors() {
		list = append(list, describe(x))
	}
	// Those that are here first.
	slices.SortStableFunc(list, func(a, b executorInfo) int {
		if a.Connected != b.Connected {
			if a.Connected {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return list
}

func describe(x *brain.Executor) executorInfo {
	info := x.Info()
	e := executorInfo{ID: x.ID(), Name: info.Name, OS: info.OS, Arch: info.Arch, Version: info.Version,
		Environment: x.EnvironmentID(), Connected: x.Connected(), LastSeen: protocol.At(x.LastSeen()),
		Tools: []string{}, Sessions: []string{}}
	if l, ok := x.Load(); ok && e.Connected {
		e.Load = &l
	}
	tools, _ := x.Capabilities().Tools() // what cannot be read is not listed
	for _, t := range tools {
		e.Tools = append(e.Tools, t.Name)
	}
	for _, session := range x.Sessions() {
		e.Sessions = append(e.Sessions, session.ID())
		e.Processes += session.Running()
	}
	return e
}

// call runs one tool call. When ctx ends, the call is cancelled.
func (s *server) call(ctx context.Context, q callRequest) (protocol.ToolResultParams, error) {
	var none protocol.ToolResultParams
	session, own, err := s.session(ctx, q)
	if err != nil {
		return none, err
	}
	if own {
		defer func() {
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			_ = session.Stop(limit, "the call has ended")
		}()
	}
	pending, err := session.Start(ctx, protocol.ToolCallParams{Tool: q.Tool, Input: q.Input})
	if err != nil {
		return none, refusal(session.Executor(), q.Tool, err)
	}
	result, err := pending.Result(ctx)
	if err != nil && ctx.Err() != nil {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		if _, err := pending.Cancel(limit, "interrupted"); err != nil {
			return none, fmt.Errorf("cancel: %w", err)
		}
		result, err = pending.Result(limit)
	}
	if err != nil {
		return none, fmt.Errorf("%s: %w", q.Tool, err)
	}
	return result, nil
}

// refusal says why a call did not begin; for a tool that is not there, which one
// was probably meant.
func refusal(x *brain.Executor, tool string, err error) error {
	if errors.Is(err, protocol.ErrNotFound) {
		tools := describe(x).Tools
		if slices.Contains(tools, tool) {
			return fmt.Errorf("%s: %w", tool, err)
		}
		if near := capabilities.Nearest(tool, tools); near != "" {
			return fmt.Errorf("the executor has no tool %q; did you mean %q?", tool, near)
		}
		return fmt.Errorf("the executor has no tool %q; it has %s", tool, strings.Join(tools, ", "))
	}
	return fmt.Errorf("%s: %w", tool, err)
}

// session finds the session that is named, or makes one; own says that it is for
// this call alone.
func (s *server) session(ctx context.Context, q callRequest) (session *brain.Session, own bool, err error) {
	if q.Session != "" {
		for _, x := range s.brain.Executors() {
			session, ok := x.Session(q.Session)
			if !ok {
				continue
			}
			if q.Executor != "" && q.Executor != x.ID() && q.Executor != x.Info().Name {
				return nil, false, fmt.Errorf("session %q is on executor %s, not on %q", q.Session, x.ID(), q.Executor)
			}
			return session, false, nil
		}
	}
	wait := time.Duration(q.WaitMS) * time.Millisecond
	x, err := s.waitExecutor(ctx, q.Executor, wait)
	if err != nil {
		return nil, false, err
	}
	session, err = x.Assign(ctx, protocol.SessionAssignParams{SessionID: q.Session})
	if err != nil {
		return nil, false, fmt.Errorf("assign session: %w", err)
	}
	return session, q.Session == "", nil
}

// waitExecutor finds the executor that is meant and waits until it is connected.
func (s *server) waitExecutor(ctx context.Context, name string, wait time.Duration) (*brain.Executor, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := s.watch.next()
		x, err, final := s.choose(name, wait)
		if x != nil || final {
			return x, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose finds the executor that is meant among those that are there now. Waiting
// does not help against a final error.
func (s *server) choose(name string, wait time.Duration) (x *brain.Executor, err error, final bool) {
	var here, known []*brain.Executor
	for _, x := range s.brain.Executors() {
		if name != "" && x.ID() != name && x.Info().Name != name {
			known = append(known, x)
			continue
		}
		if x.Connected() {
			here = append(here, x)
		} else {
			err = fmt.Errorf("executor %s is not connected, also after %v", x.ID(), wait)
		}
	}
	switch {
	case len(here) == 1:
		return here[0], nil, true
	case len(here) > 1:
		var ids []string
		for _, x := range here {
			ids = append(ids, x.ID())
		}
		return nil, fmt.Errorf("%d executors are meant; name one with --executor: %s", len(here), strings.Join(ids, ", ")), true
	case err != nil:
		return nil, err, false
	case len(known) > 0:
		var names []string
		for _, x := range known {
			names = append(names, x.ID(), x.Info().Name)
		}
		if near := capabilities.Nearest(name, names); near != "" {
			return nil, fmt.Errorf("there is no executor %q; did you mean %q?", name, near), true
		}
		return nil, fmt.Errorf("there is no executor %q; see brain executors", name), true
	}
	return nil, fmt.Errorf("no executor is connected, also after %v; start one with executor run", wait), false
}

// watch tells of changes in what is connected.
type watch struct {
	mu sync.Mutex
	ch chan struct{}
}

func newWatch() *watch { return &watch{ch: make(chan struct{})} }

// next is closed at the next change.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

func (w *watch) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}
