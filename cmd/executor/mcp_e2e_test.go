//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// playMCPTools is an MCP server that says which process it is, and starts another that does not want to end.
func playMCPTools() {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return text("%d", os.Getpid()), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fork"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		c := exec.Command("sh", "-c", "trap '' TERM HUP; sleep 1000 & wait")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return nil, nil, err
		}
		return text("%d", c.Process.Pid), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "secret"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "I use the key", os.Getenv("DB_KEY"))
		return text("%s", os.Getenv("DB_KEY")), nil, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(9)
}

// toolServer is playMCPTools behind a shell, as package runners are.
func toolServer(t *testing.T, key string) protocol.MCPServer {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: protocol.TransportStdio, Command: "sh",
		Args: []string{"-c", program + "; true"}, Env: map[string]string{"MCP_ROLE": "tools"}}}
}

// mcpClient initializes a server of a session.
func mcpClient(ctx context.Context, t *testing.T, s *brain.Session, key string) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, s.MCP(key), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func toolText(ctx context.Context, t *testing.T, c *mcp.ClientSession, tool string) string {
	t.Helper()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: struct{}{}})
	require.NoError(t, err)
	return r.Content[0].(*mcp.TextContent).Text
}

func processGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(n, 0) == syscall.ESRCH }, 20*time.Second, 10*time.Millisecond, "process %d is still there", n)
}

// Servers of the assignment and of the configuration, with real processes: nothing is left of them when their session
// ends, and after a kill -9 of the executor (case 146); after that they are there again. Their secrets are nowhere
// else (case 38).
func TestMCPServersEndToEnd(t *testing.T) {
	r := newRig(t)
	const ours, theirs = "geheim-of-the-user", "geheim-of-the-brain"
	program, err := os.Executable()
	require.NoError(t, err)
	config := filepath.Join(r.home, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf("mcp_servers:\n  - server_key: local\n    transport:\n      command: sh\n      args: [-c, '%s; true']\n"+
		"      env: {MCP_ROLE: tools}\n      secret_env: {DB_KEY: %s}\n", program, ours)), 0o600))
	r.startExecutor("--config", config, "--log-level", "debug")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	x, err := r.serving.WaitExecutor(ctx)
	require.NoError(t, err)
	named := toolServer(t, "named")
	named.Transport.SecretEnv = map[string]string{"DB_KEY": theirs}
	assign := func() *brain.Session {
		t.Helper()
		s, err := x.Assign(ctx, protocol.SessionAssignParams{MCPServers: []protocol.MCPServer{named}})
		require.NoError(t, err)
		require.Equal(t, map[string]protocol.MCPState{"local": {State: "ready"}, "named": {State: "ready"}}, s.MCPServers())
		return s
	}

	s := assign()
	var pids []string
	for key, secret := range map[string]string{"local": ours, "named": theirs} {
		c := mcpClient(ctx, t, s, key)
		require.Equal(t, secret, toolText(ctx, t, c, "secret"))
		pids = append(pids, toolText(ctx, t, c, "pid"), toolText(ctx, t, c, "fork"))
	}
	lines, err := exec.Command("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").Output()
	require.NoError(t, err)
	require.NotContains(t, string(lines), ours)
	require.NotContains(t, string(lines), theirs)
	require.NoError(t, s.Stop(ctx, "done"))
	for _, pid := range pids {
		processGone(t, pid)
	}

	s, pids = assign(), nil
	for _, key := range []string{"local", "named"} {
		c := mcpClient(ctx, t, s, key)
		pids = append(pids, toolText(ctx, t, c, "pid"), toolText(ctx, t, c, "fork"))
	}
	r.stopExecutor(syscall.SIGKILL)
	processGone(t, pids[0])
	processGone(t, pids[2])
	r.startExecutor("--config", config, "--log-level", "debug")
	for _, pid := range pids {
		processGone(t, pid)
	}
	for _, key := range []string{"local", "named"} {
		var c *mcp.ClientSession
		require.Eventually(t, func() bool {
			c, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, s.MCP(key), nil)
			return err == nil
		}, 30*time.Second, 20*time.Millisecond, "the server %s of the restored session", key)
		require.NotContains(t, pids, toolText(ctx, t, c, "pid"))
		require.NoError(t, c.Close())
	}
	r.stopExecutor(syscall.SIGTERM)
	raw, err := os.ReadFile(r.log)
	require.NoError(t, err)
	require.NotContains(t, string(raw), ours)
	require.NotContains(t, string(raw), theirs)
	require.Contains(t, string(raw), "MCP server is ready")
}

// With --trust ask the local user is asked about the servers that the brain names, and about no other.
func TestMCPServersAreAskedAbout(t *testing.T) {
	r := newRig(t)
	program, err := os.Executable()
	require.NoError(t, err)
	r.startExecutor("--trust", "ask", "--policy", `{"tool":"mcp.local.*","action":"allow"}`, "--mcp-servers", fmt.Sprintf(`{"server_key":"local","transport":{"command":%q,"env":{"MCP_ROLE":"tools"}}}`, program))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	x, err := r.serving.WaitExecutor(ctx)
	require.NoError(t, err)
	named := toolServer(t, "named")
	named.Transport.SecretEnv = map[string]string{"DB_KEY": "geheim-99"}
	s, err := x.Assign(ctx, protocol.SessionAssignParams{MCPServers: []protocol.MCPServer{named}})
	require.NoError(t, err)
	require.Equal(t, "ready", s.MCPServers()["local"].State)
	require.Equal(t, protocol.ReasonConfirmationPending, s.MCPServers()["named"].Error.Reason)
	require.NotEmpty(t, toolText(ctx, t, mcpClient(ctx, t, s, "local"), "pid"))
	waits := r.pending()
	require.Len(t, waits, 1)
	require.Equal(t, "mcp.start", waits[0].Tool)
	require.Contains(t, waits[0].What, program+"; true")
	require.Contains(t, waits[0].What, "DB_KEY=(secret ")
	_, errs, code := r.command("approve", waits[0].ID)
	require.Zero(t, code, errs)
	var c *mcp.ClientSession
	require.Eventually(t, func() bool {
		c, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, s.MCP("named"), nil)
		return err == nil
	}, 30*time.Second, 20*time.Millisecond, "the server that was let")
	// And so are the calls of servers' tools, whoever has named the server.
	secret := make(chan string, 1)
	go func() { secret <- toolText(ctx, t, c, "secret") }()
	require.Eventually(t, func() bool { waits = r.pending(); return len(waits) == 1 }, 30*time.Second, 20*time.Millisecond, "the call waits")
	require.Equal(t, "mcp.named.secret", waits[0].Tool)
	_, errs, code = r.command("approve", waits[0].ID)
	require.Zero(t, code, errs)
	require.Equal(t, "geheim-99", <-secret)
	out, errs, code := r.command("audit")
	require.Zero(t, code, errs)
	for _, what := range []string{"mcp.start", "mcp.local.pid", "mcp.named.secret"} {
		require.Contains(t, out, what)
	}
	require.NotContains(t, out, "geheim-99")
}
