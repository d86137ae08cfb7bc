//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
)

// serverMode is the variable that makes the test binary a server: what kind of one.
const serverMode = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(serverMode); mode != "" {
		beServer(mode)
		return
	}
	os.Setenv("EXECUTOR_TOKEN", "the-executors-own")
	os.Setenv("SOME_API_KEY", "sk-0123456789abcdef0123")
	goleak.VerifyTestMain(m)
}

// beServer is a real MCP server, with bad habits according to the mode.
func beServer(mode string) {
	mode, arg, _ := strings.Cut(mode, ":")
	switch mode {
	case "once": // crashes until the file is there
		if _, err := os.Stat(arg); err != nil {
			_ = os.WriteFile(arg, nil, 0o600)
			os.Exit(4)
		}
	case "noise":
		fmt.Println("Starting server...")
		fmt.Println(`{"level":30,"msg":"listening"}`)
		fmt.Println(`{"jsonrpc":"2.0","id":1,`)
		fmt.Println("[1,2]\n\n\r\n   ")
		for i := range 20 {
			fmt.Println("line", i, "of a banner")
		}
	case "flood":
		go func() {
			for i := 0; ; i++ {
				fmt.Fprintln(os.Stderr, "warning", i, os.Getenv("DB_KEY"))
			}
		}()
	}
	if err := testServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

type echoInput struct {
	Text string `json:"text"`
}

type sizeInput struct {
	Bytes int `json:"bytes"`
}

func testServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	text := func(format string, args ...any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoInput) (*sdk.CallToolResult, any, error) {
		return text("%s", in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "big"}, func(_ context.Context, _ *sdk.CallToolRequest, in sizeInput) (*sdk.CallToolResult, any, error) {
		return text("%s", strings.Repeat("x", in.Bytes)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "complain"}, func(_ context.Context, _ *sdk.CallToolRequest, in sizeInput) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, strings.Repeat("e", in.Bytes))
		return text("done"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "env"}, func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		dir, _ := os.Getwd()
		return text("%s\nDIR=%s\nARGS=%s", strings.Join(os.Environ(), "\n"), dir, strings.Join(os.Args, " ")), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "pid"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text("%d", os.Getpid()), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fork"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		c := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & wait")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return nil, nil, err
		}
		return text("%d", c.Process.Pid), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "exit"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		os.Exit(7)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "forever"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "progress"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
		}
		return text("done"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, in sizeInput) (*sdk.CallToolResult, any, error) {
		answer, err := sample(ctx, r.Session, in.Bytes)
		if err != nil {
			return text("refused: %v", err), nil, nil
		}
		return text("%s", answer), nil, nil
	})
	return s
}

// scripts are servers of which no word is expected.
var scripts = map[string]string{
	"crash":    `echo "no such database; the key is $DB_KEY" >&2; exit 3`,
	"deaf":     `exec <&-; exec sleep 1000`,
	"mute":     `exec >&-; exec sleep 1000`,
	"half":     `printf '{"jsonrpc":"2.0","id":1,"resu'`,
	"whole":    `printf '{"jsonrpc":"2.0","method":"notifications/last"}'`,
	"stubborn": `trap '' TERM; cat >/dev/null; sleep 1000; sleep 1000`,
	"cat":      `exec cat`,
}

// me is a server that is this test binary, or one of the scripts.
func me(t testing.TB, key, mode string) protocol.MCPServer {
	t.Helper()
	if script := scripts[mode]; script != "" {
		return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: protocol.TransportStdio, Command: "sh", Args: []string{"-c", script}}}
	}
	program, err := os.Executable()
	require.NoError(t, err)
	return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: protocol.TransportStdio, Command: program, Env: map[string]string{serverMode: mode}}}
}

// bench is a session with servers, and the brain's ends of their channels.
type bench struct {
	t   testing.TB
	ctx context.Context
	*capabilitytest.Session
	opened chan opening
	dir    string
}

type opening struct {
	target protocol.ChannelTarget
	ch     capabilities.Channel
}

// newHost is a host whose brain takes all channels.
func newHost(t testing.TB, o Options) (*capabilitytest.Host, chan opening) {
	t.Helper()
	if o.LoginEnv == nil {
		o.LoginEnv = map[string]string{}
	}
	if o.Grace == 0 {
		o.Grace = 300 * time.Millisecond
	}
	if o.RestartDelay == 0 {
		o.RestartDelay = time.Millisecond
	}
	h := capabilitytest.NewHost(t, New(o))
	opened := make(chan opening, 100)
	h.Peer.OnOpen = func(_ context.Context, target protocol.ChannelTarget) (capabilities.Channel, error) {
		theirs, ours := capabilitytest.Pipe()
		opened <- opening{target, ours}
		return theirs, nil
	}
	return h, opened
}

func newBench(t testing.TB, o Options, servers ...protocol.MCPServer) *bench {
	t.Helper()
	h, opened := newHost(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s := h.NewSession(t, capabilitytest.Options{Env: map[string]string{"SESSION_VARIABLE": "of the session"},
		Assign: protocol.SessionAssignParams{MCPServers: servers}})
	return &bench{t: t, ctx: ctx, Session: s, opened: opened, dir: s.Workspace().Dir()}
}

// channel is the next channel that was opened.
func (b *bench) channel() opening {
	b.t.Helper()
	select {
	case o := <-b.opened:
		return o
	case <-b.ctx.Done():
		b.t.Fatal("no channel was opened")
		return opening{}
	}
}

// noChannel says that none is open.
func (b *bench) noChannel() {
	b.t.Helper()
	require.Empty(b.t, b.opened)
}

// client initializes the server on the next channel.
func (b *bench) client() *sdk.ClientSession {
	b.t.Helper()
	return b.clientOn(b.channel().ch, nil)
}

func (b *bench) clientOn(ch capabilities.Channel, o *sdk.ClientOptions) *sdk.ClientSession {
	b.t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "brain", Version: "1"}, o).Connect(b.ctx, transport{ch}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// call calls a tool and returns its text.
func (b *bench) call(c *sdk.ClientSession, tool string, args any) string {
	b.t.Helper()
	r, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	require.NoError(b.t, err)
	require.NotEmpty(b.t, r.Content)
	return r.Content[0].(*sdk.TextContent).Text
}

// closed waits until the executor closes a channel.
func (b *bench) closed(ch capabilities.Channel) capabilities.ChannelClosed {
	b.t.Helper()
	for {
		_, err := ch.ReadFrame(b.ctx)
		if err == nil {
			continue
		}
		var end *capabilities.ChannelClosed
		require.ErrorAs(b.t, err, &end)
		return *end
	}
}

// gone waits until a process is not there any more.
func (b *bench) gone(pid string) {
	b.t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool { return syscall.Kill(n, 0) == syscall.ESRCH }, 10*time.Second, 5*time.Millisecond, "process %d is still there", n)
}

// transport is a channel as the SDK wants it.
type transport struct{ ch capabilities.Channel }

func (t transport) Connect(context.Context) (sdk.Connection, error) {
	return &connection{ch: t.ch}, nil
}

type connection struct {
	ch   capabilities.Channel
	once sync.Once
}

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	frame, err := c.ch.ReadFrame(ctx)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(frame)
}

func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	frame, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.ch.WriteFrame(ctx, frame)
}

func (c *connection) Close() error {
	c.once.Do(func() { _ = c.ch.Close(protocol.CloseNormal, "") })
	return nil
}

func (c *connection) SessionID() string { return "" }

// request is a frame of a raw client.
func request(id any, method string, params any) []byte {
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	return raw
}
