package executor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// script is a brain written by hand that does what a test says and writes down what
// comes in. A zero func does the usual.
type script struct {
	w *world

	http      func(n int, rw http.ResponseWriter, r *http.Request) bool // n: the dial, from 1; true: answered
	register  func(n int, p protocol.RegisterParams, r *protocol.RegisterResult) error
	behind    func(n int, c *rpc.Conn) // behind the answer to register
	heartbeat func(n int, r *protocol.HeartbeatResult) error
	ready     func(n int, p protocol.SessionReadyParams) (bool, error)
	ended     func(n int) (bool, error)
	result    func(n int, p protocol.ToolResultParams) (bool, error)
	also      func(*rpc.Mux) // handlers of a test's own

	mu        sync.Mutex
	dials     []time.Time
	tokens    []string
	registers []protocol.RegisterParams
	beats     []time.Time
	results   []protocol.ToolResultParams
	seen      []string // everything but heartbeats, in order
	counts    map[string]int
	conns     []*rpc.Conn
}

func (w *world) script(change func(*script)) *script {
	s := &script{w: w, counts: map[string]int{}}
	if change != nil {
		change(s)
	}
	w.handle(s)
	w.ends = append(w.ends, func() {
		for _, c := range locked(s, func() []*rpc.Conn { return slices.Clone(s.conns) }) {
			_ = c.Close()
		}
	})
	return s
}

func locked[T any](s *script, f func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// note writes down a message and returns how many of its kind there were.
func (s *script) note(kind, detail string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[kind]++
	if kind != protocol.ExecutorHeartbeat.Name {
		s.seen = append(s.seen, strings.TrimSpace(kind+" "+detail))
	}
	return s.counts[kind]
}

func (s *script) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.dials = append(s.dials, time.Now())
	s.tokens = append(s.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	n := len(s.dials)
	s.mu.Unlock()
	if s.http != nil && s.http(n, rw, r) {
		return
	}
	f, err := rpc.Accept(rw, r, rpc.AcceptOptions{})
	if err != nil {
		return
	}
	c := rpc.NewConn(f, s.mux(n), nil)
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	c.Start()
}

func (s *script) mux(n int) *rpc.Mux {
	x := rpc.NewMux(0)
	rpc.HandleThen(x, protocol.ExecutorRegister, func(ctx context.Context, p protocol.RegisterParams) (protocol.RegisterResult, func(), error) {
		s.note(protocol.ExecutorRegister.Name, "")
		s.mu.Lock()
		s.registers = append(s.registers, p)
		s.mu.Unlock()
		r := protocol.RegisterResult{ConnectionID: fmt.Sprint("con_", n), ExecutorID: "exe_1", Protocol: protocol.Version1,
			HeartbeatIntervalMS: 10_000, LeaseTTLMS: 30_000, MaxControlFrameBytes: protocol.DefaultMaxControlFrame}
		if s.register != nil {
			if err := s.register(n, p, &r); err != nil {
				return r, nil, err
			}
		}
		c := rpc.FromContext(ctx)
		return r, func() {
			if s.behind != nil {
				go s.behind(n, c) // which may close the connection
			}
		}, nil
	})
	rpc.Handle(x, protocol.ExecutorHeartbeat, func(_ context.Context, p protocol.HeartbeatParams) (protocol.HeartbeatResult, error) {
		n := s.note(protocol.ExecutorHeartbeat.Name, "")
		s.mu.Lock()
		s.beats = append(s.beats, time.Now())
		s.mu.Unlock()
		r := protocol.HeartbeatResult{LeaseTTLMS: 30_000}
		if s.heartbeat != nil {
			return r, s.heartbeat(n, &r)
		}
		return r, nil
	})
	rpc.Handle(x, protocol.SessionReady, func(_ context.Context, p protocol.SessionReadyParams) (protocol.AcceptedResult, error) {
		n := s.note(protocol.SessionReady.Name, p.SessionID)
		if s.ready != nil {
			ok, err := s.ready(n, p)
			return protocol.AcceptedResult{Accepted: ok}, err
		}
		return protocol.AcceptedResult{Accepted: true}, nil
	})
	rpc.Handle(x, protocol.SessionEnded, func(_ context.Context, p protocol.SessionEndedParams) (protocol.AcceptedResult, error) {
		n := s.note(protocol.SessionEnded.Name, p.SessionID+" "+p.Reason)
		if s.ended != nil {
			ok, err := s.ended(n)
			return protocol.AcceptedResult{Accepted: ok}, err
		}
		return protocol.AcceptedResult{Accepted: true}, nil
	})
	rpc.Handle(x, protocol.ToolResult, func(_ context.Context, p protocol.ToolResultParams) (protocol.AcceptedResult, error) {
		n := s.note(protocol.ToolResult.Name, p.ToolCallID+" "+p.Outcome)
		s.mu.Lock()
		s.results = append(s.results, p)
		s.mu.Unlock()
		if s.result != nil {
			ok, err := s.result(n, p)
			return protocol.AcceptedResult{Accepted: ok}, err
		}
		return protocol.AcceptedResult{Accepted: true}, nil
	})
	rpc.HandleNotification(x, protocol.SessionStatus, func(_ context.Context, p protocol.SessionStatusParams) {
		s.note(protocol.SessionStatus.Name, p.SessionID+" "+p.Status)
	})
	rpc.HandleNotification(x, protocol.ExecutorClose, func(_ context.Context, p protocol.CloseParams) {
		s.note(protocol.ExecutorClose.Name, p.Reason)
	})
	if s.also != nil {
		s.also(x)
	}
	return x
}

// conn is the newest connection.
func (s *script) conn() *rpc.Conn {
	return locked(s, func() *rpc.Conn { return s.conns[len(s.conns)-1] })
}

// log is what came in, without what is not asked for.
func (s *script) log(but ...string) []string {
	return locked(s, func() []string {
		return slices.DeleteFunc(slices.Clone(s.seen), func(line string) bool {
			return slices.ContainsFunc(but, func(b string) bool { return strings.HasPrefix(line, b) })
		})
	})
}

func (s *script) count(kind string) int { return locked(s, func() int { return s.counts[kind] }) }

// came is what has come in so far.
type came struct {
	dials, beats []time.Time
	tokens       []string
	registers    []protocol.RegisterParams
	results      []protocol.ToolResultParams
}

func (s *script) so() came {
	return locked(s, func() came {
		return came{slices.Clone(s.dials), slices.Clone(s.beats), slices.Clone(s.tokens), slices.Clone(s.registers), slices.Clone(s.results)}
	})
}

// gaps are the times between the dials.
func (s *script) gaps() []time.Duration {
	return locked(s, func() []time.Duration {
		var list []time.Duration
		for i := 1; i < len(s.dials); i++ {
			list = append(list, s.dials[i].Sub(s.dials[i-1]))
		}
		return list
	})
}

// assign assigns session s1 and waits until it is ready.
func (s *script) assign(fencing int64) {
	s.w.t.Helper()
	before := s.count(protocol.SessionReady.Name)
	require.NoError(s.w.t, s.tryAssign("s1", "work", fencing))
	for s.count(protocol.SessionReady.Name) == before {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

func (s *script) tryAssign(id, work string, fencing int64) error {
	_, err := rpc.Call(s.w.ctx, s.conn(), protocol.SessionAssign, protocol.SessionAssignParams{
		SessionID: id, WorkID: work, Lease: protocol.Lease{Token: "lease", FencingToken: fencing}})
	return err
}

func (s *script) call(id, tool string) error {
	_, err := rpc.Call(s.w.ctx, s.conn(), protocol.ToolCall, protocol.ToolCallParams{SessionID: "s1", ToolCallID: id, Tool: tool})
	return err
}
