//lint:file-ignore SA1019 clients and servers of today use sampling, roots and logging, whatever comes after them

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest/npm"
	capability "github.com/agent-executor/executor/capabilities/mcp"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// mcpSeat is a brain and an executor in this process, a WebSocket over loopback between them, and a session
// with MCP servers.
type mcpSeat struct {
	t    *testing.T
	dir  string
	dial net.Listener
	*brain.Session

	mu    sync.Mutex
	conns []net.Conn
}

func newMCPSeat(t *testing.T, servers ...protocol.MCPServer) *mcpSeat {
	s := &mcpSeat{t: t, dir: t.TempDir()}
	b := brain.New(brain.Options{})
	var err error
	s.dial, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: b, ConnState: s.track}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(s.dial) })
	e, err := executor.New(executor.Options{URL: "ws://" + s.dial.Addr().String() + "/executor", Name: "test", MinBackoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
		Workspace: executor.Workspace{Roots: []capabilities.Root{{Path: s.dir}}}})
	require.NoError(t, err)
	require.NoError(t, e.Register(capability.New(capability.Options{})))
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { assert.NoError(t, e.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		_ = b.Close("the test ends")
		_ = server.Close()
		running.Wait()
	})
	x, err := b.WaitExecutor(t.Context())
	require.NoError(t, err)
	s.Session, err = x.Assign(t.Context(), protocol.SessionAssignParams{MCPServers: servers})
	require.NoError(t, err)
	return s
}

// track keeps the connections that came in.
func (s *mcpSeat) track(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
	}
}

// cut cuts every connection there is.
func (s *mcpSeat) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func fromNPM(peers npm.Installed, key, program string, args ...string) protocol.MCPServer {
	return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: protocol.TransportStdio,
		Command: peers.Node, Args: append([]string{peers.Program(program)}, args...)}}
}

// everyTool is what each tool of server-everything is called with. Those that only work as tasks, which this
// client does not know, answer with an error that says so.
var everyTool = map[string]map[string]any{
	"echo":                              {"message": "hello"},
	"get-annotated-message":             {"messageType": "error", "includeImage": true},
	"get-env":                           {},
	"get-resource-links":                {"count": 3},
	"get-resource-reference":            {"resourceType": "Text", "resourceId": 1},
	"get-roots-list":                    {},
	"get-structured-content":            {"location": "Chicago"},
	"get-sum":                           {"a": 2, "b": 40},
	"get-tiny-image":                    {},
	"gzip-file-as-resource":             {"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"},
	"simulate-research-query":           {"topic": "bees"},
	"toggle-simulated-logging":          {},
	"toggle-subscriber-updates":         {},
	"trigger-elicitation-request":       {},
	"trigger-long-running-operation":    {"duration": 0.2, "steps": 4},
	"trigger-sampling-request":          {"prompt": "say it", "maxTokens": 10},
	"trigger-url-elicitation":           {"url": "https://example.test/", "message": "open it"},
	"trigger-sampling-request-async":    {"prompt": "say it"},
	"trigger-elicitation-request-async": {},
}

// TestServerEverything drives npm's server-everything, behind the executor, from the brain: each of its tools,
// its questions back to the client, its progress, a cancelled call, large messages, and lost connections.
func TestServerEverything(t *testing.T) {
	peers := npm.Peers(t)
	s := newMCPSeat(t, fromNPM(peers, "everything", "mcp-server-everything", "stdio"))
	var mu sync.Mutex
	heard := map[string]int{}
	hear := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		heard[what]++
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			hear("sampling")
			return &mcp.CreateMessageResult{Model: "none", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			hear("elicitation " + cmp.Or(r.Params.Mode, "form"))
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		Capabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { hear("progress") },
		LoggingMessageHandler:       func(context.Context, *mcp.LoggingMessageRequest) { hear("log") },
	})
	client.AddRoots(&mcp.Root{URI: "file://" + s.dir, Name: "work"})
	ctx := t.Context()
	server, err := client.Connect(ctx, s.MCP("everything"), nil)
	require.NoError(t, err)

	listed, err := server.ListTools(ctx, nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	require.Subset(t, slices.Collect(maps.Keys(everyTool)), names, "a tool that is not called")
	require.GreaterOrEqual(t, len(names), 15, names)
	answers := map[string]*mcp.CallToolResult{}
	for _, name := range names {
		params := &mcp.CallToolParams{Name: name, Arguments: everyTool[name]}
		params.SetProgressToken("of " + name)
		r, err := server.CallTool(ctx, params)
		if strings.Contains(name, "research") || strings.HasSuffix(name, "-async") {
			continue // only as a task
		}
		require.NoError(t, err, name)
		require.False(t, r.IsError, "%s: %+v", name, r.Content)
		answers[name] = r
	}
	require.Equal(t, "Echo: hello", mcpText(answers["echo"]))
	require.Contains(t, mcpText(answers["get-sum"]), "42")
	require.Contains(t, mcpText(answers["get-roots-list"]), s.dir)
	require.Contains(t, mcpText(answers["trigger-sampling-request"]), "sampled")
	require.Contains(t, mcpText(answers["trigger-elicitation-request"]), "Ada")
	require.NotNil(t, answers["get-structured-content"].StructuredContent)
	require.True(t, slices.ContainsFunc(answers["get-tiny-image"].Content, func(c mcp.Content) bool { _, ok := c.(*mcp.ImageContent); return ok }))
	mu.Lock()
	require.Equal(t, 4, heard["progress"])
	require.GreaterOrEqual(t, heard["sampling"], 1)
	require.GreaterOrEqual(t, heard["elicitation form"], 1)
	require.GreaterOrEqual(t, heard["elicitation url"], 1)
	mu.Unlock()

	// Resources and prompts, large ones, and many at once while connections are lost.
	resources, err := server.ListResources(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, resources.Resources)
	prompts, err := server.ListPrompts(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, prompts.Prompts)
	large := strings.Repeat("0123456789abcdef", 3<<19/16)
	r, err := server.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": large}})
	require.NoError(t, err)
	require.Equal(t, "Echo: "+large, mcpText(r))
	_, err = server.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": strings.Repeat("x", 5<<20)}})
	require.ErrorContains(t, err, "limit", "an error for this call only")

	stop := make(chan struct{})
	var cutter, calls sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(60 * time.Millisecond):
				s.cut()
			}
		}
	})
	for i := range 4 {
		calls.Go(func() {
			for n := range 20 {
				said := fmt.Sprintf("%d-%d %s", i, n, strings.Repeat("y", n*1000))
				r, err := server.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": said}})
				if assert.NoError(t, err) {
					assert.Equal(t, "Echo: "+said, mcpText(r))
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	cutter.Wait()

	// A call that is cancelled ends at once, and the next one works.
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = server.CallTool(soon, &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 60, "steps": 2}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = server.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "still here"}})
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.NoError(t, s.Stop(ctx, "done"))
}

// TestServerFilesystem drives npm's server-filesystem on the executor's files.
func TestServerFilesystem(t *testing.T) {
	peers := npm.Peers(t)
	dir := t.TempDir()
	s := newMCPSeat(t, fromNPM(peers, "files", "mcp-server-filesystem", dir))
	ctx := t.Context()
	server, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, s.MCP("files"), nil)
	require.NoError(t, err)
	call := func(tool string, args map[string]any) *mcp.CallToolResult {
		r, err := server.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		require.NoError(t, err, tool)
		return r
	}
	path := filepath.Join(dir, "notes.txt")
	require.False(t, call("write_file", map[string]any{"path": path, "content": "one\ntwo\n"}).IsError)
	require.False(t, call("edit_file", map[string]any{"path": path, "edits": []any{map[string]any{"oldText": "two", "newText": "three"}}}).IsError)
	onDisk, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\nthree\n", string(onDisk))
	require.Equal(t, "one\nthree\n", mcpText(call("read_text_file", map[string]any{"path": path})))
	require.True(t, call("read_text_file", map[string]any{"path": "/etc/passwd"}).IsError)
	pixels := bytes.Repeat([]byte{1, 2, 3}, 300_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), pixels, 0o600))
	media := call("read_media_file", map[string]any{"path": filepath.Join(dir, "a.png")})
	require.Equal(t, base64.StdEncoding.EncodeToString(pixels), base64.StdEncoding.EncodeToString(media.Content[0].(*mcp.ImageContent).Data))
	require.NoError(t, s.Stop(ctx, "done"))
}

// mcpText is the text of a result.
func mcpText(r *mcp.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}
