package rpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ProxyError is the answer of an HTTP proxy that does not connect to the brain. It is not
// the brain's own: whatever it says, another attempt may succeed.
type ProxyError struct {
	Proxy  string // its URL, without user and password
	Status int    // the HTTP status
	Body   string // the first line of the body
}

func (e *ProxyError) Error() string {
	s := fmt.Sprintf("the proxy %s answered %d %s", e.Proxy, e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		s += ": " + e.Body
	}
	if e.Status == http.StatusProxyAuthRequired {
		s += "; give it a user and a password that it takes, in the proxy's URL: http://USER:PASSWORD@HOST:PORT, with what is no letter or digit in them as %XX"
	}
	return s
}

// throughProxy reports whether a proxy is one that is asked with CONNECT; others are
// gorilla's.
func throughProxy(proxy *url.URL) bool {
	return proxy != nil && (proxy.Scheme == "http" || proxy.Scheme == "https")
}

// proxyFor asks for the proxy to a WebSocket URL.
func (o *DialOptions) proxyFor(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("brain URL: not a URL") // its own error would repeat a password
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	}
	proxy, err := o.Proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}})
	if err != nil { // its text has the proxy's password in it
		return nil, errors.New("the proxy in HTTPS_PROXY or HTTP_PROXY is not a URL; correct or unset it")
	}
	return proxy, nil
}

// proxyAddress is where a proxy listens.
func proxyAddress(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// tunnel asks the proxy at the other end of s to connect to addr, and returns the
// connection that leads there. It ends with ctx.
func tunnel(ctx context.Context, s *socket, proxy *url.URL, addr string, config *tls.Config) (net.Conn, error) {
	name := (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if deadline, ok := ctx.Deadline(); ok {
		_ = s.SetDeadline(deadline)
		defer func() { _ = s.SetDeadline(time.Time{}) }()
	}
	var c net.Conn = s
	if proxy.Scheme == "https" {
		s.expect(maxTLSHandshake, errLongTLS)
		secure := tls.Client(s, proxyTLS(config, proxy.Hostname()))
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("proxy %s: %w", name, err)
		}
		c = secure
	}
	s.expect(maxUpgradeAnswer, errLongAnswer)
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(c); err != nil {
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	in := bufio.NewReaderSize(c, frameHeader)
	answer, err := http.ReadResponse(in, request)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	// The body is not closed, which could read: a proxy made of net/http says that it is chunked
	// although what follows is the brain's, and Close would wait for its end.
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1024))
		line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return nil, &ProxyError{Proxy: name, Status: answer.StatusCode, Body: strings.ToValidUTF8(line[:min(len(line), 200)], "")}
	}
	if in.Buffered() > 0 {
		return nil, fmt.Errorf("proxy %s: it sent something before it was asked for anything", name)
	}
	s.expect(maxUpgradeAnswer, errLongAnswer)
	return c, nil
}

// proxyTLS is the configuration for the proxy itself, which is not shown the certificate
// that is for the brain.
func proxyTLS(config *tls.Config, host string) *tls.Config {
	if config == nil {
		return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	own := config.Clone()
	own.ServerName, own.Certificates, own.GetClientCertificate, own.NextProtos = host, nil, nil, nil
	return own
}
