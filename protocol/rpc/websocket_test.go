package rpc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// accepting serves WebSockets with mux and hands each accepted Conn to the test.
func accepting(x *rpc.Mux, o rpc.AcceptOptions, conns chan<- *rpc.Conn) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := rpc.Accept(w, r, o)
		if err != nil {
			return
		}
		c := rpc.NewConn(f, x, nil)
		c.Start()
		conns <- c
	})
}

func echoAll(t *testing.T, c *rpc.Conn) {
	t.Helper()
	for _, n := range []int{0, 1, 125, 126, 127, 4000, 65535, 65536, 65537, 900_000} {
		text := strings.Repeat("é", n/2)
		r, err := rpc.Call(t.Context(), c, echo, echoParams{Text: text, N: n})
		require.NoError(t, err)
		require.Equal(t, n, r.N)
		require.True(t, r.Text == text, "%d bytes came back changed", n)
	}
}

func connect(t *testing.T, f rpc.Frames, x *rpc.Mux) *rpc.Conn {
	c := rpc.NewConn(f, x, nil)
	c.Start()
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTCP(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	srv := httptest.NewServer(accepting(echoMux(0), rpc.AcceptOptions{}, conns))
	defer srv.Close()
	f, err := rpc.Dial(t.Context(), "ws"+srv.URL[4:], rpc.DialOptions{})
	require.NoError(t, err)
	require.Equal(t, protocol.Version1, f.Subprotocol())
	c := connect(t, f, echoMux(0))
	s := <-conns
	defer s.Close()
	echoAll(t, c)
	echoAll(t, s) // frames of the other direction are not masked
}

// Over TLS with a private CA, and not without it (case 102).
func TestTLS(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	srv := httptest.NewUnstartedServer(accepting(echoMux(0), rpc.AcceptOptions{}, conns))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is refused
	srv.StartTLS()
	defer srv.Close()
	wss := "wss" + srv.URL[5:]
	_, err := rpc.Dial(t.Context(), wss, rpc.DialOptions{})
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	f, err := rpc.Dial(t.Context(), wss, rpc.DialOptions{TLS: &tls.Config{RootCAs: pool}})
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	defer s.Close()
	echoAll(t, c)
	echoAll(t, s)
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "brain.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	conns := make(chan *rpc.Conn, 1)
	srv := &http.Server{Handler: accepting(echoMux(0), rpc.AcceptOptions{}, conns)}
	go srv.Serve(ln)
	defer srv.Close()
	f, err := rpc.Dial(t.Context(), "unix://"+path, rpc.DialOptions{})
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	defer s.Close()
	echoAll(t, c)
}

func TestDialURL(t *testing.T) {
	for _, u := range []string{"http://x/", "ws://", "unix://rel/path", "x", "", "ws://a b", "unix:///" + strings.Repeat("x", rpc.MaxSocketPath)} {
		_, err := rpc.Dial(t.Context(), u, rpc.DialOptions{})
		require.ErrorContains(t, err, "brain URL", u)
	}
}

// What a server says instead of an upgrade reaches the caller, short and with the time
// it asks for.
func TestDialError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "come back later\nsecond line", http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	_, err := rpc.Dial(t.Context(), "ws"+srv.URL[4:], rpc.DialOptions{})
	var refused *rpc.DialError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, rpc.DialError{Status: 503, Body: "come back later", RetryAfter: 7 * time.Second}, *refused)
}

// No subprotocol in common: the server closes with 4002, and the client says so.
func TestSubprotocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rpctest.Listen()
		accepted := make(chan error, 1)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := rpc.Accept(w, r, rpc.AcceptOptions{})
			accepted <- err
		})}
		go srv.Serve(l)
		defer srv.Close()
		o := l.DialOptions()
		o.Subprotocols = []string{"executor.v9"}
		_, err := rpc.Dial(t.Context(), "ws://brain/", o)
		require.ErrorIs(t, err, protocol.ErrUnsupportedProtocol)
		require.ErrorContains(t, err, "executor.v9")
		require.ErrorIs(t, <-accepted, protocol.ErrUnsupportedProtocol)
	})
}

// The bearer token travels in the upgrade request, through a proxy too, whose own
// password is not told to anybody (case 101).
func TestProxy(t *testing.T) {
	conns := make(chan *rpc.Conn, 2)
	var token atomic.Value
	h := accepting(echoMux(0), rpc.AcceptOptions{}, conns)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	var tunnels sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := parseProxyAuth(r)
		if r.Method != http.MethodConnect || user != "u" || pass != "p@ss" {
			http.Error(w, "no", http.StatusProxyAuthRequired)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		from, rw, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		tunnels.Go(func() { _, _ = io.Copy(to, rw); to.Close() })
		tunnels.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	}))
	defer proxy.Close()
	dial := func(userinfo string) (rpc.Frames, error) {
		u, _ := url.Parse("http://" + userinfo + "@" + proxy.Listener.Addr().String())
		return rpc.Dial(t.Context(), "ws"+srv.URL[4:], rpc.DialOptions{Token: "tok", Proxy: http.ProxyURL(u)})
	}
	_, err := dial("u:wrong")
	require.ErrorContains(t, err, "the proxy http://"+proxy.Listener.Addr().String()+" answered 407 Proxy Authentication Required: no; give it a user and a password")
	require.NotContains(t, err.Error(), "wrong")
	var refused *rpc.ProxyError
	require.ErrorAs(t, err, &refused)
	f, err := dial("u:p%40ss")
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	echoAll(t, c)
	require.Equal(t, "Bearer tok", token.Load())
	s.Close()
	c.Close()
	tunnels.Wait()
}

func parseProxyAuth(r *http.Request) (user, pass string, ok bool) {
	fake := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return fake.BasicAuth()
}

// Cancelling ends a handshake that the server never answers.
func TestDialIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rpctest.Listen()
		defer l.Close()
		go func() {
			c, _ := l.Accept()
			_, _ = io.Copy(io.Discard, c) // reads, and says nothing
			c.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := rpc.Dial(ctx, "ws://brain/", l.DialOptions())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// bubble runs test in fake time with a connected pair over l.
func bubble(t *testing.T, x *rpc.Mux, test func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := rpctest.Listen()
		conns := make(chan *rpc.Conn, 1)
		srv := &http.Server{Handler: accepting(x, rpc.AcceptOptions{}, conns)}
		go srv.Serve(l)
		defer srv.Close()
		f, err := rpc.Dial(t.Context(), "ws://brain/", l.DialOptions())
		require.NoError(t, err)
		c := rpc.NewConn(f, echoMux(0), nil)
		c.Start()
		s := <-conns
		test(t, l, c, s)
		c.Close()
		s.Close()
	})
}

// An idle connection lives on pings; a silent one is noticed within 30 s by both ends
// (case 96).
func TestKeepAlive(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
		_, err := rpc.Call(t.Context(), c, echo, echoParams{})
		require.NoError(t, err)
		l.Stall(true)
		start := time.Now()
		<-c.Done()
		<-s.Done()
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		require.ErrorIs(t, c.Err(), rpc.ErrSilent)
		require.ErrorIs(t, s.Err(), rpc.ErrSilent)
	})
}

// A message over the receiver's limit closes with 1009, and the sender learns it.
func TestTooLargeToReceive(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		s.SetMaxReceiveBytes(10_000)
		_, err := rpc.Call(t.Context(), c, echo, echoParams{Text: strings.Repeat("x", 20_000)})
		require.ErrorIs(t, err, rpc.ErrClosed)
		var closed *rpc.CloseError
		require.ErrorAs(t, c.Err(), &closed)
		require.Equal(t, protocol.CloseTooBig, closed.Code)
		require.False(t, closed.Local)
	})
}

func TestCloseCodeArrives(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		s.Shutdown(protocol.CloseReplaced, "replaced by a newer one "+strings.Repeat("é", 100))
		<-c.Done()
		var closed *rpc.CloseError
		require.ErrorAs(t, c.Err(), &closed)
		require.Equal(t, protocol.CloseReplaced, closed.Code)
		require.Contains(t, closed.Reason, "replaced by a newer one")
	})
}

// A cut shows as an error at both ends and frees every call.
func TestCut(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		errs := make(chan error)
		go func() { _, err := rpc.Call(t.Context(), c, block, echoParams{}); errs <- err }()
		synctest.Wait()
		l.Cut()
		require.ErrorIs(t, <-errs, rpc.ErrClosed)
		<-c.Done()
		<-s.Done()
	})
}

// A peer that does not read: calls end with their context, what waits is bounded, and
// the connection ends by its write deadline.
func TestPeerThatDoesNotRead(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		l.Stall(true)
		big := strings.Repeat("x", 500_000)
		start := time.Now()
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := rpc.Call(ctx, c, echo, echoParams{Text: big})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		require.Equal(t, 2*time.Second, time.Since(start), "no call waits for longer than its context")
		<-c.Done()
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
	})
}

// Close does not wait for a peer that does not read.
func TestCloseBesidePeerThatDoesNotRead(t *testing.T) {
	bubble(t, echoMux(0), func(t *testing.T, l *rpctest.Listener, c, s *rpc.Conn) {
		l.Stall(true)
		for range 3 {
			go func() { _, _ = rpc.Call(t.Context(), c, echo, echoParams{Text: strings.Repeat("x", 900_000)}) }()
		}
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.Close())
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
	})
}

// Small messages go before bulk that waits, and a stream keeps its order.
func TestPriority(t *testing.T) {
	client, server := net.Pipe()
	slow := &slowConn{Conn: client, rate: 1 << 20}
	ready := make(chan *rpc.Conn, 1)
	x := echoMux(0)
	var streamed []int64
	out := protocol.ProcessOutput
	rpc.HandleNotification(x, out, func(_ context.Context, p protocol.ProcessOutputParams) { streamed = append(streamed, p.Cursor) })
	go func() {
		br := bufio.NewReader(server)
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		f, err := rpc.Accept(&hijackable{conn: server, rw: bufio.NewReadWriter(br, bufio.NewWriter(server))}, r, rpc.AcceptOptions{})
		if err != nil {
			return
		}
		s := rpc.NewConn(f, x, nil)
		s.Start()
		ready <- s
	}()
	f, err := rpc.Dial(t.Context(), "ws://brain/", rpc.DialOptions{
		NetDial: func(context.Context, string, string) (net.Conn, error) { return slow, nil },
		Proxy:   func(*http.Request) (*url.URL, error) { return nil, nil }})
	require.NoError(t, err)
	c := rpc.NewConn(f, rpc.NewMux(0), nil)
	c.Start()
	s := <-ready
	var bulk sync.WaitGroup
	const frames = 40
	bulk.Go(func() {
		for i := range frames {
			size := 60_000
			if i%3 == 0 {
				size = 10 // a small one of the stream does not overtake
			}
			_ = rpc.Notify(t.Context(), c, out, protocol.ProcessOutputParams{SessionID: "s", ProcessID: "p", Stream: "stdout", Cursor: int64(i), Data: make([]byte, size)})
		}
	})
	slow.waitBusy()
	start := time.Now()
	_, err = rpc.Call(t.Context(), c, echo, echoParams{N: 1})
	require.NoError(t, err)
	small := time.Since(start)
	bulk.Wait()
	_, err = rpc.Call(t.Context(), c, echo, echoParams{Text: strings.Repeat("x", 50_000)}) // bulk itself: behind all
	require.NoError(t, err)
	require.Less(t, small, time.Since(start)/3, "the small call waited for the bulk")
	c.Close()
	s.Close()
	require.Len(t, streamed, frames)
	for i, cursor := range streamed {
		require.EqualValues(t, i, cursor)
	}
}

// slowConn takes rate bytes a second.
type slowConn struct {
	net.Conn
	rate    int
	written atomic.Int64
}

func (s *slowConn) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		chunk := p[n:min(n+8<<10, len(p))]
		m, err := s.Conn.Write(chunk)
		n += m
		s.written.Add(int64(m))
		if err != nil {
			return n, err
		}
		time.Sleep(time.Duration(m) * time.Second / time.Duration(s.rate))
	}
	return n, nil
}

func (s *slowConn) waitBusy() {
	for s.written.Load() < 100_000 {
		time.Sleep(time.Millisecond)
	}
}

type hijackable struct {
	conn net.Conn
	rw   *bufio.ReadWriter
}

func (h *hijackable) Header() http.Header         { return http.Header{} }
func (h *hijackable) Write(p []byte) (int, error) { return h.conn.Write(p) }
func (h *hijackable) WriteHeader(int)             {}
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, h.rw, nil
}

// Frames that break RFC 6455 end the connection with an error, not a panic.
func TestBrokenWebSocketFrames(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	srv := httptest.NewServer(accepting(echoMux(0), rpc.AcceptOptions{}, conns))
	defer srv.Close()
	for i, bytes := range []string{"\xff\xff\xff\xff", "\x81\x05hello", "\x83\x80\x00\x00\x00\x00", "\x89\xfe\xff\xff\x00\x00\x00\x00",
		"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "\x80\x80\x00\x00\x00\x00", "\x88\x81\x00\x00\x00\x00x"} {
		raw, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(raw, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: executor.v1\r\n\r\n")
		s := <-conns
		_, _ = io.WriteString(raw, bytes)
		go func() { _, _ = io.Copy(io.Discard, raw) }()
		select {
		case <-s.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("frame %d: the connection did not end", i)
		}
		require.Error(t, s.Err())
		raw.Close()
		s.Close()
	}
}

// Many ends at once, in the middle of traffic, with -race: no panic, no goroutine left
// (cases 115, 116).
func TestCloseDuringTraffic(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	srv := httptest.NewServer(accepting(echoMux(0), rpc.AcceptOptions{PingInterval: time.Millisecond}, conns))
	defer srv.Close()
	for i := range 21 {
		f, err := rpc.Dial(t.Context(), "ws"+srv.URL[4:], rpc.DialOptions{PingInterval: time.Millisecond})
		require.NoError(t, err)
		c := rpc.NewConn(f, echoMux(0), nil)
		c.Start()
		s := <-conns
		var traffic sync.WaitGroup
		for _, end := range []*rpc.Conn{c, s} {
			for range 4 {
				traffic.Go(func() {
					for {
						if _, err := rpc.Call(t.Context(), end, echo, echoParams{Text: strings.Repeat("x", 70_000)}); err != nil {
							if !errors.Is(err, rpc.ErrClosed) && !errors.Is(err, protocol.ErrExecutorBusy) {
								t.Error(err)
							}
							return
						}
					}
				})
			}
		}
		time.Sleep(time.Duration(i%7) * time.Millisecond)
		if i%2 == 0 {
			c.Close()
			s.Close()
		} else {
			s.Shutdown(protocol.CloseGoingAway, "")
			c.Close()
			s.Close()
		}
		traffic.Wait()
	}
}
