package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Names of the checks of a brain, in their order.
const (
	Resolution   = "name resolution"
	TCP          = "TCP"
	Proxy        = "proxy"
	TLS          = "TLS"
	Upgrade      = "WebSocket upgrade"
	Registration = "registration"
	Clock        = "clock"
	Token        = "token"
)

// Brain is a brain that is to be reached, by one run of its checks.
type Brain struct {
	URL *url.URL // ws, wss or unix
	// Token gives the credential; nil = none is sent. It is asked once.
	Token func(context.Context) (string, error)
	TLS   *tls.Config
	// Proxy is that of the environment (http.ProxyFromEnvironment) when nil.
	Proxy        func(*http.Request) (*url.URL, error)
	Subprotocols []string      // that are offered
	Resolver     *net.Resolver // default: the system's
	// Exchange says that URL is where tokens are got for a key, and no brain: it is only
	// reached, since each exchange makes a token.
	Exchange bool

	// What the checks have found for those that need them.
	proxy *url.URL // nil = none
	probe probe

	once     sync.Once // for the next two
	token    string
	tokenErr error
}

// Checks are those of the network, from the name to the registration.
func (b *Brain) Checks() []Check {
	if b.URL.Scheme == "unix" {
		return []Check{
			{Name: Token, Run: b.checkToken},
			{Name: "socket", Run: b.checkSocket},
			{Name: Upgrade, Needs: []string{"socket"}, Run: b.checkUpgrade},
			{Name: Registration, Needs: []string{Upgrade, Token}, Run: b.checkRegistration},
		}
	}
	return []Check{
		{Name: Token, Run: b.checkToken},
		{Name: Resolution, Run: b.checkResolution},
		{Name: TCP, Needs: []string{Resolution}, Run: b.checkTCP},
		{Name: Proxy, Needs: []string{TCP}, Run: b.checkProxy},
		{Name: TLS, Needs: []string{Proxy}, Run: b.checkTLS},
		{Name: Upgrade, Needs: []string{TLS}, Run: b.checkUpgrade},
		{Name: Registration, Needs: []string{Upgrade, Token}, Run: b.checkRegistration},
		{Name: Clock, Needs: []string{TLS}, Run: b.checkClock},
	}
}

// httpURL is the URL under which HTTP knows the brain.
func (b *Brain) httpURL() *url.URL {
	u := *b.URL
	u.Scheme = map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	if u.Scheme == "" {
		u.Scheme = b.URL.Scheme
	}
	return &u
}

func (b *Brain) secure() bool { return b.httpURL().Scheme == "https" }

// findProxy is the proxy for the brain. It may be called by any check.
func (b *Brain) findProxy() (*url.URL, error) {
	find := b.Proxy
	if find == nil {
		find = http.ProxyFromEnvironment
	}
	return find(&http.Request{URL: b.httpURL()})
}

// hostPort is where the first connection goes: to the proxy, or to the brain.
func (b *Brain) hostPort() (host, port string) {
	u, at := b.httpURL(), "80"
	if p, err := b.findProxy(); err == nil && p != nil {
		u = p
	}
	switch u.Scheme {
	case "https":
		at = "443"
	case "socks5", "socks5h":
		at = "1080"
	}
	if u.Port() != "" {
		at = u.Port()
	}
	return u.Hostname(), at
}

// what is connected to first, for texts.
func (b *Brain) what() string {
	if p, err := b.findProxy(); err == nil && p != nil {
		return "the proxy"
	}
	return "the brain"
}

func (b *Brain) checkResolution(ctx context.Context) Result {
	if _, err := b.findProxy(); err != nil { // its text has the whole URL in it
		return fail("correct or unset HTTPS_PROXY and HTTP_PROXY", "the proxy in the environment is not a URL")
	}
	host, _ := b.hostPort()
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		return ok("%s is an address, there is no name to look up", host)
	}
	began := time.Now()
	resolver := b.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	list, err := resolver.LookupHost(ctx, host)
	if err == nil {
		return ok("%s is %s (%v)", host, strings.Join(list[:min(len(list), 4)], ", "), time.Since(began).Round(time.Millisecond))
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fail(fmt.Sprintf("correct the name of %s, or let the DNS or /etc/hosts know it", b.what()), "there is no host %s", host)
	}
	return fail("look at /etc/resolv.conf and whether this machine has a network", "the name server gives no answer for %s: %s", host, reason(err))
}

func (b *Brain) checkTCP(ctx context.Context) Result {
	host, port := b.hostPort()
	addr := net.JoinHostPort(host, port)
	began := time.Now()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil {
		took := time.Since(began).Round(time.Millisecond)
		remote := c.RemoteAddr()
		_ = c.Close()
		return ok("%s at %v takes connections (%v)", b.what(), remote, took)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(fmt.Sprintf("start %s, or correct its port", b.what()), "nothing listens at %s", addr)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return fail("look for a firewall between, and whether a proxy is needed (HTTPS_PROXY)", "no answer from %s", addr)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fail("look at this machine's network, its routes and VPN", "there is no way to %s: %s", addr, reason(err))
	}
	return fail(fmt.Sprintf("correct the address of %s", b.what()), "no connection to %s: %s", addr, reason(err))
}

func (b *Brain) checkSocket(ctx context.Context) Result {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", b.URL.Path)
	switch {
	case err == nil:
		_ = c.Close()
		return ok("%s takes connections", b.URL.Path)
	case errors.Is(err, os.ErrNotExist):
		return fail("start the brain, or correct the path", "there is no socket %s", b.URL.Path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail("start the brain; its socket is left over", "nothing listens at %s", b.URL.Path)
	case errors.Is(err, os.ErrPermission):
		return fail("give this user access to the socket, or run the executor as one who has it", "this user may not connect to %s", b.URL.Path)
	}
	return fail("correct the path of the brain's socket", "no connection to %s: %s", b.URL.Path, reason(err))
}

func (b *Brain) checkToken(ctx context.Context) Result {
	if b.Exchange {
		return ok("it is got for the environment key when the executor connects; not tried, since that makes one")
	}
	if b.Token == nil {
		return warn("give the brain's with --token-file FILE, mode 0600", "none is configured, so none is sent")
	}
	token, err := b.credential(ctx)
	if err != nil {
		return fail("put the brain's token where the settings say, or let the command print it within a few seconds", "%v", err)
	}
	return ok("there is one, of %d characters", len(token))
}

// credential asks for the token, once for all checks.
func (b *Brain) credential(ctx context.Context) (string, error) {
	b.once.Do(func() {
		if b.Token != nil {
			b.token, b.tokenErr = b.Token(ctx)
		}
	})
	return b.token, b.tokenErr
}

// reason is an error without the address, which stands in the text around it.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	return err.Error()
}
