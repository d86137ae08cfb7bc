//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// site is an HTTP server whose handler can be exchanged, and what it was asked.
type site struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]

	mu   sync.Mutex
	seen []*http.Request
}

func newSite(t *testing.T, h http.Handler) *site {
	s := &site{}
	s.handler.Store(&h)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		(*s.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// methods are the requests so far, by their methods.
func (s *site) methods() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, r := range s.seen {
		n[r.Method]++
	}
	return n
}

func (s *site) server(key string) protocol.MCPServer {
	return protocol.MCPServer{ServerKey: key, Transport: protocol.MCPTransport{Type: "http", URL: s.URL + "/mcp"}}
}

func handlerOf(t *testing.T, server *sdk.Server, o *sdk.StreamableHTTPOptions) http.Handler {
	t.Cleanup(func() {
		for s := range server.Sessions() {
			_ = s.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, o)
}

// handle is a hand-written server: a function for POST, with the message.
func handle(post func(w http.ResponseWriter, id, method string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &m)
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		post(w, string(m.ID), m.Method)
	})
}

// ask sends a request and waits for what comes back.
func (b *bench) ask(o opening, id any, method string) string {
	b.t.Helper()
	require.NoError(b.t, o.ch.WriteFrame(b.ctx, request(id, method, map[string]any{})))
	frame, err := o.ch.ReadFrame(b.ctx)
	require.NoError(b.t, err)
	return string(frame)
}

// All of MCP goes over HTTP too, whichever way the server answers.
func TestHTTP(t *testing.T) {
	for name, o := range map[string]*sdk.StreamableHTTPOptions{"events": nil, "json": {JSONResponse: true}, "resumable": {EventStore: sdk.NewMemoryEventStore(nil)}} {
		t.Run(name, func(t *testing.T) {
			server := testServer()
			waits, canceled := make(chan struct{}), make(chan struct{})
			sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				close(waits)
				<-ctx.Done()
				close(canceled)
				return nil, nil, ctx.Err()
			})
			web := newSite(t, handlerOf(t, server, o))
			b := newBench(t, Options{}, web.server("web"))
			require.Equal(t, "ready", b.MCP()["web"].State)
			ch := b.channel().ch
			changed := make(chan struct{}, 10)
			c := b.clientOn(ch, sampler(&sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
			}, "fine"))
			tools, err := c.ListTools(b.ctx, nil)
			require.NoError(t, err)
			require.Len(t, tools.Tools, 11)
			require.Equal(t, "héllo\n", b.call(c, "echo", echoInput{"héllo\n"}))
			require.Equal(t, "fine", b.call(c, "ask", sizeInput{}))

			require.Eventually(t, func() bool { return web.methods()["GET"] > 0 }, 10*time.Second, time.Millisecond)
			server.AddTool(&sdk.Tool{Name: "new", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return nil, nil
			})
			select {
			case <-changed: // over the standing stream
			case <-b.ctx.Done():
				t.Fatal("no notification")
			}

			ctx, cancel := context.WithCancel(b.ctx)
			failed := make(chan error, 1)
			go func() {
				_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "wait", Arguments: struct{}{}})
				failed <- err
			}()
			<-waits
			require.Equal(t, "while it waits", b.call(c, "echo", echoInput{"while it waits"}))
			cancel()
			require.Error(t, <-failed)
			<-canceled
			require.Equal(t, "still there", b.call(c, "echo", echoInput{"still there"}))

			var all sync.WaitGroup
			for i := range 2 * maxPosts {
				all.Go(func() { assert.Equal(t, fmt.Sprint(i), b.call(c, "echo", echoInput{fmt.Sprint(i)})) })
			}
			all.Wait()

			web.mu.Lock()
			for _, r := range web.seen[2:] {
				assert.NotEmpty(t, r.Header.Get("Mcp-Session-Id"), r.Method)
				assert.Equal(t, "2025-11-25", r.Header.Get("Mcp-Protocol-Version"), r.Method)
			}
			web.mu.Unlock()
			b.End()
			require.Equal(t, protocol.CloseNormal, b.closed(ch).Code)
			require.Equal(t, 1, web.methods()["DELETE"])
		})
	}
}

// A server without sessions says with each request what the headers have to say.
func TestHTTPWithoutSession(t *testing.T) {
	web := newSite(t, handlerOf(t, testServer(), &sdk.StreamableHTTPOptions{Stateless: true}))
	b := newBench(t, Options{}, web.server("web"))
	c, err := sdk.NewClient(&sdk.Implementation{Name: "brain", Version: "1"}, nil).Connect(b.ctx, transport{b.channel().ch}, nil)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, "on", b.call(c, "echo", echoInput{"on"}))
	web.mu.Lock()
	defer web.mu.Unlock()
	last := web.seen[len(web.seen)-1]
	require.Equal(t, "2026-07-28", last.Header.Get("Mcp-Protocol-Version"))
	require.Equal(t, "tools/call", last.Header.Get("Mcp-Method"))
	require.Equal(t, "echo", last.Header.Get("Mcp-Name"))
	require.Empty(t, last.Header.Get("Mcp-Session-Id"))
}

// A server that is not there has failed; one that goes away costs the calls, and one that comes back has
// forgotten the session: then there is a new channel.
func TestHTTPRestart(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	web := newSite(t, handlerOf(t, testServer(), nil))
	b := newBench(t, Options{}, web.server("web"), protocol.MCPServer{ServerKey: "gone", Transport: protocol.MCPTransport{Type: "http", URL: gone.URL}})
	require.Equal(t, "mcp_unavailable", b.MCP()["gone"].Error.Reason)
	require.Contains(t, b.MCP()["gone"].Error.Message, "connection refused")
	first := b.channel()
	c := b.clientOn(first.ch, nil)
	unavailable := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not now\nreally", http.StatusServiceUnavailable)
	}))
	web.handler.Store(&unavailable)
	web.CloseClientConnections()
	_, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: "echo", Arguments: echoInput{"x"}})
	require.ErrorContains(t, err, "the server answers 503 Service Unavailable: not now")
	fresh := handlerOf(t, testServer(), nil)
	web.handler.Store(&fresh)
	_, err = c.CallTool(b.ctx, &sdk.CallToolParams{Name: "echo", Arguments: echoInput{"x"}})
	require.ErrorContains(t, err, "forgotten the session")
	second := b.channel()
	require.NotEqual(t, first.target.Incarnation, second.target.Incarnation)
	require.Equal(t, "on", b.call(b.clientOn(second.ch, nil), "echo", echoInput{"on"}))
}

// Whatever a server answers instead of an answer is an error under the id of the request, and the next one is
// a matter of its own.
func TestHTTPAnswers(t *testing.T) {
	events := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
	}
	reply := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
	elsewhere := newSite(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a message has gone elsewhere") }))
	for method, c := range map[string]struct {
		serve func(w http.ResponseWriter, id string)
		want  string
	}{
		"denied": {func(w http.ResponseWriter, _ string) { http.Error(w, "who are you?", http.StatusUnauthorized) }, "the server answers 401 Unauthorized: who are you?"},
		"rpc": {func(w http.ResponseWriter, id string) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32022,"message":"own"}}`)
		}, `"code":-32022,"message":"own"`},
		"rpc null": {func(w http.ResponseWriter, id string) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad day"}}`)
		}, "400 Bad Request: bad day"},
		"page": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, "but with text/html"},
		"moved":   {func(w http.ResponseWriter, _ string) { w.Header().Set("Location", elsewhere.URL); w.WriteHeader(307) }, "307 Temporary Redirect; it sends to another address"},
		"nothing": {func(w http.ResponseWriter, _ string) { w.Header().Set("Content-Type", "application/json") }, "the server answers nothing"},
		"taken":   {func(w http.ResponseWriter, _ string) { w.WriteHeader(202) }, "and answers nothing"},
		"no json": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{")
		}, "the server answers something else"},
		"other id": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}, "the server answers something else"},
		"batch": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[", reply(id, "5"), "]")
		}, `"result":5`},
		"torn": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, reply(id, "5"))
		}, "the connection to the server was lost"},
		"huge": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, reply(id, `"`+strings.Repeat("x", 5<<20)+`"`))
		}, "is over the limit"},
		"huge event": {func(w http.ResponseWriter, id string) {
			events(w)
			fmt.Fprint(w, "data: ", reply(id, `"`+strings.Repeat("x", 5<<20)+`"`), "\n\n")
		}, "is over the limit"},
		"cut": {func(w http.ResponseWriter, id string) { events(w); fmt.Fprint(w, "data: ", reply(id, "1")) }, "the stream of the server's answer was cut"},
		"strange": {func(w http.ResponseWriter, id string) {
			events(w)
			fmt.Fprint(w, ": hello\r\nevent: message\r\nfoo\r\nretry: 5\r\ndata:"+reply(id, "\ndata: 7")+"\r\n\r\n")
		}, "\"result\":\n7}"},
		"other": {func(w http.ResponseWriter, id string) {
			events(w)
			fmt.Fprint(w, "event: ping\ndata: x\n\ndata: {\n\ndata: {}\n\ndata: "+reply(id, "8")+"\n\ndata: "+reply(id, "9")+"\n\n")
		}, `"result":8`},
		"reset": {func(w http.ResponseWriter, _ string) { panic(http.ErrAbortHandler) }, "the server cannot be reached"},
		"in order": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, reply(id, "6"))
		}, `"result":6`},
	} {
		t.Run(method, func(t *testing.T) {
			web := newSite(t, handle(func(w http.ResponseWriter, id, m string) {
				if m == "ok" {
					w.Header().Set("Content-Type", "application/json; charset=utf-8")
					fmt.Fprint(w, reply(id, `"ok"`), "\n")
					return
				}
				c.serve(w, id)
			}))
			b := newBench(t, Options{}, web.server("web"))
			o := b.channel()
			got := b.ask(o, "the id", method)
			require.Contains(t, got, c.want)
			require.Contains(t, got, `"id":"the id"`)
			require.Equal(t, `{"jsonrpc":"2.0","id":2,"result":"ok"}`, b.ask(o, 2, "ok"), "the next message is its answer")
		})
	}
}

// A stream that is cut is gone on with behind the last event; what has come does not come again.
func TestHTTPResume(t *testing.T) {
	var asked atomic.Int32
	web := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			fmt.Fprint(w, "id: a1\nretry: 1\ndata:\n\nid: a2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\nid: a3\ndata: {\"jsonrpc\":\"2.0\",\"meth")
			return
		}
		switch n := asked.Add(1); {
		case n == 1:
			w.WriteHeader(http.StatusBadGateway)
		case r.Header.Get("Last-Event-ID") == "a2":
			fmt.Fprint(w, "id: a3\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n")
		case r.Header.Get("Last-Event-ID") == "a3" && n > 4:
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n\n")
		}
	}))
	b := newBench(t, Options{}, web.server("web"))
	o := b.channel()
	require.Equal(t, `{"jsonrpc":"2.0","method":"one"}`, b.ask(o, 1, "m"))
	for _, want := range []string{`{"jsonrpc":"2.0","method":"two"}`, `{"jsonrpc":"2.0","id":1,"result":3}`} {
		frame, err := o.ch.ReadFrame(b.ctx)
		require.NoError(t, err)
		require.Equal(t, want, string(frame))
	}
}

// A stream that brings nothing any more is given up.
func TestHTTPResumeInVain(t *testing.T) {
	web := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			fmt.Fprint(w, "id: a1\nretry: 1\ndata:\n\n")
		}
	}))
	b := newBench(t, Options{}, web.server("web"))
	require.Contains(t, b.ask(b.channel(), 1, "m"), "was cut")
	require.LessOrEqual(t, web.methods()["GET"], maxResumes)
}

// A server that answers late holds up nobody, not even the end of the session.
func TestHTTPSlow(t *testing.T) {
	release := make(chan struct{})
	web := newSite(t, handle(func(w http.ResponseWriter, id, method string) {
		if method == "slow" {
			<-release
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%q}`, id, method)
	}))
	b := newBench(t, Options{}, web.server("web"))
	o := b.channel()
	require.NoError(t, o.ch.WriteFrame(b.ctx, request(1, "slow", nil)))
	require.Contains(t, b.ask(o, 2, "fast"), `"id":2,"result":"fast"`)
	require.NoError(t, o.ch.WriteFrame(b.ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)))
	require.Contains(t, b.ask(o, 3, "fast"), `"id":3,"result":"fast"`, "the one that was cancelled is not answered")
	require.NoError(t, o.ch.WriteFrame(b.ctx, request(4, "slow", nil)))
	begin := time.Now()
	b.End()
	require.Less(t, time.Since(begin), 5*time.Second)
	close(release)
}

// In a sandbox without a network the brain gets no way around it; the user's own servers are the user's.
func TestNoHTTP(t *testing.T) {
	web := newSite(t, handlerOf(t, testServer(), nil))
	b := newBench(t, Options{NoHTTP: "commands have no network here", Servers: []protocol.MCPServer{web.server("own")}}, web.server("theirs"))
	require.Equal(t, "forbidden", b.MCP()["theirs"].Error.Reason)
	require.Contains(t, b.MCP()["theirs"].Error.Message, "commands have no network here")
	require.Equal(t, "own", b.channel().target.ServerKey)
	b.noChannel()
}

func TestProxy(t *testing.T) {
	for host, direct := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "LocalHost": true, "127.8.9.1": true} {
		r, err := http.NewRequest(http.MethodPost, "http://"+host+"/", nil)
		require.NoError(t, err)
		proxy, err := proxyFor(r)
		require.NoError(t, err)
		require.Equal(t, direct, proxy == nil)
	}
}

func TestHeaderText(t *testing.T) {
	for text, want := range map[string]string{"plain name": "plain name", "": "", " x": "=?base64?IHg=?=", "é": "=?base64?w6k=?=", "a\r\nb": "=?base64?YQ0KYg==?=", "=?base64?x": "=?base64?PT9iYXNlNjQ/eA==?="} {
		require.Equal(t, want, headerText(text))
	}
}
