package executor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv("EXECUTOR_BENCH_BRAIN"); url != "" {
		benchExecutor(url)
		return
	}
	if told := os.Getenv("EXECUTOR_CRASH"); told != "" {
		crashExecutor(told)
		return
	}
	goleak.VerifyTestMain(m)
}

// world is a network in memory with a server on it, and what a test needs of an
// executor that dials it.
type world struct {
	t      *testing.T
	ctx    context.Context // the test's
	cancel context.CancelFunc
	net    *rpctest.Listener
	faults *rpctest.Faults
	serve  atomic.Pointer[http.Handler]
	server *http.Server
	served sync.WaitGroup

	before func(*Executor) // called, if any, before Run
	loaded bool            // heartbeats say how busy this machine is
	*Executor
	dead  *atomic.Bool       // nothing of it reaches the network any more
	leave context.CancelFunc // ends Run
	ran   chan struct{}
	err   error // of Run; after ran
	ends  []func()
}

// in runs a test in a bubble of fake time and ends everything of it.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: rpctest.Listen(), faults: rpctest.NewFaults(), ran: make(chan struct{})}
		w.ctx, w.cancel = context.WithTimeout(context.Background(), 100*time.Hour)
		w.server = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			(*w.serve.Load()).ServeHTTP(rw, r)
		})}
		w.served.Go(func() { _ = w.server.Serve(w.net) })
		defer w.end()
		test(t, w)
	})
}

func (w *world) end() {
	if w.Executor != nil {
		w.leave()
		<-w.ran
	}
	for _, end := range w.ends {
		end()
	}
	w.cancel()
	_ = w.server.Close()
	_ = w.net.Close()
	w.served.Wait()
}

func (w *world) handle(h http.Handler) { w.serve.Store(&h) }

// options are those of an executor that dials the world's server.
func (w *world) options(change func(*Options)) Options {
	dead := new(atomic.Bool)
	w.dead = dead
	o := Options{
		Name:      "test",
		Workspace: Workspace{Roots: []capabilities.Root{{Path: w.t.TempDir()}}},
		Dial: func(ctx context.Context, token string) (rpc.Frames, error) {
			if dead.Load() {
				return nil, errRefused
			}
			d := w.net.DialOptions()
			d.Token = token
			return w.faults.Dial(ctx, "ws://brain/", d)
		},
		DialChannel: func(ctx context.Context, token string, t protocol.ChannelTarget) (rpc.Frames, error) {
			if dead.Load() {
				return nil, errRefused
			}
			d := w.net.DialOptions()
			d.Token = token
			return rpc.Dial(ctx, "ws://brain/?"+channelQuery(t).Encode(), d)
		},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// plainDial dials without faults: as in earnest, with pings of its own.
func (w *world) plainDial(ctx context.Context, token string) (rpc.Frames, error) {
	d := w.net.DialOptions()
	d.Token = token
	return rpc.Dial(ctx, "ws://brain/", d)
}

// run starts an executor.
func (w *world) run(change func(*Options), caps ...capabilities.Capability) *Executor {
	w.t.Helper()
	e, err := New(w.options(change))
	require.NoError(w.t, err)
	require.NoError(w.t, e.Register(caps...))
	// To read a machine's files at each beat costs more than the rest of a day in a bubble.
	if !w.loaded {
		e.load = nil
	}
	w.Executor = e
	if w.before != nil {
		w.before(e)
	}
	var ctx context.Context
	ctx, w.leave = context.WithCancel(w.ctx)
	go func() {
		defer close(w.ran)
		w.err = e.Run(ctx)
	}()
	return e
}

// stopped waits for the end of Run and returns its error.
func (w *world) stopped() error {
	<-w.ran
	synctest.Wait()
	return w.err
}

// brain is a real brain on the world's server.
func (w *world) brain(o brain.Options) *brain.Brain {
	b := brain.New(o)
	w.handle(b)
	w.ends = append(w.ends, func() { require.NoError(w.t, b.Close("test ends")) })
	return b
}

// session is the usual start: a real brain, an executor and a session that is ready.
func (w *world) session(o brain.Options, change func(*Options), caps ...capabilities.Capability) *brain.Session {
	w.t.Helper()
	b := w.brain(o)
	w.run(change, caps...)
	x, err := b.WaitExecutor(w.ctx)
	require.NoError(w.t, err)
	s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
	require.NoError(w.t, err)
	return s
}

// anything is an input of one optional member.
type anything struct {
	Text string `json:"text,omitempty"`
}

// tool is a capability of one tool that takes anything.
func tool(name string, h func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error)) capabilities.Capability {
	return capabilities.Func(name, "A tool of a test.", func(ctx context.Context, c *capabilities.Call, _ anything) (protocol.ToolOutput, error) {
		return h(ctx, c)
	})
}

// hello is a tool that succeeds.
func hello() capabilities.Capability {
	return tool("hello", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
		return protocol.Text("hello"), nil
	})
}

// held is a tool whose calls run until they are let go, or their context ends.
type held struct {
	capabilities.Capability
	started, ended atomic.Int32
	release        chan struct{}
}

func hold() *held {
	h := &held{release: make(chan struct{})}
	h.Capability = tool("hold", func(ctx context.Context, _ *capabilities.Call) (protocol.ToolOutput, error) {
		h.started.Add(1)
		defer h.ended.Add(1)
		select {
		case <-h.release:
			return protocol.Text("released"), nil
		case <-ctx.Done():
			return protocol.Text("so far"), ctx.Err()
		}
	})
	return h
}

// sleep lets time pass and everything come to rest.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func text(r protocol.ToolResultParams) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[len(r.Content)-1].Text
}

// requireError checks that err is an error of the protocol with that reason.
func requireError(t *testing.T, err error, reason string) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason(), e.Message)
	return e
}

// storedOnce are results that count how often each came, and refuse what a test wants
// refused.
type storedOnce struct {
	mu     sync.Mutex
	came   map[string]int
	last   map[string]protocol.ToolResultParams
	order  []string
	refuse func(n int, r protocol.ToolResultParams) error // n: the time it comes, from 1
}

func newStored() *storedOnce {
	return &storedOnce{came: map[string]int{}, last: map[string]protocol.ToolResultParams{}}
}

func (s *storedOnce) Put(_ context.Context, r protocol.ToolResultParams) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came[r.ToolCallID]++
	if s.refuse != nil {
		if err := s.refuse(s.came[r.ToolCallID], r); err != nil {
			return false, err
		}
	}
	_, again := s.last[r.ToolCallID]
	if !again {
		s.last[r.ToolCallID] = r
		s.order = append(s.order, r.ToolCallID)
	}
	return !again, nil
}

func (s *storedOnce) times(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[call]
}

func (s *storedOnce) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.order...)
}

var errRefused = errors.New("refused by the test")
