package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// channelServer is a capability with an MCP server behind a channel, in this process.
type channelServer struct {
	key   string
	runs  int
	calls map[string]int // of the tool, by argument

	channels chan capabilities.Channel // each that was opened
	ends     chan error                // why each run ended
	work     sync.WaitGroup
	mu       sync.Mutex
}

func newChannelServer() *channelServer {
	return &channelServer{key: "test", calls: map[string]int{}, channels: make(chan capabilities.Channel, 100), ends: make(chan error, 100)}
}

func (c *channelServer) Name() string { return "mcp" }

func (c *channelServer) Install(r *capabilities.Registrar) error {
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		c.start(s)
		return nil
	})
	r.OnSessionEnd(func(*capabilities.Session) { c.work.Wait() })
	return nil
}

// start runs the server over a new channel.
func (c *channelServer) start(s *capabilities.Session) {
	c.runs++
	ch, err := s.Open(s.Context(), protocol.ChannelTarget{Channel: protocol.ChannelMCP, ServerKey: c.key, Incarnation: fmt.Sprint("run ", c.runs)})
	if err != nil {
		panic(err)
	}
	c.channels <- ch
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	type input struct {
		ID   string `json:"id"`
		Size int    `json:"size"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "pad"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		c.mu.Lock()
		c.calls[in.ID]++
		c.mu.Unlock()
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.ID + strings.Repeat("x", in.Size)}}}, nil, nil
	})
	c.work.Go(func() {
		transport := &channelTransport{Channel: ch}
		_ = server.Run(s.Context(), transport)
		_ = ch.Close(protocol.CloseNormal, "")
		c.ends <- transport.end
	})
}

// channelTransport is a channel as a transport of the SDK's.
type channelTransport struct {
	capabilities.Channel
	end error // of reading
}

func (t *channelTransport) Connect(context.Context) (mcp.Connection, error) { return t, nil }
func (t *channelTransport) SessionID() string                               { return "" }
func (t *channelTransport) Close() error                                    { return t.Channel.Close(protocol.CloseNormal, "") }

func (t *channelTransport) Read(ctx context.Context) (jsonrpc.Message, error) {
	frame, err := t.ReadFrame(ctx)
	if err != nil {
		t.end = err
		return nil, err
	}
	return jsonrpc.DecodeMessage(frame)
}

func (t *channelTransport) Write(ctx context.Context, m jsonrpc.Message) error {
	frame, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return t.WriteFrame(ctx, frame)
}

func mcpClient(t *testing.T, ctx context.Context, s *brain.Session, key string) *mcp.ClientSession {
	t.Helper()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "brain", Version: "1"}, nil).Connect(ctx, s.MCP(key), nil)
	require.NoError(t, err)
	return client
}

func pad(ctx context.Context, c *mcp.ClientSession, id string, size int) (string, error) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "pad", Arguments: map[string]any{"id": id, "size": size}})
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

// TestChannelSurvivesDisconnects: an MCP session goes on over lost connections, and each
// call arrives once and is answered once.
func TestChannelSurvivesDisconnects(t *testing.T) {
	const each = 20
	in(t, func(t *testing.T, w *world) {
		server := newChannelServer()
		s := w.session(brain.Options{}, nil, server)
		client := mcpClient(t, w.ctx, s, "test")
		stop := make(chan struct{})
		var cutter sync.WaitGroup
		cutter.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(700 * time.Millisecond):
					w.net.Cut()
				}
			}
		})
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				for n := range each {
					id, size := fmt.Sprintf("%d-%d", i, n), n*977%30_000
					got, err := pad(w.ctx, client, id, size)
					require.NoError(t, err)
					require.Equal(t, id+strings.Repeat("x", size), got)
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		calls.Wait()
		close(stop)
		cutter.Wait()
		require.Len(t, server.calls, 8*each)
		for id, n := range server.calls {
			require.Equal(t, 1, n, id)
		}
		require.Equal(t, 1, server.runs)
		require.NoError(t, client.Close())
		require.NoError(t, s.Stop(w.ctx, "done"))
	})
}

// TestChannelInMemory: brain and executor in one process need no network for channels.
func TestChannelInMemory(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		b := w.brain(brain.Options{})
		server := newChannelServer()
		var serving sync.WaitGroup
		w.ends = append(w.ends, serving.Wait)
		w.run(func(o *Options) {
			o.DialChannel = func(_ context.Context, _ string, target protocol.ChannelTarget) (rpc.Frames, error) {
				here, there := rpc.Pipe()
				serving.Go(func() { _ = b.ServeChannel(there, brain.Principal{}, target) })
				return here, nil
			}
		}, server)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		client := mcpClient(t, w.ctx, s, "test")
		got, err := pad(w.ctx, client, "a", 10)
		require.NoError(t, err)
		require.Equal(t, "axxxxxxxxxx", got)
		require.NoError(t, client.Close())
		require.NoError(t, s.Stop(w.ctx, "done"))
	})
}

// TestChannelIsClosedByTheBrain: a client that is closed ends that run of its server, and
// the next client talks to the next run.
func TestChannelIsClosedByTheBrain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		server := newChannelServer()
		s := w.session(brain.Options{}, nil, server)
		client := mcpClient(t, w.ctx, s, "test")
		_, err := s.MCP("test").Connect(w.ctx)
		require.ErrorIs(t, err, protocol.ErrConflict)
		require.NoError(t, client.Close())
		var closed *capabilities.ChannelClosed
		require.ErrorAs(t, <-server.ends, &closed)
		require.Equal(t, protocol.CloseNormal, closed.Code)

		short, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = s.MCP("test").Connect(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, s.Stop(w.ctx, "done"))
		_, err = s.MCP("test").Connect(w.ctx)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
	})
}

// TestChannelServerExits: what the server had answered arrives before its end, which has
// its exit status.
func TestChannelServerExits(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		server := newChannelServer()
		s := w.session(brain.Options{}, nil, server)
		c, err := s.MCP("test").Connect(w.ctx)
		require.NoError(t, err)
		ch := <-server.channels
		require.NoError(t, ch.WriteFrame(w.ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/last"}`)))
		require.NoError(t, ch.Close(protocol.CloseMCPServerExited, "exit status 3"))
		m, err := c.Read(w.ctx)
		require.NoError(t, err)
		require.Equal(t, "notifications/last", m.(*jsonrpc.Request).Method)
		_, err = c.Read(w.ctx)
		require.ErrorIs(t, err, protocol.ErrMCPUnavailable)
		require.ErrorContains(t, err, "exit status 3")
		require.NoError(t, s.Stop(w.ctx, "done"))
	})
	in(t, func(t *testing.T, w *world) { // and one that is not started again
		server := newChannelServer()
		s := w.session(brain.Options{}, nil, server)
		c, err := s.MCP("test").Connect(w.ctx)
		require.NoError(t, err)
		require.NoError(t, (<-server.channels).Close(protocol.CloseMCPServerExited, "mcp_unavailable: exit status 1"))
		_, err = c.Read(w.ctx)
		require.ErrorIs(t, err, protocol.ErrMCPUnavailable)
		_, err = s.MCP("test").Connect(w.ctx)
		require.ErrorIs(t, err, protocol.ErrMCPUnavailable)
		require.NoError(t, s.Stop(w.ctx, "done"))
	})
}

// TestChannelIsForgotten: a brain that was restarted does not know the channel; the run
// of the server ends, since nobody knows what is missing.
func TestChannelIsForgotten(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		server := newChannelServer()
		s := w.session(brain.Options{}, nil, server)
		client := mcpClient(t, w.ctx, s, "test")
		for n := range 100 {
			_, err := pad(w.ctx, client, fmt.Sprint(n), 10)
			require.NoError(t, err)
		}
		synctest.Wait()
		w.brain(brain.Options{})
		w.net.Cut()
		err := <-server.ends // or with the session, which is forgotten too
		require.Error(t, err)
	})
}

// TestChannelOfAnother: only the executor that has a session may dial its channels.
func TestChannelOfAnother(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, hello())
		for query, status := range map[string]string{
			"channel=mcp&session_id=other&server_key=test":      "409",
			"channel=mcp&session_id=" + s.ID():                  "409",
			"channel=terminal&terminal_id=1":                    "404",
			"channel=mcp&session_id=" + s.ID() + "&server_key=": "409",
		} {
			f, err := rpcDial(w, query)
			require.ErrorContains(t, err, status, query)
			require.Nil(t, f)
		}
	})
}

// TestNoChannels: who does not dial the brain cannot dial channels, and says so.
func TestNoChannels(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, func(o *Options) { o.DialChannel = nil }, hello())
		_, err := peer{w.Executor}.Open(w.ctx, protocol.ChannelTarget{Channel: protocol.ChannelMCP, SessionID: s.ID()})
		require.ErrorIs(t, err, protocol.ErrCapabilityUnavailable)
	})
}

func rpcDial(w *world, query string) (rpc.Frames, error) {
	return rpc.Dial(w.ctx, "ws://brain/?"+query, w.net.DialOptions())
}
