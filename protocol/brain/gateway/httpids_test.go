package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// Over HTTP too an id is echoed exactly or refused, and one in use is refused.
func TestHTTPIDs(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{}, func(t *testing.T, s *site) {
		began := make(chan struct{}, 1)
		s.executor("one", sleepy(), tool("hang", func(ctx context.Context, _ *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			began <- struct{}{}
			<-ctx.Done()
			return protocol.ToolOutput{}, ctx.Err()
		}))
		s.ready(1)
		resp := s.post(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		first, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.Contains(t, string(first), `"id":3,"error":{"code":-32600,`)
		resp = s.post(hello)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		id := "Mcp-Session-Id: " + resp.Header.Get("Mcp-Session-Id")
		post := func(body string) (int, string) {
			resp := s.post(body, id, "Mcp-Protocol-Version: 2025-06-18")
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp.StatusCode, string(raw)
		}
		status, _ := post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		require.Equal(t, http.StatusAccepted, status)
		for _, n := range []string{`7`, `9007199254740991`, `"a"`} {
			_, text := post(`{"jsonrpc":"2.0","id":` + n + `,"method":"ping"}`)
			require.Contains(t, text, `"id":`+n+`,`)
		}
		for _, n := range []string{`1.5`, `9007199254740993`, `12345678901234567890123`, `null`} {
			status, text := post(`{"jsonrpc":"2.0","id":` + n + `,"method":"ping"}`)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, text, `"id":null,"error":{"code":-32600,`)
		}

		call := `{"jsonrpc":"2.0","id":500,"method":"tools/call","params":{"name":"sleep","arguments":{"n":2500}}}`
		at, got := time.Now(), make(chan string)
		go func() {
			_, text := post(call)
			got <- text
		}()
		for len(s.brain.Executors()[0].Sessions()) == 0 {
			time.Sleep(time.Millisecond)
		}
		status, _ = post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":500.7}}`)
		require.Equal(t, http.StatusAccepted, status)
		status, text := post(call)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, text, "no answer yet")
		require.Contains(t, <-got, "slept")
		require.Greater(t, time.Since(at), 2*time.Second)
		_, text = post(`{"jsonrpc":"2.0","id":500,"method":"ping"}`)
		require.Contains(t, text, `"id":500,"result":{}`, "it is free again")

		// What was cancelled has an answer here, which ends the request, with a code.
		go func() {
			_, text := post(`{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"hang"}}`)
			got <- text
		}()
		<-began
		_, _ = post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":501}}`)
		require.Contains(t, <-got, `"code":-32800`)
		require.NoError(t, s.request(http.MethodDelete, "", id).Body.Close())
	})
}
