package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

const httpToken = "a-token-of-this-test"

// site is a server of MCP over HTTP.
type site struct {
	*world
	clients *gateway.HTTP
	url     string
}

func overHTTP(t *testing.T, o gateway.Options, h gateway.HTTPOptions, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	real(t, o, func(t *testing.T, w *world) {
		h.Token = httpToken
		s := &site{world: w, clients: w.gate.HTTP(h)}
		server := httptest.NewServer(s.clients)
		defer func() { require.NoError(t, s.clients.Close()) }()
		defer server.Close()
		defer server.CloseClientConnections()
		s.url = server.URL
		test(t, s)
	})
}

type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect is a client of the library.
func (s *site) connect(o *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(s.ctx, &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: bearer{httpToken}}}, nil)
	require.NoError(s.t, err)
	return c
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}`

// post sends one request with these headers, "Name: value".
func (s *site) post(body string, headers ...string) *http.Response {
	s.t.Helper()
	return s.request(http.MethodPost, body, headers...)
}

func (s *site) request(method, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.ctx, method, s.url, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+httpToken)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	return resp
}

func status(t *testing.T, r *http.Response) int {
	t.Helper()
	_, err := io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	_ = r.Body.Close()
	return r.StatusCode
}

func TestHTTP(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{}, func(t *testing.T, s *site) {
		began, ended := make(chan struct{}, 9), make(chan struct{}, 9)
		heard := make(chan struct{})
		s.executor("one", echo("echo"), tool("talk", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			for i := range 3 {
				c.Output(protocol.StreamStdout, fmt.Appendf(nil, "line %d\n", i))
			}
			<-heard
			return protocol.Text("done"), nil
		}), tool("hang", func(ctx context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return protocol.ToolOutput{}, ctx.Err()
		}))
		s.ready(1)
		told := make(chan string, 99)
		changes := make(chan struct{}, 99)
		c := s.connect(&mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params.Message },
			ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} },
		})
		require.Len(t, s.tools(c), 3)
		require.Equal(t, "echo:x", text(s.call(c, "echo", toolInput{Text: "x"})))
		p := &mcp.CallToolParams{Name: "talk"}
		p.SetProgressToken("t")
		talked := make(chan error, 1)
		go func() {
			_, err := c.CallTool(s.ctx, p)
			talked <- err
		}()
		<-told
		close(heard)
		require.NoError(t, <-talked)
		s.executor("two", echo("echo"))
		<-changes

		ctx, cancel := context.WithCancel(s.ctx)
		go func() { <-began; cancel() }()
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
		require.ErrorIs(t, err, context.Canceled)
		<-ended

		// A session that is deleted takes its calls with it.
		over := make(chan error, 1)
		go func() {
			_, err := c.CallTool(s.ctx, &mcp.CallToolParams{Name: "hang"})
			over <- err
		}()
		<-began
		require.Equal(t, http.StatusNoContent, status(t, s.request(http.MethodDelete, "", "Mcp-Session-Id: "+c.ID())))
		<-ended
		<-over
		require.Empty(t, s.brain.Executors()[0].Sessions())
		require.Equal(t, http.StatusNotFound, status(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: "+c.ID())))
		_ = c.Close()
	})
}

// Who may not, and what is none, begins nothing.
func TestHTTPRefusals(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{Origins: []string{"https://tools.example"}, MaxBodyBytes: 10_000}, func(t *testing.T, s *site) {
		for _, c := range []struct {
			want    int
			body    string
			headers []string
		}{
			{http.StatusOK, hello, nil},
			{http.StatusOK, hello, []string{"Authorization: bearer " + httpToken}},
			{http.StatusUnauthorized, hello, []string{"Authorization: "}},
			{http.StatusUnauthorized, hello, []string{"Authorization: Bearer wrong"}},
			{http.StatusUnauthorized, hello, []string{"Authorization: Basic " + httpToken}},
			{http.StatusUnauthorized, hello, []string{"Authorization: Bearer  " + httpToken}},
			{http.StatusForbidden, hello, []string{"Origin: https://evil.example"}},
			{http.StatusForbidden, hello, []string{"Origin: null"}},
			{http.StatusForbidden, hello, []string{"Origin: http://localhost.evil.example"}},
			{http.StatusForbidden, hello, []string{"Origin: http://tools.example"}},
			{http.StatusOK, hello, []string{"Origin: https://tools.example"}},
			{http.StatusOK, hello, []string{"Origin: http://localhost:6274"}},
			{http.StatusOK, hello, []string{"Origin: http://[::1]:6274"}},
			{http.StatusForbidden, hello, []string{"Host: evil.example"}},
			{http.StatusForbidden, hello, []string{"Host: localhost.evil.example:80"}},
			{http.StatusOK, hello, []string{"Host: localhost:7"}},
			{http.StatusOK, hello, []string{"Host: tools.example"}},
			{http.StatusBadRequest, "garbage", nil},
			{http.StatusBadRequest, "", nil},
			{http.StatusRequestEntityTooLarge, `"` + strings.Repeat("x", 20_000) + `"`, nil},
			{http.StatusUnsupportedMediaType, hello, []string{"Content-Type: text/plain"}},
			{http.StatusNotFound, hello, []string{"Mcp-Session-Id: guessed"}},
			{http.StatusBadRequest, hello, []string{"Mcp-Protocol-Version: 1999-01-01"}},
		} {
			r := s.post(c.body, c.headers...)
			require.Equal(t, c.want, status(t, r), "%.50s %q", c.body, c.headers)
			if c.want == http.StatusUnauthorized {
				require.Contains(t, r.Header.Get("WWW-Authenticate"), "Bearer")
			}
		}
		require.Equal(t, http.StatusBadRequest, status(t, s.request(http.MethodGet, "")))
		require.Equal(t, http.StatusBadRequest, status(t, s.request(http.MethodDelete, "")))
		r := s.request(http.MethodOptions, "", "Origin: https://tools.example", "Authorization: ")
		require.Equal(t, http.StatusNoContent, status(t, r))
		require.Equal(t, "https://tools.example", r.Header.Get("Access-Control-Allow-Origin"))
		require.Panics(t, func() { s.gate.HTTP(gateway.HTTPOptions{}) })
	})
}

// A client that is killed ends nothing of the others', and what it had ends soon.
func TestHTTPClientThatIsKilled(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{Lost: 100 * time.Millisecond}, func(t *testing.T, s *site) {
		began, ended := make(chan struct{}, 9), make(chan struct{}, 9)
		s.executor("one", echo("echo"), tool("hang", func(ctx context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return protocol.ToolOutput{}, ctx.Err()
		}))
		s.ready(1)
		id := s.post(hello).Header.Get("Mcp-Session-Id")
		require.NotEmpty(t, id)
		status(t, s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id: "+id))
		ctx, kill := context.WithCancel(s.ctx)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Authorization", "Bearer "+httpToken)
			r.Header.Set("Mcp-Session-Id", id)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		<-began
		kill()
		<-gone
		<-ended
		require.Eventually(t, func() bool {
			return status(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: "+id)) == http.StatusNotFound
		}, 10*time.Second, 20*time.Millisecond)
	})
}

// A thousand sessions: some are refused, none is left over.
func TestHTTPThousandSessions(t *testing.T) {
	overHTTP(t, gateway.Options{MaxClients: 50}, gateway.HTTPOptions{}, func(t *testing.T, s *site) {
		s.executor("one", echo("echo"))
		s.ready(1)
		var ids []string
		refused := 0
		for range 1000 {
			r := s.post(hello)
			switch status(t, r) {
			case http.StatusOK:
				ids = append(ids, r.Header.Get("Mcp-Session-Id"))
			case http.StatusServiceUnavailable:
				require.NotEmpty(t, r.Header.Get("Retry-After"))
				refused++
			default:
				t.Fatal(r.Status)
			}
		}
		require.Len(t, ids, 50)
		require.Equal(t, 950, refused)
		require.Equal(t, http.StatusNoContent, status(t, s.request(http.MethodDelete, "", "Mcp-Session-Id: "+ids[0])))
		require.Equal(t, http.StatusOK, status(t, s.post(hello)))
		require.Equal(t, http.StatusNoContent, status(t, s.request(http.MethodDelete, "", "Mcp-Session-Id: "+ids[1])))
		for range 10 {
			r := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			status(t, r)
			require.NotEqual(t, http.StatusServiceUnavailable, r.StatusCode, "what does not begin with initialize takes no place")
		}
	})
}

// A session that nobody uses ends.
func TestHTTPIdle(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{Idle: 50 * time.Millisecond}, func(t *testing.T, s *site) {
		id := s.post(hello).Header.Get("Mcp-Session-Id")
		require.Eventually(t, func() bool {
			return status(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: "+id)) == http.StatusNotFound
		}, 10*time.Second, 200*time.Millisecond)
	})
}

// Clients that say no goodbye keep no others out: an idle one's session ends for the next.
func TestHTTPIdleMakesRoom(t *testing.T) {
	overHTTP(t, gateway.Options{}, gateway.HTTPOptions{Spare: time.Nanosecond}, func(t *testing.T, s *site) {
		s.maxSessions = 1
		s.executor("one", echo("echo"))
		s.ready(1)
		for range 5 {
			id := s.post(hello).Header.Get("Mcp-Session-Id")
			require.Equal(t, http.StatusAccepted, status(t, s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id: "+id)))
			answer := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, "Mcp-Session-Id: "+id)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Contains(t, string(body), "echo:")
		}
	})
}
