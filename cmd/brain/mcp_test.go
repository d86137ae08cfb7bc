//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// piped starts brain mcp with a client.
func piped(t *testing.T, r *running, more ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"mcp", "--state-dir", r.dir}, more...)...)
	c, err := mcp.NewClient(&mcp.Implementation{Name: "my client", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err)
	return c, cmd
}

func mcpText(t *testing.T, c *mcp.ClientSession, tool string, input any) string {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: input})
	require.NoError(t, err)
	text := ""
	for _, b := range r.Content {
		text += b.(*mcp.TextContent).Text
	}
	return text
}

func TestMCP(t *testing.T) {
	r := startServer(t)
	withTools(r)
	c, _ := piped(t, r)
	defer c.Close()
	assert.Equal(t, "hi\n", mcpText(t, c, "bash", map[string]any{"command": "echo hi"}))

	var out bytes.Buffer
	require.NoError(t, printSessions(&out, nil))
	assert.Equal(t, "there is no session\n", out.String())
	out.Reset()
	var list []sessionInfo
	require.NoError(t, r.client.Do(t.Context(), http.MethodGet, "/v1/sessions", nil, &list))
	require.Len(t, list, 1)
	assert.Equal(t, "my client", list[0].Metadata["client_name"])
	list = append(list, sessionInfo{ID: "id\x1b", Name: "away\n"})
	require.NoError(t, printSessions(&out, list))
	assert.Regexp(t, `(?m)^SESSION +EXECUTOR +NAME +STATE +PROCESSES +CLIENT$`, out.String())
	assert.Contains(t, out.String(), "my client")
	assert.Contains(t, out.String(), "executor is away")
	assert.NotContains(t, out.String(), "\x1b")

	require.NoError(t, c.Close(), "exit code 0")
	r.noSessions()
}

// Whoever is killed leaves nothing running: the client, and with it the end of the input,
// or brain mcp itself.
func TestMCPKilled(t *testing.T) {
	r := startServer(t)
	dir := withTools(r)
	for name, kill := range map[string]os.Signal{"client": os.Interrupt, "brain mcp": os.Kill, "told to stop": os.Interrupt} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(program(t), "mcp", "--state-dir", r.dir)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			mark := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			_, err = fmt.Fprintf(in, "%s\n%s\n%s\n", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo $$ > `+mark+`; sleep 300"}}}`)
			require.NoError(t, err)
			var pid string
			require.Eventually(t, func() bool {
				raw, _ := os.ReadFile(mark)
				pid = strings.TrimSpace(string(raw))
				return pid != ""
			}, 30*time.Second, 10*time.Millisecond)
			before := time.Now()
			if name == "client" {
				require.NoError(t, in.Close())
			} else {
				require.NoError(t, cmd.Process.Signal(kill))
			}
			err = cmd.Wait()
			assert.Equal(t, name != "brain mcp", err == nil, "%v", err)
			r.noSessions()
			assert.NoError(t, syscallKillFails(pid))
			assert.Less(t, time.Since(before), 15*time.Second)
		})
	}
}

// syscallKillFails is an error while the process lives.
func syscallKillFails(pid string) error {
	if err := exec.Command("kill", "-0", pid).Run(); err == nil {
		return fmt.Errorf("process %s lives", pid)
	}
	return nil
}

// A brain that ends ends its clients.
func TestMCPBrainEnds(t *testing.T) {
	r := startServer(t)
	withTools(r)
	c, _ := piped(t, r)
	assert.Equal(t, "hi\n", mcpText(t, c, "bash", map[string]any{"command": "echo hi"}))
	url, token, _ := listening(t, r)
	assert.NotEmpty(t, token)
	require.NoError(t, r.stop())
	_ = c.Wait()
	_, err := http.Get(url)
	assert.Error(t, err)
	_ = c.Close()
}

func TestMCPRefusals(t *testing.T) {
	ctx := t.Context()
	r := startServer(t)
	var out bytes.Buffer
	err := mcpPipe(ctx, newClient(t.TempDir()), "", strings.NewReader(""), &out)
	assert.ErrorContains(t, err, "start one with brain serve")
	err = mcpListen(ctx, newClient(t.TempDir()), mcpListenRequest{Addr: "127.0.0.1:0"}, filepath.Join(t.TempDir(), "t"), &out)
	assert.ErrorContains(t, err, "start one with brain serve")
	err = mcpListen(ctx, newClient(r.dir), mcpListenRequest{Addr: "7071"}, "", &out)
	assert.ErrorContains(t, err, "want an address with a port")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	err = mcpListen(ctx, newClient(r.dir), mcpListenRequest{Addr: r.addr}, filepath.Join(t.TempDir(), "t"), &out)
	assert.ErrorContains(t, err, "choose another address with --listen")
	for _, origin := range []string{"host", "ftp://x", "https://x/path", "https://", "https://x?y"} {
		assert.ErrorContains(t, checkOrigins([]string{origin}), "--allow-origin")
	}
	assert.NoError(t, checkOrigins([]string{"https://x", "http://localhost:80/"}))
	assert.Empty(t, out.String(), "nothing but protocol is on standard output")

	var answer json.RawMessage
	err = r.client.Do(context.Background(), http.MethodPost, "/v1/mcp/listen", map[string]any{"addr": "127.0.0.1:0"}, &answer)
	assert.ErrorContains(t, err, "bad request", "there is no server without a token")
}

// A client without the token gets no further; the token's file is its owner's.
func TestMCPListen(t *testing.T) {
	r := startServer(t)
	url, _, stop := listening(t, r)
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	_ = resp.Body.Close()
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	info, err := os.Stat(filepath.Join(r.dir, "mcp-token"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	stop()
	assert.Eventually(t, func() bool { _, err := http.Get(url); return err != nil }, 10*time.Second, 10*time.Millisecond)
}
