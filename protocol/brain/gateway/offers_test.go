package gateway_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// A server that tells of 5,000 changes is asked a few times.
func TestServerFloodsChanges(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", servers(scripted(t, "s", script{"tools/list": `{"tools":[{"name":"flood","inputSchema":{"type":"object"}},{"name":"count","inputSchema":{"type":"object"}}]}`}), own(t, "other")))
		w.ready(1)
		c := w.client(nil)
		w.listed(c, 5)
		begin := time.Now()
		w.call(c, "s__flood", nil)
		w.call(c, "other__pid", nil)
		var asked map[string]int
		for asked["tools/list"] < 2 {
			require.NoError(t, json.Unmarshal([]byte(text(w.call(c, "s__count", nil))), &asked))
		}
		most := 3 + int(time.Since(begin)/(250*time.Millisecond))
		require.LessOrEqual(t, asked["tools/list"], most, asked)
		require.Equal(t, 1, asked["prompts/list"], "those have not changed")
		require.Equal(t, 1, asked["resources/list"])
	})
}

// A change that is told while the list is looked at is not missed, and one without any is
// not told on.
func TestServerChanges(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", servers(own(t, "a")))
		w.ready(1)
		changes := make(chan struct{}, 99)
		c := w.client(&mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} }})
		w.listed(c, 3)
		for range 10 { // the same tool each time
			require.Equal(t, "grows", text(w.call(c, "a__grow", nil)))
		}
		for w.tools(c)["a__grown"] == nil {
			select {
			case <-changes:
			case <-time.After(20 * time.Second):
				t.Fatal(sorted(w.tools(c)))
			}
		}
		require.Equal(t, "grown", text(w.call(c, "a__grown", nil)))
	})
}
