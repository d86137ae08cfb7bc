//go:build unix

package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// playMCPServer is an MCP server on standard input and output with one tool, which answers what it is given.
func playMCPServer() {
	type input struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

// mcpConnect makes a client that is closed with the benchmark.
func mcpConnect(b *testing.B, t mcp.Transport) *mcp.ClientSession {
	c, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), t, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// callEcho calls the tool of playMCPServer.
func callEcho(b *testing.B, c *mcp.ClientSession, tool, text string) {
	r, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": text}})
	if err != nil || r.IsError || r.Content[0].(*mcp.TextContent).Text != text {
		b.Errorf("%s: %v %+v", tool, err, r)
	}
}

// BenchmarkMCP is a call of a tool of an MCP server on the executor's machine: from a client of the gateway,
// and from a brain, beside a client that has started the server itself.
func BenchmarkMCP(b *testing.B) {
	x := brain.New(brain.Options{})
	b.Cleanup(func() { _ = x.Close("") })
	s := &benchSeat{b: b}
	s.serve(x, 0)
	there, err := x.WaitExecutor(b.Context())
	require.NoError(b, err)
	server := protocol.MCPServer{ServerKey: "bench", Transport: protocol.MCPTransport{Type: protocol.TransportStdio,
		Command: os.Args[0], Env: map[string]string{"BENCH_ROLE": "mcpserver"}}}
	s.Session, err = there.Assign(b.Context(), protocol.SessionAssignParams{MCPServers: []protocol.MCPServer{server}})
	require.NoError(b, err)

	direct := mcpConnect(b, &mcp.CommandTransport{Command: benchRole("mcpserver")})
	session := mcpConnect(b, s.MCP("bench"))
	through := mcpConnect(b, gatewayWith(b, server))
	large := strings.Repeat("x", 64<<10)
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			own := timed(300, func() { callEcho(b, direct, "echo", "hello") })
			f.times("direct", own)
			f.over("session-over-direct", timed(300, func() { callEcho(b, session, "echo", "hello") }), own)
			f.over("gateway-over-direct", timed(300, func() { callEcho(b, through, "bench__echo", "hello") }), own)
			own = timed(40, func() { callEcho(b, direct, "echo", large) })
			f.over("64KB-session-over-direct", timed(40, func() { callEcho(b, session, "echo", large) }), own)
			f.over("64KB-gateway-over-direct", timed(40, func() { callEcho(b, through, "bench__echo", large) }), own)
			many := inFlight(16, 800, func() { callEcho(b, direct, "echo", "hello") })
			f.add("16x-session-over-direct-rate", inFlight(16, 800, func() { callEcho(b, session, "echo", "hello") })/many)
			f.add("16x-gateway-over-direct-rate", inFlight(16, 800, func() { callEcho(b, through, "bench__echo", "hello") })/many)
		}
		f.report()
	}
}

// gatewayWith is the transport to a gateway before an executor whose user has configured a server.
func gatewayWith(b *testing.B, server protocol.MCPServer) mcp.Transport {
	x := brain.New(brain.Options{})
	b.Cleanup(func() { _ = x.Close("") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	hs := &http.Server{Handler: x}
	var serving sync.WaitGroup
	serving.Go(func() { _ = hs.Serve(l) })
	home := b.TempDir()
	config := filepath.Join(home, "config.yaml")
	require.NoError(b, os.WriteFile(config, []byte("mcp_servers:\n  - server_key: "+server.ServerKey+
		"\n    transport:\n      type: stdio\n      command: "+server.Transport.Command+"\n      env: {BENCH_ROLE: mcpserver}\n"), 0o600))
	p := benchRole("executor", "run", "--config", config, "--brain", "ws://"+l.Addr().String()+"/executor", "--state-dir", filepath.Join(home, "state"), "--log-level", "error")
	p.Dir = home
	p.Env = append(p.Env, "HOME="+home)
	p.Stderr = os.Stderr
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = p.Process.Signal(os.Interrupt)
		late := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		late.Stop()
		_ = hs.Close()
		serving.Wait()
	})
	g := gateway.New(x, gateway.Options{})
	b.Cleanup(func() { _ = g.Close() })
	near, far := mcp.NewInMemoryTransports()
	serving.Go(func() { _ = g.Serve(context.Background(), far) })
	return near
}
