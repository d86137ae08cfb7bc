package rpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/rpc"
)

// tunnelling is a proxy that connects, and counts how often.
type tunnelling struct {
	*httptest.Server
	work sync.WaitGroup
	mu   sync.Mutex
	to   []string
	sees func(*http.Request)
}

func newTunnelling(t *testing.T, secure bool) *tunnelling {
	p := &tunnelling{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.to = append(p.to, r.Method+" "+r.Host)
		p.mu.Unlock()
		if p.sees != nil {
			p.sees(r)
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, "cannot\nreach it", http.StatusBadGateway)
			return
		}
		from, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		p.work.Go(func() { _, _ = io.Copy(to, rw); to.Close() })
		p.work.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	}))
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
		p.work.Wait()
	})
	return p
}

// A proxy that is asked over TLS itself, before a brain with TLS: it is not shown the
// brain's client certificate, nor the token.
func TestSecureProxy(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	brain := httptest.NewUnstartedServer(accepting(echoMux(0), rpc.AcceptOptions{}, conns))
	brain.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	brain.StartTLS()
	defer brain.Close()
	proxy := newTunnelling(t, true)
	proxy.TLS.ClientAuth = tls.RequestClientCert
	shown := -1
	proxy.sees = func(r *http.Request) {
		shown = len(r.TLS.PeerCertificates)
		require.Empty(t, r.Header.Get("Authorization"))
	}
	pool := x509.NewCertPool()
	pool.AddCert(brain.Certificate())
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	f, err := rpc.Dial(t.Context(), "wss"+strings.TrimPrefix(brain.URL, "https"), rpc.DialOptions{Token: "tok", Proxy: http.ProxyURL(u),
		TLS: &tls.Config{RootCAs: pool, Certificates: brain.TLS.Certificates}})
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	echoAll(t, c)
	s.Close()
	c.Close()
	require.Equal(t, 0, shown)
	require.Equal(t, []string{"CONNECT " + brain.Listener.Addr().String()}, proxy.to)
}

// A proxy that is made of net/http says that its answer is chunked, and then sends what the
// brain does.
func TestProxyWithAChunkedAnswer(t *testing.T) {
	conns := make(chan *rpc.Conn, 1)
	brain := httptest.NewServer(accepting(echoMux(0), rpc.AcceptOptions{}, conns))
	defer brain.Close()
	var work sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			return
		}
		w.WriteHeader(http.StatusOK)
		from, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			to.Close()
			return
		}
		_ = rw.Flush()
		work.Go(func() { _, _ = io.Copy(to, rw); to.Close() })
		work.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	}))
	defer work.Wait()
	defer proxy.Close()
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	f, err := rpc.Dial(t.Context(), "ws"+strings.TrimPrefix(brain.URL, "http"), rpc.DialOptions{Proxy: http.ProxyURL(u), Timeout: 10 * time.Second})
	require.NoError(t, err)
	c := connect(t, f, echoMux(0))
	s := <-conns
	echoAll(t, c)
	s.Close()
	c.Close()
}

func TestProxyRefuses(t *testing.T) {
	l := loopback(t)
	gone := l.Addr().String()
	require.NoError(t, l.Close())
	proxy := newTunnelling(t, false)
	u, err := url.Parse(strings.Replace(proxy.URL, "http://", "http://user:geheim99@", 1))
	require.NoError(t, err)
	dial := func(proxy *url.URL, o rpc.DialOptions) error {
		o.Proxy = http.ProxyURL(proxy)
		_, err := rpc.Dial(t.Context(), "ws://"+gone+"/x", o)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "geheim99")
		return err
	}
	require.EqualError(t, dial(u, rpc.DialOptions{}), "the proxy "+proxy.URL+" answered 502 Bad Gateway: cannot")
	require.ErrorContains(t, dial(&url.URL{Scheme: "http", Host: gone}, rpc.DialOptions{}), "connection refused")
	require.ErrorContains(t, dial(&url.URL{Scheme: "https", Host: strings.TrimPrefix(proxy.URL, "http://")}, rpc.DialOptions{}), "proxy https://")
	bad := "x"
	_, err = rpc.Dial(t.Context(), "ws://"+gone+"/x", rpc.DialOptions{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://u:geheim99@" + "h:" + bad) }})
	require.ErrorContains(t, err, "is not a URL; correct or unset it")
	require.NotContains(t, err.Error(), "geheim99")

	// One that accepts and says nothing is given up with the timeout, and with the context.
	mute := loopback(t)
	defer mute.Close()
	silent := &url.URL{Scheme: "http", Host: mute.Addr().String()}
	require.ErrorIs(t, dial(silent, rpc.DialOptions{Timeout: 50 * time.Millisecond}), context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = rpc.Dial(ctx, "ws://"+gone+"/x", rpc.DialOptions{Proxy: http.ProxyURL(silent)})
	require.ErrorIs(t, err, context.Canceled)
}

// A brain at an IPv6 literal, and at a name that has both kinds of addresses of which only
// one is listened at.
func TestDialIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	conns := make(chan *rpc.Conn, 2)
	server := &http.Server{Handler: accepting(echoMux(0), rpc.AcceptOptions{}, conns)}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	defer served.Wait()
	defer server.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"[::1]", "localhost"} {
		if addrs, _ := net.LookupHost("localhost"); host == "localhost" && !strings.Contains(strings.Join(addrs, " "), "::1") {
			continue // it has only one here
		}
		f, err := rpc.Dial(t.Context(), "ws://"+host+":"+port+"/executor", rpc.DialOptions{})
		require.NoError(t, err)
		c := connect(t, f, echoMux(0))
		s := <-conns
		echoAll(t, c)
		s.Close()
		c.Close()
	}
}
