package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// A call of a server that has ended for good says so, and why.
func TestServerEnded(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), servers(scripted(t, "ok", script{"tools/list": `{"tools":[{"name":"exit","inputSchema":{"type":"object"}}]}`}), stdio("broken", "/no/such/program"), own(t, "fine")))
		w.ready(1)
		c := w.client(nil)
		w.listed(c, 5)
		said := func(tool string) string {
			r, err := c.CallTool(w.ctx, &mcp.CallToolParams{Name: tool})
			if err != nil {
				return err.Error()
			}
			return text(r)
		}
		end := time.Now().Add(30 * time.Second)
		text := ""
		for text = said("ok__exit"); !strings.Contains(text, "has ended: "); text = said("ok__exit") {
			require.Regexp(t, "server ok ended before|server ok is not running just now|unknown tool", text)
			require.True(t, time.Now().Before(end))
		}
		t.Log(text)
		require.Contains(t, text, "not started again after 3 restarts")
		require.NotContains(t, text, "mcp_unavailable")
		text = said("broken__x")
		t.Log(text)
		require.Contains(t, text, "server broken has ended: ")
		require.Contains(t, said("fine__x"), "unknown tool")
		require.Contains(t, said("other"), "unknown tool")
	})
}

// Tools are listed without those of a server that says nothing for long; they come later.
func TestServerLate(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), servers(scripted(t, "late", script{
			"initialize": `after 5s {"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`})))
		w.ready(1)
		changes := make(chan struct{}, 99)
		c := w.client(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} }})
		begin := time.Now()
		require.Equal(t, []string{"echo"}, sorted(w.tools(c)))
		require.Less(t, time.Since(begin), 4900*time.Millisecond)
		w.tools(c)
		for w.tools(c)["late__t"] == nil {
			select {
			case <-changes:
			case <-time.After(20 * time.Second):
				t.Fatal(sorted(w.tools(c)))
			}
		}
		require.Equal(t, "called t", text(w.call(c, "late__t", nil)))
	})
}

// A server that never answers costs the call, with an error, and nothing else.
func TestServerNeverAnswers(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{Answer: 300 * time.Millisecond}, func(t *testing.T, w *world) {
		w.executor("one", servers(scripted(t, "s", script{"tools/list": `{"tools":[{"name":"silent","inputSchema":{"type":"object"}},{"name":"speaks","inputSchema":{"type":"object"}}]}`})))
		w.ready(1)
		c := w.client(nil)
		w.listed(c, 2)
		for range 2 {
			r := w.call(c, "s__silent", nil)
			require.True(t, r.IsError)
			require.Equal(t, "timeout", r.Meta["executor/reason"])
			require.Contains(t, text(r), "server s has neither answered nor told any progress for 300ms")
		}
		require.Equal(t, "called speaks", text(w.call(c, "s__speaks", nil)), "the server goes on")
	})
}
