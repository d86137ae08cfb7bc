package gateway_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain/gateway"
	"github.com/agent-executor/executor/protocol/rpc"
)

// advertiser is an executor written by hand, which only says what it can do.
func (w *world) advertiser(infos []protocol.ToolInfo) (advertise func([]protocol.ToolInfo)) {
	w.t.Helper()
	f, err := rpc.Dial(w.ctx, "ws://brain/", w.net.DialOptions())
	require.NoError(w.t, err)
	c := rpc.NewConn(f, rpc.NewMux(0), nil)
	c.Start()
	w.ends = append(w.ends, func() { _ = c.Close() })
	of := func(infos []protocol.ToolInfo) protocol.Capabilities {
		caps := protocol.Capabilities{}
		require.NoError(w.t, caps.Set(protocol.CapabilityTools, infos))
		return caps
	}
	_, err = rpc.Call(w.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1,
		Executor: protocol.ExecutorInfo{Name: "hand", OS: "linux"}, Capabilities: of(infos)})
	require.NoError(w.t, err)
	return func(infos []protocol.ToolInfo) {
		require.NoError(w.t, rpc.Notify(w.ctx, c, protocol.ExecutorCapabilitiesUpdate, protocol.CapabilitiesUpdateParams{Capabilities: of(infos)}))
	}
}

func sorted(tools map[string]*mcp.Tool) []string { return slices.Sorted(maps.Keys(tools)) }

func TestSeveralExecutors(t *testing.T) {
	in(t, gateway.Options{Grace: 10 * time.Second}, func(t *testing.T, w *world) {
		changes := make(chan struct{}, 100)
		a := w.executor("a machine", echo("echo"), echo("only"))
		w.ready(1)
		c := w.client(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} }})
		require.Equal(t, []string{"echo", "only"}, sorted(w.tools(c)))
		b := w.executor("b", echo("echo"))
		w.ready(2)
		<-changes
		names := sorted(w.tools(c))
		require.Len(t, names, 3)
		require.True(t, strings.HasPrefix(names[0], "a_machine"), names)
		require.Equal(t, "b__echo", names[2])
		require.Contains(t, w.tools(c)["b__echo"].Description, "On b: ")
		require.Equal(t, "echo:x", text(w.call(c, "b__echo", toolInput{Text: "x"})))
		require.Equal(t, "only:x", text(w.call(c, "only", toolInput{Text: "x"})), "nobody else has one of that name")
		_, err := c.CallTool(w.ctx, &mcp.CallToolParams{Name: "echo"})
		require.ErrorContains(t, err, `tool "echo" is on several executors; name one of a_machine`)

		before := time.Now()
		b.leave()
		<-changes
		require.InDelta(t, 10, time.Since(before).Seconds(), 1, "its tools stay for the grace")
		require.Equal(t, []string{"echo", "only"}, sorted(w.tools(c)))
		require.Equal(t, "echo:x", text(w.call(c, names[0], toolInput{Text: "x"})), "the name of before")
		a.leave()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.tools(c))
		_, err = c.CallTool(w.ctx, &mcp.CallToolParams{Name: "echo"})
		require.ErrorContains(t, err, "no executor is connected")
	})
}

func TestOneOfSeveral(t *testing.T) {
	in(t, gateway.Options{Executor: "b"}, func(t *testing.T, w *world) {
		w.executor("a", echo("x"))
		w.executor("b", echo("y"))
		w.ready(2)
		c := w.client(nil)
		require.Equal(t, []string{"y"}, sorted(w.tools(c)))
	})
}

// The first list waits for an executor that is just coming.
func TestFirstList(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		c := w.client(nil)
		listed := make(chan []string)
		go func() { listed <- sorted(w.tools(c)) }()
		time.Sleep(3 * time.Second)
		w.executor("a", echo("x"))
		require.Equal(t, []string{"x"}, <-listed)
	})
}

// What is advertised goes to clients as it is, and what they would choke on does not.
func TestTools(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		advertise := w.advertiser(nil)
		changes := make(chan struct{}, 100)
		c := w.client(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} }})
		require.Empty(t, w.tools(c))
		yes := protocol.Annotations{ReadOnly: true, Destructive: true, Idempotent: true, OpenWorld: true}
		input := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"additionalProperties":false,"x-more":[1]}`)
		infos := []protocol.ToolInfo{
			{Name: "full", Description: "D", InputSchema: input, OutputSchema: input, Annotations: yes},
			{Name: "none"},
			{Name: "bad.name/with spaces", InputSchema: input},
			{Name: "bad name/with.spaces", InputSchema: input},
			{Name: "ünï", InputSchema: input},
			{Name: strings.Repeat("long", 50)},
			{Name: "array", InputSchema: json.RawMessage(`{"type":"array"}`)},
			{Name: "text", InputSchema: json.RawMessage(`"no"`)},
			{Name: "true", InputSchema: json.RawMessage(`true`)},
			{Name: "header", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A b"}}}`)},
			{Name: "out", OutputSchema: json.RawMessage(`{"type":"array"}`)},
		}
		advertise(infos)
		<-changes
		tools := w.tools(c)
		full := tools["full"]
		require.Equal(t, "D", full.Description)
		got, err := json.Marshal(full.InputSchema)
		require.NoError(t, err)
		require.JSONEq(t, string(input), string(got))
		require.NotNil(t, full.OutputSchema)
		require.Equal(t, &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: full.Annotations.DestructiveHint, OpenWorldHint: full.Annotations.OpenWorldHint}, full.Annotations)
		require.True(t, *full.Annotations.DestructiveHint)
		require.False(t, *tools["none"].Annotations.OpenWorldHint)
		require.Nil(t, tools["out"].OutputSchema)
		for _, gone := range []string{"array", "text", "true", "header"} {
			require.NotContains(t, tools, gone)
		}
		require.Len(t, tools, 7)
		for name := range tools {
			require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
		}
	})
}

// A gateway for an executor that is not there says which are.
func TestExecutorThatIsNotThere(t *testing.T) {
	in(t, gateway.Options{Executor: "nosuch"}, func(t *testing.T, w *world) {
		c := w.client(nil)
		_, err := c.CallTool(w.ctx, &mcp.CallToolParams{Name: "echo"})
		require.ErrorContains(t, err, `executor "nosuch" is not connected, nor is any other`)
		w.executor("two", echo("echo"))
		w.executor("one", echo("echo"))
		w.ready(2)
		_, err = c.CallTool(w.ctx, &mcp.CallToolParams{Name: "echo"})
		require.ErrorContains(t, err, `executor "nosuch" is not connected; connected are one, two`)
	})
}
