package gateway_test

//lint:file-ignore SA1019 what newer versions of MCP leave out is passed on for the others

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest/npm"
	capability "github.com/agent-executor/executor/capabilities/mcp"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// servers is the capability with servers of the machine.
func servers(list ...protocol.MCPServer) capabilities.Capability {
	return capability.New(capability.Options{Servers: list, LoginEnv: map[string]string{"PATH": os.Getenv("PATH")},
		Grace: 200 * time.Millisecond, RestartDelay: 10 * time.Millisecond})
}

func stdio(key, command string, args ...string) protocol.MCPServer {
	return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: protocol.TransportStdio, Command: command, Args: args}}
}

// own is this test binary as an MCP server.
func own(t *testing.T, key string) protocol.MCPServer {
	self, err := os.Executable()
	require.NoError(t, err)
	s := stdio(key, self)
	s.Transport.Env = map[string]string{"GATEWAY_TEST_SERVER": "1"}
	return s
}

// beServer is an MCP server of a few tools.
func beServer() {
	s := mcp.NewServer(&mcp.Implementation{Name: "own", Version: "1"}, nil)
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "grown"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text("grown"), nil, nil
		})
		return text("grows"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return text("%d", os.Getpid()), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "exit"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "greetings"}}}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "own://r", Name: "r"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "of the server"}}}, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

// A server that changes, one that ends, and one that never starts: each takes only its
// own tools away.
func TestServers(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), servers(own(t, "a"), own(t, "b"), stdio("broken", "/no/such/program"), stdio("silent", "false")))
		w.ready(1)
		changes := make(chan struct{}, 99)
		c := w.client(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} }})
		w.listed(c, 7)
		require.Equal(t, []string{"a__exit", "a__grow", "a__pid", "b__exit", "b__grow", "b__pid", "echo"}, sorted(w.tools(c)))
		require.Equal(t, "echo:x", text(w.call(c, "echo", toolInput{Text: "x"})))
		first := text(w.call(c, "a__pid", nil))
		require.NotEqual(t, first, text(w.call(c, "b__pid", nil)))

		until := func(want func(map[string]*mcp.Tool) bool) {
			t.Helper()
			for !want(w.tools(c)) {
				select {
				case <-changes:
				case <-time.After(20 * time.Second):
					t.Fatal(sorted(w.tools(c)))
				}
			}
		}
		require.Equal(t, "grows", text(w.call(c, "a__grow", nil)))
		until(func(tools map[string]*mcp.Tool) bool { return tools["a__grown"] != nil })
		require.Equal(t, "grown", text(w.call(c, "a__grown", nil)))

		r := w.call(c, "a__exit", nil)
		require.True(t, r.IsError)
		require.Contains(t, text(r), "server a ended")
		until(func(tools map[string]*mcp.Tool) bool { return tools["a__pid"] != nil && tools["a__grown"] == nil })
		require.NotEqual(t, first, text(w.call(c, "a__pid", nil)), "it was started again")
		require.NotEmpty(t, text(w.call(c, "b__pid", nil)))

		prompts, err := c.ListPrompts(w.ctx, nil)
		require.NoError(t, err)
		require.Len(t, prompts.Prompts, 2)
		greeting, err := c.GetPrompt(w.ctx, &mcp.GetPromptParams{Name: "b__greet"})
		require.NoError(t, err)
		require.Equal(t, "greetings", greeting.Messages[0].Content.(*mcp.TextContent).Text)
		read, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: "own://r"})
		require.NoError(t, err)
		require.Equal(t, "of the server", read.Contents[0].Text)
	})
}

// npm's server-everything through executor, brain and gateway: each of its tools, what it
// asks its client, progress, and a call that is cancelled.
func TestServerEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs from npm")
	}
	t.Parallel()
	peers := npm.Peers(t)
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", servers(stdio("every", peers.Node, peers.Program("mcp-server-everything"), "stdio")))
		w.ready(1)
		var mu sync.Mutex
		heard := map[string]int{}
		hear := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			heard[what]++
		}
		c := w.clientOf(serverVersion, &mcp.ClientOptions{
			CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				hear("sampling")
				return &mcp.CreateMessageResult{Model: "none", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil
			},
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				hear("elicitation")
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
			},
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				hear(fmt.Sprint(r.Params.ProgressToken))
			},
		}, &mcp.Root{URI: "file:///of/the/client", Name: "work"})
		tools := w.listed(c, 13)
		require.GreaterOrEqual(t, len(tools), 13, sorted(tools))
		inputs := map[string]map[string]any{
			"echo":                           {"message": "hello"},
			"get-annotated-message":          {"messageType": "error", "includeImage": true},
			"get-resource-links":             {"count": 3},
			"get-resource-reference":         {"resourceType": "Text", "resourceId": 1},
			"get-structured-content":         {"location": "Chicago"},
			"get-sum":                        {"a": 2, "b": 40},
			"gzip-file-as-resource":          {"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"},
			"trigger-long-running-operation": {"duration": 2, "steps": 4},
			"trigger-sampling-request":       {"prompt": "say it", "maxTokens": 10},
		}
		answers := map[string]*mcp.CallToolResult{}
		for _, full := range slices.Sorted(maps.Keys(tools)) {
			name, ok := strings.CutPrefix(full, "every__")
			require.True(t, ok, full)
			if strings.Contains(name, "research") || strings.HasSuffix(name, "-async") || strings.Contains(name, "url") {
				continue // a task, or another kind of client
			}
			p := &mcp.CallToolParams{Name: full, Arguments: inputs[name]}
			p.SetProgressToken("of " + name)
			r, err := c.CallTool(w.ctx, p)
			require.NoError(t, err, name)
			require.False(t, r.IsError, "%s: %s", name, text(r))
			answers[name] = r
		}
		require.Equal(t, "Echo: hello", text(answers["echo"]))
		require.Contains(t, text(answers["get-sum"]), "42")
		require.Contains(t, text(answers["trigger-sampling-request"]), "sampled")
		require.Contains(t, text(answers["trigger-elicitation-request"]), "Ada")
		require.Contains(t, text(answers["get-roots-list"]), "/of/the/client")
		require.NotNil(t, answers["get-structured-content"].StructuredContent)
		mu.Lock()
		require.GreaterOrEqual(t, heard["of trigger-long-running-operation"], 3, "of 4, of which the last may be overtaken by the result")
		mu.Unlock()

		soon, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.CallTool(soon, &mcp.CallToolParams{Name: "every__trigger-long-running-operation", Arguments: map[string]any{"duration": 60, "steps": 2}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		large := strings.Repeat("0123456789abcdef", 1<<20/16)
		require.Equal(t, "Echo: "+large, text(w.call(c, "every__echo", map[string]any{"message": large})))
		w.faults.CutNow()
		require.Equal(t, "Echo: again", text(w.call(c, "every__echo", map[string]any{"message": "again"})))
	})
}

// serverVersion is one in which servers may ask their clients.
const serverVersion = "2025-11-25"

// clientOf is client with a protocol version and roots.
func (w *world) clientOf(version string, o *mcp.ClientOptions, roots ...*mcp.Root) *mcp.ClientSession {
	w.t.Helper()
	here, there := net.Pipe()
	w.work.Go(func() { _ = w.gate.Serve(w.ctx, gateway.Lines(there, there)) })
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	client.AddRoots(roots...)
	c, err := client.Connect(w.ctx, &mcp.IOTransport{Reader: here, Writer: here}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(w.t, err)
	w.ends = append([]func(){func() { _ = c.Close() }}, w.ends...)
	return c
}
