package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agent-executor/executor/protocol"
)

// DialOptions of Dial; zero fields are defaults.
type DialOptions struct {
	Token         string                                // sent as Authorization: Bearer
	Header        http.Header                           // further headers
	Subprotocols  []string                              // offered, newest first (default executor.v1)
	Proxy         func(*http.Request) (*url.URL, error) // default: that of the environment
	TLS           *tls.Config                           // for wss (default: the system's roots)
	Timeout       time.Duration                         // for connect and upgrade together (default 30 s)
	MaxFrameBytes int                                   // largest message read (default 1 MiB)
	PingInterval  time.Duration                         // default 10 s; negative = no pings
	DeadAfter     time.Duration                         // nothing received for so long = dead (default 25 s)
	// NetDial opens the network connection (default: net.Dialer).
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DialError is the answer of a server that did not upgrade the connection.
type DialError struct {
	Status     int           // the HTTP status
	Body       string        // the first line of the body
	RetryAfter time.Duration // from the Retry-After header; 0 = none
}

func (e *DialError) Error() string {
	s := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		s += ": " + e.Body
	}
	return s
}

type transportOptions struct {
	maxFrame   int
	ping, dead time.Duration
}

func newTransportOptions(maxFrame int, ping, dead time.Duration) transportOptions {
	o := transportOptions{maxFrame: maxFrame, ping: ping, dead: dead}
	if o.maxFrame <= 0 {
		o.maxFrame = protocol.DefaultMaxControlFrame
	}
	if o.ping == 0 {
		o.ping = protocol.DefaultPingInterval
	}
	if o.dead <= 0 {
		o.dead = protocol.DefaultDeadAfter
	}
	return o
}

// Dial connects to a ws, wss or unix URL and upgrades to a WebSocket. The error is
// a *DialError when the server answered something else, wraps
// protocol.ErrUnsupportedProtocol when it chose none of the offered subprotocols,
// and is the network's own otherwise. Cancelling ctx ends the attempt at any point.
func Dial(ctx context.Context, rawURL string, o DialOptions) (Frames, error) {
	if o.Timeout <= 0 {
		o.Timeout = protocol.DefaultRequestTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.NetDial == nil {
		o.NetDial = (&net.Dialer{}).DialContext
	}
	if len(o.Subprotocols) == 0 {
		o.Subprotocols = []string{protocol.Version1}
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	rawURL, err := unixURL(rawURL, &o)
	if err != nil {
		return nil, err
	}
	proxy, err := o.proxyFor(rawURL)
	if err != nil {
		return nil, err
	}
	var s *socket
	d := websocket.Dialer{
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := addr
			if throughProxy(proxy) {
				to = proxyAddress(proxy)
			}
			c, err := o.NetDial(ctx, network, to)
			if err != nil {
				return nil, err
			}
			s = newSocket(c)
			s.expect(maxUpgradeAnswer, errLongAnswer)
			if !throughProxy(proxy) {
				return s, nil
			}
			through, err := tunnel(ctx, s, proxy, addr, o.TLS)
			if err != nil {
				_ = c.Close()
				return nil, err
			}
			return through, nil
		},
		TLSClientConfig: o.TLS,
		ReadBufferSize:  frameHeader,
		WriteBufferSize: frameHeader,
		Subprotocols:    o.Subprotocols,
	}
	if proxy != nil && !throughProxy(proxy) {
		d.Proxy = http.ProxyURL(proxy)
	}
	header := o.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if o.Token != "" {
		header.Set("Authorization", "Bearer "+o.Token)
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ // on this goroutine, as all of the dial
		TLSHandshakeStart: func() { s.expect(maxTLSHandshake, errLongTLS) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { s.expect(maxUpgradeAnswer, errLongAnswer) },
	})
	ws, resp, err := dialCancellable(traced, &d, rawURL, header)
	if err != nil {
		return nil, dialError(ctx, o.Token, resp, err)
	}
	s.upgraded()
	w := newWebSocket(ws, s, true, newTransportOptions(o.MaxFrameBytes, o.PingInterval, o.DeadAfter))
	if !slices.Contains(o.Subprotocols, ws.Subprotocol()) {
		w.refuse(protocol.CloseUnsupportedProtocol, "no subprotocol in common")
		return nil, fmt.Errorf("%w: offered %s, the server chose %q", protocol.ErrUnsupportedProtocol,
			strings.Join(o.Subprotocols, ", "), ws.Subprotocol())
	}
	return w, nil
}

// dialCancellable ends the handshake when ctx does; gorilla itself only looks at
// the context's deadline by then.
func dialCancellable(ctx context.Context, d *websocket.Dialer, rawURL string, header http.Header) (*websocket.Conn, *http.Response, error) {
	type result struct {
		ws   *websocket.Conn
		resp *http.Response
		err  error
	}
	var stop func() bool
	connect := d.NetDialContext
	d.NetDialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := connect(ctx, network, addr)
		if err == nil {
			stop = context.AfterFunc(ctx, func() { _ = c.Close() })
		}
		return c, err
	}
	var r result
	r.ws, r.resp, r.err = d.DialContext(ctx, rawURL, header)
	if stop != nil && !stop() && r.err == nil {
		r.err = ctx.Err()
	}
	return r.ws, r.resp, r.err
}

func dialError(ctx context.Context, token string, resp *http.Response, err error) error {
	switch {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	case errors.Is(err, os.ErrDeadlineExceeded): // gorilla set the context's deadline on the socket, which was quicker
		err = fmt.Errorf("%w (%w)", context.DeadlineExceeded, err)
	}
	if resp == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	return NewDialError(resp, body, token)
}

func retryAfter(v string) time.Duration {
	s, err := strconv.Atoi(v)
	if errors.Is(err, strconv.ErrRange) || err == nil { // Atoi gives the nearest number it has
		return protocol.Millis(int64(max(0, min(s, 1<<30))) * 1000)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
