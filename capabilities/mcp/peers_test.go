//go:build unix

package mcp

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/capabilitytest/npm"
	"github.com/agent-executor/executor/protocol"
)

// everything starts npm's server-everything over streamable HTTP, and returns its URL.
func everything(t *testing.T, peers npm.Installed) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := exec.Command(peers.Node, peers.Program("mcp-server-everything"), "streamableHttp")
	c.Env = append(os.Environ(), "PORT="+port)
	said, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "listening") {
				close(ready)
				break
			}
		}
		for lines.Scan() { // it is read to its end
		}
	}()
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not listen")
	}
	return "http://127.0.0.1:" + port + "/mcp"
}

// Servers of others: every tool, over both transports.
func TestEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs of npm")
	}
	peers := npm.Peers(t)
	for name, transport := range map[string]protocol.MCPTransport{
		"stdio": {Type: "stdio", Command: peers.Node, Args: []string{peers.Program("mcp-server-everything"), "stdio"}},
		"http":  {Type: "http", URL: everything(t, peers)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{Grace: time.Second}, protocol.MCPServer{ServerKey: name, Transport: transport})
			require.Equal(t, "ready", b.MCP()[name].State, "%v", b.MCP()[name].Error)
			progress := make(chan float64, 100)
			ch := b.channel().ch
			c := b.clientOn(ch, sampler(&sdk.ClientOptions{
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "me", "check": true}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
			}, "sampled by the brain"))
			args := map[string]map[string]any{
				"echo": {"message": "hello"}, "get-sum": {"a": 2, "b": 3}, "get-annotated-message": {"messageType": "error", "includeImage": true},
				"get-structured-content": {"location": "New York"}, "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
				"get-resource-links": {"count": 3}, "trigger-long-running-operation": {"duration": 1, "steps": 4},
				"trigger-sampling-request": {"prompt": "hi", "maxTokens": 10},
				"gzip-file-as-resource":    {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"},
			}
			count := 0
			for tool, err := range c.Tools(b.ctx, nil) {
				require.NoError(t, err)
				count++
				p := &sdk.CallToolParams{Name: tool.Name, Arguments: args[tool.Name]}
				if args[tool.Name] == nil {
					p.Arguments = map[string]any{}
				}
				if tool.Name == "trigger-long-running-operation" {
					p.Meta = sdk.Meta{"progressToken": "p"}
				}
				if tool.Name == "simulate-research-query" || strings.Contains(tool.Name, "async") {
					continue // they need tasks, which this client has not
				}
				r, err := c.CallTool(b.ctx, p)
				if !assert.NoError(t, err, tool.Name) {
					continue
				}
				assert.False(t, r.IsError, "%s: %v", tool.Name, text(r))
				if tool.Name == "trigger-sampling-request" {
					assert.Contains(t, text(r), "sampled by the brain")
				}
			}
			require.Greater(t, count, 8)
			require.NotEmpty(t, progress)
			t.Log(count, "tools")
			prompts, err := c.ListPrompts(b.ctx, nil)
			require.NoError(t, err)
			require.NotEmpty(t, prompts.Prompts)
			resources, err := c.ListResources(b.ctx, nil)
			require.NoError(t, err)
			require.NotEmpty(t, resources.Resources)

			ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
			defer cancel()
			_, err = c.CallTool(ctx, &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 30, "steps": 2}})
			require.Error(t, err)
			big := strings.Repeat("z", 1<<20)
			r, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"message": big}})
			require.NoError(t, err)
			require.Contains(t, text(r), big)
			b.End()
			require.Equal(t, protocol.CloseNormal, b.closed(ch).Code)
		})
	}
}

func text(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if x, ok := c.(*sdk.TextContent); ok {
			all = append(all, x.Text)
		}
	}
	return strings.Join(all, "\n")
}

// The server of files, which asks its client for the roots.
func TestFilesystem(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs of npm")
	}
	peers := npm.Peers(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("the text"), 0o600))
	b := newBench(t, Options{Grace: time.Second}, protocol.MCPServer{ServerKey: "files", Transport: protocol.MCPTransport{Type: "stdio", Command: peers.Node,
		Args: []string{peers.Program("mcp-server-filesystem"), dir}}})
	c := b.client()
	r, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: "read_text_file", Arguments: map[string]any{"path": filepath.Join(dir, "a.txt")}})
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Equal(t, "the text", text(r))
	r, err = c.CallTool(b.ctx, &sdk.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": filepath.Join(dir, "b.txt"), "content": "new"}})
	require.NoError(t, err)
	require.False(t, r.IsError)
	raw, err := os.ReadFile(filepath.Join(dir, "b.txt"))
	require.NoError(t, err)
	require.Equal(t, "new", string(raw))
}
