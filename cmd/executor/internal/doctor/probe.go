package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// probe is what became of the connection with probe=1: the brain authenticates it and
// closes it, without a registration, and displaces nobody.
type probe struct {
	status int // of an answer that was no upgrade; 0 = it was one
	body   string
	closed error // how the connection ended
}

// withProbe is the URL of the brain with the query that asks for no registration.
func (b *Brain) withProbe(scheme string) string {
	u := *b.URL
	if scheme != "" {
		u.Scheme = scheme
	}
	q := u.Query()
	q.Set("probe", "1")
	u.RawQuery = q.Encode()
	return u.String()
}

// answerTime is how long a brain has to close a probe, once it took the connection.
const answerTime = 2 * time.Second

func (b *Brain) checkUpgrade(ctx context.Context) Result {
	if b.Exchange {
		return skip("not looked at: the token exchange says where the brain is, and each exchange makes a token")
	}
	token, _ := b.credential(ctx) // without one the brain's answer is still one
	frames, err := rpc.Dial(ctx, b.withProbe(""), rpc.DialOptions{Token: token, Subprotocols: b.Subprotocols, Proxy: b.Proxy, TLS: b.TLS, PingInterval: -1})
	var answer *rpc.DialError
	switch {
	case err == nil:
		wait, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		_, b.probe.closed = frames.ReadFrame(wait)
		protocolName := frames.Subprotocol()
		_ = frames.Close(protocol.CloseNormal, "probe")
		return ok("done, %s", protocolName)
	case errors.As(err, &answer):
		return b.refused(answer)
	case errors.Is(err, protocol.ErrUnsupportedProtocol):
		return fail("update the executor or the brain", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fail("look whether it is a brain that listens there, and whether a proxy or gateway lets WebSockets through", "no answer to the upgrade")
	}
	if isAlert(err) { // with TLS 1.3 the brain judges what it was shown after the handshake
		return fail(clientCertRemedy, "the brain refuses: %s", reason(err))
	}
	return fail("look whether it is a brain that listens there, and whether a proxy or gateway lets WebSockets through", "no upgrade: %s", reason(err))
}

// refused judges an answer that was no upgrade.
func (b *Brain) refused(answer *rpc.DialError) Result {
	b.probe.status, b.probe.body = answer.Status, answer.Body
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusGone:
		return ok("a brain answers, with %d", answer.Status)
	case http.StatusNotFound:
		return fail("correct the path in the URL of the brain; that of the bundled one is /executor", "there is no brain under %s: %v", b.URL.Path, answer)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return fail("wait, or look after the brain; the executor tries again by itself", "%v", answer)
	}
	return fail("correct the URL of the brain, or let what is between pass WebSockets on", "%v", answer)
}

func (b *Brain) checkRegistration(context.Context) Result {
	switch b.probe.status {
	case 0:
	case http.StatusUnauthorized, http.StatusForbidden:
		if b.token == "" {
			return fail("give the brain's token with --token-file FILE, mode 0600", "the brain wants a token (%d)", b.probe.status)
		}
		return fail("put the brain's present token into the file, or let the command print it", "the brain does not take the token (%d)", b.probe.status)
	case http.StatusGone:
		return fail("ask who runs the brain; give --state-dir a new directory for a new identity", "the brain has removed this executor, or was removed itself (410)")
	}
	var closed *rpc.CloseError
	if !errors.As(b.probe.closed, &closed) {
		if b.probe.closed == nil || errors.Is(b.probe.closed, context.DeadlineExceeded) {
			return warn("nothing, if the executor runs well; the brain should close a connection with probe=1", "the brain took the connection, and does not know the probe")
		}
		return fail("look into the brain's log", "the brain took the connection and lost it: %s", reason(b.probe.closed))
	}
	switch closed.Code {
	case protocol.CloseNormal:
		return ok("the brain would take this executor; none was registered")
	case protocol.CloseUnauthorized:
		return fail("put the brain's present token into the file, or let the command print it", "the brain does not take the token: %v", closed)
	case protocol.CloseUnsupportedProtocol:
		return fail("update the executor or the brain", "no version of the protocol in common: %v", closed)
	case protocol.CloseRegistrationRefused:
		return fail("ask who runs the brain", "the brain does not want this executor: %v", closed)
	}
	return fail("look into the brain's log", "the brain closed the connection: %v", closed)
}

// skews of clocks: below the first nothing is said. The lease does not hang on clocks,
// certificates and tokens do.
const (
	smallSkew = 5 * time.Second
	largeSkew = 5 * time.Minute
)

func (b *Brain) checkClock(ctx context.Context) Result {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.withProbe(b.httpURL().Scheme), nil)
	if err != nil {
		return skip("the brain cannot be asked: %v", err)
	}
	find := b.Proxy
	if find == nil {
		find = http.ProxyFromEnvironment
	}
	transport := &http.Transport{Proxy: find, TLSClientConfig: b.TLS.Clone(), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	began := time.Now()
	answer, err := client.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return skip("the brain says no time: %s", reason(err))
	}
	_ = answer.Body.Close()
	theirs, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return skip("the brain says no time: its answer has no date")
	}
	return judgeSkew(theirs.Add(500*time.Millisecond).Sub(began.Add(time.Since(began)/2)), time.Since(began))
}

// judgeSkew takes how far the brain's clock is ahead, with the time its answer took; a
// date is exact to a second.
func judgeSkew(ahead, took time.Duration) Result {
	const remedy = "set this machine's clock, or the brain's: timedatectl set-ntp true"
	off := max(ahead, -ahead)
	text := "ahead of"
	if ahead > 0 {
		text = "behind"
	}
	switch off = off.Round(time.Second); {
	case off <= smallSkew+took:
		return ok("within %v of the brain's", max(off, time.Second))
	case off < largeSkew:
		return warn(remedy, "this machine's is %v %s the brain's", off, text)
	}
	return fail(remedy, "this machine's is %v %s the brain's; certificates and tokens are judged wrongly", off, text)
}
