package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

const token = "0123456789abcdef-the-token"

// brainServer is a brain that wants the token.
func brainServer(t *testing.T, wrap func(http.Handler) http.Handler) (*httptest.Server, *brain.Brain) {
	t.Helper()
	b := brain.New(brain.Options{Authenticate: func(r *http.Request) (brain.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return brain.Principal{}, &protocol.Error{Code: protocol.CodeUnauthorized, Message: "unknown token"}
		}
		return brain.Principal{Name: "x"}, nil
	}})
	var h http.Handler = b
	if wrap != nil {
		h = wrap(b)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	t.Cleanup(func() {
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, b.Shutdown(ctx))
	})
	return s, b
}

func (b *Brain) withToken(text string) *Brain {
	b.Token = func(context.Context) (string, error) { return text, nil }
	return b
}

func at(t *testing.T, raw string) *Brain {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	b := &Brain{URL: u, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, Subprotocols: rpc.Subprotocols(nil)}
	return b.withToken(token)
}

// look runs the checks of a brain.
func look(t *testing.T, b *Brain) map[string]Report {
	t.Helper()
	m := map[string]Report{}
	for _, r := range Run(t.Context(), b.Checks(), 10*time.Second) {
		assert.Equal(t, r.Status == Warn || r.Status == Fail, r.Remedy != "", "%s: %s: %q", r.Name, r.Text, r.Remedy)
		assert.NotContains(t, r.Text+r.Remedy, token)
		m[r.Name] = r
	}
	return m
}

// wants says how one check came out, and that what needs it was skipped.
func wants(t *testing.T, reports map[string]Report, name string, status Status, text, remedy string) {
	t.Helper()
	r := reports[name]
	assert.Equal(t, status, r.Status, "%s: %s", name, r.Text)
	assert.Contains(t, r.Text, text, name)
	assert.Contains(t, r.Remedy, remedy, name)
	if status != Fail {
		return
	}
	for other, r := range reports {
		if r.Status == Fail {
			assert.Equal(t, name, other, "nothing else fails: %s", r.Text)
		}
	}
}

func TestAllIsWell(t *testing.T) {
	s, b := brainServer(t, nil)
	s.Start()
	reports := look(t, at(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/executor?key=1"))
	for name, r := range reports {
		assert.Equal(t, OK, r.Status, "%s: %s", name, r.Text)
	}
	assert.Len(t, reports, 8)
	assert.Equal(t, "the brain would take this executor; none was registered", reports[Registration].Text)
	assert.Empty(t, b.Executors())
}

func TestNames(t *testing.T) {
	answer := func(code byte) *net.Resolver {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for p := make([]byte, 512); ; {
				n, from, err := c.ReadFrom(p)
				if err != nil {
					return
				}
				if code == 0xff { // a name server that says nothing
					continue
				}
				p[2], p[3] = p[2]|0x80, code
				_, _ = c.WriteTo(p[:n], from)
			}
		}()
		t.Cleanup(func() {
			_ = c.Close()
			<-done
		})
		return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
		}}
	}
	b := at(t, "wss://brain.example/executor")
	b.Resolver = answer(3)
	reports := look(t, b)
	wants(t, reports, Resolution, Fail, "there is no host brain.example", "correct the name of the brain")
	assert.Equal(t, Skip, reports[TCP].Status)
	assert.Equal(t, "not looked at, since name resolution failed", reports[Registration].Text)

	b = at(t, "wss://brain.example/executor")
	b.Resolver = answer(0xff)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := b.checkResolution(ctx)
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Text, "the name server gives no answer for brain.example")
	assert.Contains(t, r.Remedy, "/etc/resolv.conf")

	b = at(t, "wss://brain.example/executor")
	b.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("with geheim") }
	wants(t, look(t, b), Resolution, Fail, "the proxy in the environment is not a URL", "correct or unset HTTPS_PROXY")
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	wants(t, look(t, at(t, "ws://"+addr+"/")), TCP, Fail, "nothing listens at "+addr, "start the brain, or correct its port")

	s, _ := brainServer(t, nil) // the remedy
	s.Listener, err = net.Listen("tcp", addr)
	require.NoError(t, err)
	s.Start()
	assert.Equal(t, OK, look(t, at(t, "ws://"+addr+"/"))[Registration].Status)
}

func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	wants(t, look(t, at(t, "unix://"+path)), "socket", Fail, "there is no socket "+path, "start the brain, or correct the path")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	wants(t, look(t, at(t, "unix://"+path)), "socket", Fail, "nothing listens at "+path, "start the brain; its socket is left over")
	s, _ := brainServer(t, nil)
	path += "2"
	s.Listener, err = net.Listen("unix", path)
	require.NoError(t, err)
	s.Start()
	for name, r := range look(t, at(t, "unix://"+path)) {
		assert.Equal(t, OK, r.Status, "%s: %s", name, r.Text)
	}
}

// certificate makes one, of its own authority.
func certificate(t *testing.T, from, until time.Time, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: from, NotAfter: until,
		DNSNames: names, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pool
}

func TestCertificates(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	for _, c := range []struct {
		from, until time.Time
		names       []string
		known       bool
		status      Status
		text        string
		remedy      string
	}{
		{now.Add(-day), now.Add(100 * day), nil, true, OK, "TLS 1.3, certificate until", ""},
		{now.Add(-day), now.Add(100 * day), nil, false, Fail, "by an authority that is not known here", "--ca-file FILE.pem"},
		{now.Add(-day), now.Add(3*day + 30*time.Minute), nil, true, Warn, "its certificate ends in 72 hours", "renew"},
		{now.Add(-2 * day), now.Add(-day), nil, true, Fail, "the certificate ended at", "renew the brain's certificate, or correct this machine's clock"},
		{now.Add(day), now.Add(2 * day), nil, true, Fail, "the certificate begins at", "correct this machine's clock"},
		{now.Add(-day), now.Add(100 * day), []string{"other.example"}, true, Fail, "the certificate is not for 127.0.0.1", "use a name of the certificate"},
	} {
		cert, pool := certificate(t, c.from, c.until, c.names...)
		s, _ := brainServer(t, nil)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.Config.ErrorLog = quiet()
		s.StartTLS()
		b := at(t, "wss"+strings.TrimPrefix(s.URL, "https")+"/")
		b.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if c.known {
			b.TLS.RootCAs = pool
		}
		reports := look(t, b)
		wants(t, reports, TLS, c.status, c.text, c.remedy)
		if c.status != Fail {
			assert.Equal(t, OK, reports[Registration].Status, reports[Registration].Text)
			assert.Equal(t, OK, reports[Clock].Status, reports[Clock].Text)
		}
	}
}

// A brain that wants to see a certificate; the remedy is tried.
func TestClientCertificates(t *testing.T) {
	cert, pool := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(100*24*time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s, _ := brainServer(t, nil)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MaxVersion: version}
		s.Config.ErrorLog = quiet()
		s.StartTLS()
		b := at(t, "wss"+strings.TrimPrefix(s.URL, "https")+"/")
		b.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		reports := look(t, b)
		check := Upgrade
		if version == tls.VersionTLS12 {
			check = TLS
		}
		wants(t, reports, check, Fail, "the brain refuses: tls: ", "--client-cert FILE")
		b = at(t, "wss"+strings.TrimPrefix(s.URL, "https")+"/")
		b.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{cert}}
		assert.Equal(t, OK, look(t, b)[Registration].Status)
	}
}

func TestNoTLSThere(t *testing.T) {
	s, _ := brainServer(t, nil)
	s.Start()
	wants(t, look(t, at(t, "wss"+strings.TrimPrefix(s.URL, "http")+"/")), TLS, Fail, "does not speak TLS", "use ws:// if the brain speaks no TLS")
}

// A server that takes the connection and says nothing.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	began := time.Now()
	b := at(t, "wss://"+l.Addr().String()+"/")
	reports := map[string]Report{}
	for _, r := range Run(t.Context(), b.Checks(), 300*time.Millisecond) {
		reports[r.Name] = r
	}
	wants(t, reports, TLS, Fail, "no answer to the handshake", "look whether it is a brain that listens there")
	b = at(t, "ws://"+l.Addr().String()+"/")
	for _, r := range Run(t.Context(), b.Checks(), 300*time.Millisecond) {
		reports[r.Name] = r
	}
	wants(t, reports, Upgrade, Fail, "no answer to the upgrade", "lets WebSockets through")
	assert.Equal(t, Skip, reports[Clock].Status)
	assert.Less(t, time.Since(began), 10*time.Second)
}

func TestOtherServers(t *testing.T) {
	for _, c := range []struct {
		answer       http.HandlerFunc
		check        string
		text, remedy string
	}{
		{http.NotFound, Upgrade, "there is no brain under /executor: the server answered 404", "correct the path in the URL"},
		{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) }, Upgrade, "the server answered 503 Service Unavailable: later", "wait, or look after the brain"},
		{func(http.ResponseWriter, *http.Request) {}, Upgrade, "the server answered 200", "let what is between pass WebSockets on"},
		{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusGone) }, Registration, "the brain has removed this executor", "ask who runs the brain"},
		{func(w http.ResponseWriter, r *http.Request) {
			if f, err := rpc.Accept(w, r, rpc.AcceptOptions{Subprotocols: []string{"executor.v9"}}); err == nil {
				_ = f.Close(protocol.CloseNormal, "")
			}
		}, Upgrade, "unsupported protocol", "update the executor or the brain"},
		{closing(protocol.CloseUnauthorized, "no"), Registration, "the brain does not take the token", "put the brain's present token into the file"},
		{closing(protocol.CloseRegistrationRefused, "not you"), Registration, "the brain does not want this executor", "ask who runs the brain"},
		{closing(protocol.CloseUnsupportedProtocol, "old"), Registration, "no version of the protocol in common", "update"},
		{closing(protocol.CloseInternal, "oops"), Registration, "the brain closed the connection", "look into the brain's log"},
	} {
		s := httptest.NewServer(c.answer)
		wants(t, look(t, at(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/executor")), c.check, Fail, c.text, c.remedy)
		s.Close()
	}
}

func closing(code int, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if f, err := rpc.Accept(w, r, rpc.AcceptOptions{Subprotocols: rpc.Subprotocols(nil)}); err == nil {
			_ = f.Close(code, reason)
		}
	}
}

// A brain that knows no probe waits for a registration, and is left without one.
func TestBrainWithoutProbe(t *testing.T) {
	got := make(chan error, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := rpc.Accept(w, r, rpc.AcceptOptions{Subprotocols: rpc.Subprotocols(nil)})
		if err != nil {
			return
		}
		_, err = f.ReadFrame(r.Context())
		got <- err
		_ = f.Close(protocol.CloseNormal, "")
	}))
	defer s.Close()
	wants(t, look(t, at(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/")), Registration, Warn, "does not know the probe", "nothing, if the executor runs well")
	var closed *rpc.CloseError
	require.ErrorAs(t, <-got, &closed, "nothing was sent but the close")
}

func TestTokens(t *testing.T) {
	s, _ := brainServer(t, nil)
	s.Start()
	url := "ws" + strings.TrimPrefix(s.URL, "http") + "/"
	reports := look(t, at(t, url).withToken("another-token-of-the-brain"))
	wants(t, reports, Registration, Fail, "the brain does not take the token (401)", "put the brain's present token into the file")
	assert.Equal(t, "a brain answers, with 401", reports[Upgrade].Text)

	b := at(t, url)
	b.Token = nil
	reports = look(t, b)
	wants(t, reports, Registration, Fail, "the brain wants a token (401)", "--token-file FILE")
	assert.Equal(t, Warn, reports[Token].Status)

	b = at(t, url)
	asked := 0
	b.Token = func(context.Context) (string, error) {
		asked++
		return "", errors.New("token command: exit status 3")
	}
	reports = look(t, b)
	wants(t, reports, Token, Fail, "token command: exit status 3", "let the command print it")
	assert.Equal(t, OK, reports[Upgrade].Status)
	assert.Equal(t, "not looked at, since token failed", reports[Registration].Text)
	assert.Equal(t, 1, asked)

	b = at(t, url)
	b.Exchange, b.Token = true, nil
	b.URL.Scheme = "http"
	reports = look(t, b)
	assert.Equal(t, Skip, reports[Upgrade].Status)
	assert.Equal(t, Skip, reports[Registration].Status)
	assert.Equal(t, OK, reports[Clock].Status)
}

func TestClocks(t *testing.T) {
	for ahead, status := range map[time.Duration]Status{time.Hour: Fail, -time.Minute: Warn, 0: OK} {
		s, _ := brainServer(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
				next.ServeHTTP(w, r)
			})
		})
		s.Start()
		reports := look(t, at(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/"))
		assert.Equal(t, status, reports[Clock].Status, reports[Clock].Text)
		assert.Equal(t, OK, reports[Registration].Status)
	}
	s, _ := brainServer(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil })
	})
	s.Start()
	assert.Equal(t, Skip, look(t, at(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/"))[Clock].Status)
}

// proxyServer is a proxy that wants that user and password; "" = nobody's.
func proxyServer(t *testing.T, user string, deny bool) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		switch {
		case r.Method != http.MethodConnect || deny:
			http.Error(w, "not here", http.StatusForbidden)
			return
		case user != "" && name+":"+password != user:
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_ = buffered.Flush()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(to, buffered)
			_ = to.Close()
		}()
		_, _ = io.Copy(c, to)
		_ = c.Close()
		<-done
	}))
	t.Cleanup(s.Close)
	return s
}

func TestProxies(t *testing.T) {
	s, _ := brainServer(t, nil)
	s.Config.ErrorLog = quiet()
	cert, pool := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(100*24*time.Hour))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	for _, c := range []struct {
		wants, has   string
		deny         bool
		status       Status
		text, remedy string
	}{
		{"", "", false, OK, "lets through to 127.0.0.1", ""},
		{"u:p@ss", "", false, Fail, "wants a user name and password (407)", "put it into HTTPS_PROXY"},
		{"u:p@ss", "u:geheim99", false, Fail, "does not take the user name and password (407)", "correct them in HTTPS_PROXY"},
		{"u:p@ss", "u:p@ss", false, OK, "lets through", ""},
		{"", "", true, Fail, "answers 403 Forbidden", "exempt the brain with NO_PROXY"},
	} {
		proxy, err := url.Parse(proxyServer(t, c.wants, c.deny).URL)
		require.NoError(t, err)
		if name, password, ok := strings.Cut(c.has, ":"); ok {
			proxy.User = url.UserPassword(name, password)
		}
		b := at(t, "wss"+strings.TrimPrefix(s.URL, "https")+"/")
		b.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		b.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
		reports := look(t, b)
		wants(t, reports, Proxy, c.status, c.text, c.remedy)
		assert.NotContains(t, fmt.Sprint(reports), "geheim99")
		assert.NotContains(t, fmt.Sprint(reports), "p@ss")
		assert.Contains(t, reports[TCP].Text, "the proxy at")
		if c.status == OK {
			assert.Equal(t, OK, reports[Registration].Status, reports[Registration].Text)
		}
	}
}
