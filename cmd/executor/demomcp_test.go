package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
)

// One line in the configuration of an MCP client: the program on standard input and
// output, in its directory. It leaves nothing behind.
func TestDemoMCP(t *testing.T) {
	s := newSite(t)
	temp := t.TempDir()
	cmd := exec.Command(filepath.Join(s.bin, "executor"), "demo", "--mcp")
	cmd.Dir, cmd.Env = s.work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "SHELL=/bin/sh", "TMPDIR=" + temp}
	var log lockedBuffer
	cmd.Stderr = &log
	began := time.Now()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err, log.String())
	t.Logf("connected after %v", time.Since(began).Round(time.Millisecond))
	work, err := filepath.EvalSymlinks(s.work)
	require.NoError(t, err)
	assert.Contains(t, c.InitializeResult().Instructions, "workspace "+work)
	call := func(tool string, args map[string]any) string {
		t.Helper()
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		require.NoError(t, err)
		text := r.Content[0].(*mcp.TextContent).Text
		require.False(t, r.IsError, text)
		return text
	}
	call("write", map[string]any{"path": "a.txt", "content": "hello\n"})
	assert.Equal(t, "hello\n", call("bash", map[string]any{"command": "cat a.txt"}))
	assert.FileExists(t, filepath.Join(s.work, "a.txt"))
	pid := strings.TrimSpace(call("run_shell", map[string]any{"command": "sleep 300 >/dev/null 2>&1 & echo $!"}))
	pid, _, _ = strings.Cut(pid, "\n")
	require.NoError(t, c.Close())
	assert.Less(t, time.Since(began), time.Minute)
	alive, _ := os.ReadFile("/proc/" + pid + "/cmdline") // of one that has ended there is nothing in it
	assert.Empty(t, alive, "what was left running")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Empty(t, log.String(), "nothing is wrong")
}

// Two roots, one of them only to be read; and in this process, so that what it leaves shows.
func TestDemoMCPInTheseRoots(t *testing.T) {
	configtest.Isolate(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	leaks := goleak.IgnoreCurrent()
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(two, "b.txt"), []byte("b"), 0o600))
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	ended := make(chan error, 1)
	var log bytes.Buffer
	go func() { ended <- runDemoMCP(t.Context(), []string{one, two + ":ro"}, "error", in, out, &log) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.IOTransport{Reader: fromOut, Writer: toIn}, nil)
	require.NoError(t, err)
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: map[string]any{"path": filepath.Join(two, "b.txt")}})
	require.NoError(t, err)
	assert.False(t, r.IsError)
	r, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: map[string]any{"path": filepath.Join(two, "c.txt"), "content": "x"}})
	require.NoError(t, err)
	assert.True(t, r.IsError)
	require.NoError(t, c.Close())
	require.NoError(t, <-ended, log.String())
	goleak.VerifyNone(t, leaks)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)

	assert.ErrorContains(t, runDemoMCP(t.Context(), []string{"/no/such"}, "error", in, out, &log), "does not exist")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, runDemoMCP(ctx, []string{one}, "error", in, out, &log), "told to stop")
	_, _, err = command(t, "demo", "--root", ".")
	assert.ErrorContains(t, err, "--root and --log-level are for demo --mcp")
}

// What a killed one has left behind is removed by the next; what is somebody's stays.
func TestSweepMCPDirs(t *testing.T) {
	temp := t.TempDir()
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	stays := []string{fmt.Sprintf("executor-mcp-%d-1", os.Getpid()), "executor-mcp-x-1", "executor-mcp-123", "other-1-1"}
	for _, name := range append([]string{fmt.Sprintf("executor-mcp-%d-77", gone.Process.Pid)}, stays...) {
		require.NoError(t, os.MkdirAll(filepath.Join(temp, name, "below"), 0o700))
	}
	sweepMCPDirs(temp)
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, stays, names)
}
