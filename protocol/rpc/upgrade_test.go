package rpc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/rpc"
)

// talker accepts connections and writes to each of them for as long as it is read.
// first is written once, then again and again.
func talker(t *testing.T, l net.Listener, first, then string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, err = http.ReadRequest(bufio.NewReader(c))
			for text := first; err == nil; text = then {
				_, err = c.Write([]byte(text))
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// counted is a network connection that knows how much was read of it.
type counted struct {
	net.Conn
	read *int
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	*c.read += n
	return n, err
}

// An answer without end is given up after 64 KiB: of the brain, behind TLS too, and of
// a proxy before it.
func TestEndlessAnswer(t *testing.T) {
	header := "X-A: " + strings.Repeat("a", 4000) + "\r\n"
	pool := x509.NewCertPool()
	secure := httptest.NewUnstartedServer(nil)
	secure.StartTLS()
	pool.AddCert(secure.Certificate())
	certificates := secure.TLS.Certificates
	secure.Close()
	for _, c := range []struct{ name, scheme, first, then string }{
		{"headers", "ws", "HTTP/1.1 101 Switching Protocols\r\n", header},
		{"one header", "ws", "HTTP/1.1 101 Switching Protocols\r\nX-A: ", strings.Repeat("a", 4000)},
		{"one status line", "ws", "HTTP/1.1 101 ", strings.Repeat("a", 4000)},
		{"TLS", "wss", "HTTP/1.1 101 Switching Protocols\r\n", header},
		{"proxy", "proxy", "HTTP/1.1 200 OK\r\n", header},
		{"proxy before TLS", "secure proxy", "HTTP/1.1 200 OK\r\n", header},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loopback(t)
			addr, read := l.Addr().String(), 0
			o := rpc.DialOptions{TLS: &tls.Config{RootCAs: pool}, NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return counted{conn, &read}, err
			}}
			to := "ws://" + addr
			switch c.scheme {
			case "wss":
				l, to = tls.NewListener(l, &tls.Config{Certificates: certificates}), "wss://"+addr
			case "proxy":
				o.Proxy, to = http.ProxyURL(&url.URL{Scheme: "http", Host: addr}), "ws://brain.example"
			case "secure proxy":
				o.Proxy, to = http.ProxyURL(&url.URL{Scheme: "http", Host: addr}), "wss://brain.example"
			}
			talker(t, l, c.first, c.then)
			_, err := rpc.Dial(t.Context(), to, o)
			require.ErrorContains(t, err, "the answer to the upgrade request is longer than 64 KiB")
			require.Less(t, read, 128<<10)
		})
	}
}

// A TLS handshake without end ends too.
func TestEndlessHandshake(t *testing.T) {
	l := loopback(t)
	record := "\x15\x03\x03\x00\x02\x01\x5a" // a warning, which may come again and again
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		for err == nil {
			_, err = c.Write([]byte(strings.Repeat(record, 1000)))
		}
		_ = c.Close()
	}()
	defer func() { _ = l.Close(); <-done }()
	_, err := rpc.Dial(t.Context(), "wss://"+l.Addr().String(), rpc.DialOptions{Timeout: 20 * time.Second})
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// The bound is for the answer alone: one of 60 KiB is read, and what comes after the
// upgrade is as long as it likes.
func TestLongAnswer(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	accept := accepting(echoMux(0), rpc.AcceptOptions{}, conns)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept.ServeHTTP(chatty{w}, r)
	}))
	defer srv.Close()
	f, err := rpc.Dial(t.Context(), "ws"+srv.URL[4:], rpc.DialOptions{})
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	defer s.Close()
	echoAll(t, c)
}

// chatty adds much to the answer of an upgrade.
type chatty struct{ http.ResponseWriter }

func (c chatty) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := c.ResponseWriter.(http.Hijacker).Hijack()
	return &chattyConn{Conn: conn}, rw, err
}

type chattyConn struct {
	net.Conn
	said bool
}

func (c *chattyConn) Write(p []byte) (int, error) {
	if c.said {
		return c.Conn.Write(p)
	}
	c.said = true
	head, rest, _ := strings.Cut(string(p), "\r\n")
	_, err := fmt.Fprintf(c.Conn, "%s\r\nX-A: %s\r\n%s", head, strings.Repeat("a", 60<<10), rest)
	return len(p), err
}
