package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/brain/gateway"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

func TestMain(m *testing.M) {
	switch os.Getenv("GATEWAY_TEST_SERVER") {
	case "":
	case "script":
		beScript()
		return
	default:
		beServer()
		return
	}
	os.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	goleak.VerifyTestMain(m)
}

// world is a network in memory with a brain on it, its gateway, and executors.
type world struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	net    *rpctest.Listener
	faults *rpctest.Faults
	brain  *brain.Brain
	gate   *gateway.Gateway
	server *http.Server
	work   sync.WaitGroup
	ends   []func()
	refuse atomic.Bool // connections of executors

	maxSessions int // of executors; 0: the default
}

func newWorld(t *testing.T, o gateway.Options) *world {
	w := &world{t: t, net: rpctest.Listen(), faults: rpctest.NewFaults(), brain: brain.New(brain.Options{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.gate = gateway.New(w.brain, o)
	w.server = &http.Server{Handler: w.brain}
	w.work.Go(func() { _ = w.server.Serve(w.net) })
	return w
}

func (w *world) end() {
	require.NoError(w.t, w.gate.Close())
	for _, x := range w.brain.Executors() {
		require.Empty(w.t, x.Sessions(), "a session was left")
	}
	for _, end := range w.ends {
		end()
	}
	w.cancel()
	_ = w.brain.Close("over")
	_ = w.server.Close()
	_ = w.net.Close()
	w.work.Wait()
}

// in runs a test in a bubble of fake time.
func in(t *testing.T, o gateway.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o)
		defer w.end()
		test(t, w)
	})
}

// real runs a test in real time, for what starts processes.
func real(t *testing.T, o gateway.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	w := newWorld(t, o)
	defer w.end()
	test(t, w)
}

// hands is one executor.
type hands struct {
	*executor.Executor
	root  string
	leave func() // ends it
}

// executor runs one. It has no state directory: when it ends, all it had is gone.
func (w *world) executor(name string, caps ...capabilities.Capability) *hands {
	return w.executorIn(w.t.TempDir(), name, caps...)
}

func (w *world) executorIn(root, name string, caps ...capabilities.Capability) *hands {
	w.t.Helper()
	e, err := executor.New(executor.Options{
		Name:      name,
		Workspace: executor.Workspace{Roots: []capabilities.Root{{Path: root}}},
		Dial: func(ctx context.Context, token string) (rpc.Frames, error) {
			if w.refuse.Load() {
				return nil, errors.New("refused")
			}
			d := w.net.DialOptions()
			d.Token = token
			return w.faults.Dial(ctx, "ws://brain/", d)
		},
		DialChannel: func(_ context.Context, _ string, t protocol.ChannelTarget) (rpc.Frames, error) {
			if w.refuse.Load() {
				return nil, errors.New("refused")
			}
			here, there := rpc.Pipe()
			w.work.Go(func() { _ = w.brain.ServeChannel(there, brain.Principal{}, t) })
			return here, nil
		},
		MinBackoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		DrainTimeout: time.Second,
		MaxSessions:  w.maxSessions,
	})
	require.NoError(w.t, err)
	require.NoError(w.t, e.Register(caps...))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = e.Run(ctx)
	}()
	h := &hands{Executor: e, root: root, leave: sync.OnceFunc(func() { cancel(); <-ran })}
	w.ends = append(w.ends, h.leave)
	return h
}

// ready waits until that many executors are connected.
func (w *world) ready(n int) {
	w.t.Helper()
	for {
		changed := w.brain.Changed()
		here := 0
		for _, x := range w.brain.Executors() {
			if x.Connected() {
				here++
			}
		}
		if here == n {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			w.t.Fatalf("%d executors are connected, not %d", here, n)
		}
	}
}

// client connects a client of the library. It ends with the world, or before.
func (w *world) client(o *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	c, _ := w.killable(o)
	return c
}

// killable is client with what happens when its process is killed.
func (w *world) killable(o *mcp.ClientOptions) (c *mcp.ClientSession, kill func()) {
	w.t.Helper()
	here, there := net.Pipe()
	w.work.Go(func() { _ = w.gate.Serve(w.ctx, gateway.Lines(there, there)) })
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(w.ctx, &mcp.IOTransport{Reader: here, Writer: here}, nil)
	require.NoError(w.t, err)
	w.ends = append([]func(){func() { _ = c.Close() }}, w.ends...)
	return c, func() { _ = here.Close() }
}

// call calls a tool.
func (w *world) call(c *mcp.ClientSession, tool string, input any) *mcp.CallToolResult {
	w.t.Helper()
	r, err := c.CallTool(w.ctx, &mcp.CallToolParams{Name: tool, Arguments: input})
	require.NoError(w.t, err)
	return r
}

// text is the text of a result.
func text(r *mcp.CallToolResult) string {
	s := ""
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			s += t.Text
		}
	}
	return s
}

func (w *world) tools(c *mcp.ClientSession) map[string]*mcp.Tool {
	w.t.Helper()
	all := map[string]*mcp.Tool{}
	for t, err := range c.Tools(w.ctx, nil) {
		require.NoError(w.t, err)
		all[t.Name] = t
	}
	return all
}

// toolInput is that of the tools here.
type toolInput struct {
	Text string `json:"text,omitempty"`
	N    int    `json:"n,omitempty"`
}

// tool makes a capability of one tool.
func tool(name string, h func(context.Context, *capabilities.Call, toolInput) (protocol.ToolOutput, error)) capabilities.Capability {
	return capabilities.Func(name, "Test "+name+".", h)
}

// echo says its input again.
func echo(name string) capabilities.Capability {
	return tool(name, func(_ context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
		return protocol.Text(name + ":" + in.Text), nil
	})
}

// sleepy is a tool that sleeps.
func sleepy() capabilities.Capability {
	return tool("sleep", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
		select {
		case <-time.After(time.Duration(in.N) * time.Millisecond):
			return protocol.Text("slept"), nil
		case <-ctx.Done():
			return protocol.ToolOutput{}, ctx.Err()
		}
	})
}

// whoami is a tool that says in which session it is.
func whoami() capabilities.Capability {
	return tool("whoami", func(_ context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
		return protocol.Text(c.Session().ID()), nil
	})
}
