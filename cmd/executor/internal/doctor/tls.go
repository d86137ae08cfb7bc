package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// soon is when a certificate is worth a word before it ends.
const soon = 14 * 24 * time.Hour

func (b *Brain) checkProxy(ctx context.Context) Result {
	p, err := b.findProxy()
	if err != nil || p == nil {
		return ok("none is used for this brain")
	}
	b.proxy = p
	if p.Scheme == "socks5" || p.Scheme == "socks5h" {
		return ok("%s; whether it lets through is seen below", p.Redacted())
	}
	c, answer, err := b.tunnel(ctx)
	if err != nil {
		return fail("look at the proxy, or exempt the brain with NO_PROXY", "%s does not let through: %s", p.Redacted(), reason(err))
	}
	if c != nil {
		_ = c.Close()
		return ok("%s lets through to %s", p.Redacted(), b.httpURL().Host)
	}
	switch {
	case answer.StatusCode == http.StatusProxyAuthRequired && p.User == nil:
		return fail("put it into HTTPS_PROXY: http://user:password@host:port, with %40 for @", "%s wants a user name and password (407)", p.Redacted())
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return fail("correct them in HTTPS_PROXY, with %40 for @", "%s does not take the user name and password (407)", p.Redacted())
	}
	return fail("let the proxy allow the brain, or exempt the brain with NO_PROXY", "%s answers %s", p.Redacted(), answer.Status)
}

// connect opens what TLS, or HTTP, is spoken over: to the brain, through the proxy.
func (b *Brain) connect(ctx context.Context) (net.Conn, error) {
	if b.proxy == nil {
		host, port := b.hostPort()
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	}
	c, answer, err := b.tunnel(ctx)
	if err == nil && c == nil {
		err = fmt.Errorf("the proxy answers %s", answer.Status)
	}
	return c, err
}

// tunnel asks the proxy for a connection. c is nil when it answered something else.
func (b *Brain) tunnel(ctx context.Context) (c net.Conn, answer *http.Response, err error) {
	host, port := b.hostPort()
	c, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if b.proxy.Scheme == "https" {
		t := tls.Client(c, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := t.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, nil, err
		}
		c = t
	}
	target := b.httpURL()
	at := target.Port()
	if at == "" {
		at = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	to := net.JoinHostPort(target.Hostname(), at)
	request := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if u := b.proxy.User; u != nil {
		password, _ := u.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	if _, err = io.WriteString(c, request+"\r\n"); err == nil {
		// What follows the answer is TLS, which the other end does not begin.
		answer, err = http.ReadResponse(bufio.NewReader(io.LimitReader(c, 64<<10)), &http.Request{Method: http.MethodConnect})
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		_ = c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, answer, err
	}
	return c, answer, nil
}

func (b *Brain) checkTLS(ctx context.Context) Result {
	if !b.secure() {
		return ok("not used: %s:// sends in clear text", b.URL.Scheme)
	}
	if b.proxy != nil && (b.proxy.Scheme == "socks5" || b.proxy.Scheme == "socks5h") {
		return ok("not looked at by itself through %s", b.proxy.Scheme)
	}
	c, err := b.connect(ctx)
	if err != nil {
		return fail("try again; the connection before this one was made", "no connection: %s", reason(err))
	}
	defer c.Close()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.TLS != nil {
		config = b.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = b.URL.Hostname()
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		return b.tlsFailure(err)
	}
	s := t.ConnectionState()
	until := s.PeerCertificates[0].NotAfter
	if left := time.Until(until); left < soon {
		return warn("renew the brain's certificate", "%s; its certificate ends in %d hours, at %s", tls.VersionName(s.Version), int(left.Hours()), until.UTC().Format(time.RFC3339))
	}
	return ok("%s, certificate until %s", tls.VersionName(s.Version), until.UTC().Format(time.DateOnly))
}

// clientCertRemedy is for a brain that ends TLS.
const clientCertRemedy = "give the certificate that it wants to see with --client-cert FILE and --client-key FILE, or look into the brain's log"

// isAlert reports whether the other end has ended TLS, and said why.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func (b *Brain) tlsFailure(err error) Result {
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return fail("if it is your own authority, name its certificate with --ca-file FILE.pem", "the certificate is by an authority that is not known here")
	case errors.As(err, &wrongHost):
		return fail("use a name of the certificate in the URL of the brain, or give the brain one for this name", "the certificate is not for %s: %v", b.URL.Hostname(), wrongHost)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		now, cert := time.Now(), invalid.Cert
		if now.Before(cert.NotBefore) {
			return fail("correct this machine's clock if it is wrong", "the certificate begins at %s, and here it is %s", cert.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
		return fail("renew the brain's certificate, or correct this machine's clock", "the certificate ended at %s, and here it is %s", cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid):
		return fail("give the brain another certificate", "the certificate is not valid: %v", invalid)
	case errors.As(err, &record):
		return fail("correct the port, or use ws:// if the brain speaks no TLS", "what listens there does not speak TLS")
	case isAlert(err):
		return fail(clientCertRemedy, "the brain refuses: %s", reason(err))
	case errors.Is(err, context.DeadlineExceeded):
		return fail("look whether it is a brain that listens there, and what is between", "no answer to the handshake")
	}
	return fail("look whether it is a brain that listens there, and what is between", "the handshake failed: %s", reason(err))
}
