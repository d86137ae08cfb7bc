package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxPosts is how many messages to one server are under way at once; the next waits.
	maxPosts = 64
	// orderWait is how long the next message waits for one before it to have been taken, so that the server
	// sees them in order; a slow server does not hold up the cancel of what makes it slow.
	orderWait = 5 * time.Second
	// endWait is how long the server has to take note of the end of its session.
	endWait = 2 * time.Second
	// tlsWait is how long a TLS handshake may take.
	tlsWait = 10 * time.Second
)

// Headers of the transport.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerEvent   = "Last-Event-ID"

	// namesMethods is the version of MCP from which headers say what a message is, and there is neither a
	// session nor a standing stream.
	namesMethods = "2026-07-28"
)

// web is a run of a server that is reached over streamable HTTP. It lasts as long as the server knows its
// session.
type web struct {
	s      *server
	url    string
	client *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	relay  *relay
	slots  chan struct{}  // one for each message under way
	work   sync.WaitGroup // of them, and of the standing stream
	gone   chan string    // why the server is to be initialized anew; the first counts

	mu        sync.Mutex
	session   string // as the server calls it; "" for none
	version   string // of the protocol, as the server has said
	listening bool   // the standing stream was asked for
	posts     map[string]*post
}

// connect looks whether somebody is there who could be the server.
func (s *server) connect(ctx context.Context) (run, error) {
	u, err := url.Parse(s.spec.Transport.URL)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "transport.url: it is no URL")
	}
	u.Fragment = ""
	dialer := &net.Dialer{Timeout: s.connectTime(), KeepAlive: 15 * time.Second}
	transport := &http.Transport{Proxy: proxyFor, DialContext: dialer.DialContext, TLSHandshakeTimeout: tlsWait, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}
	w := &web{s: s, url: u.String(), slots: make(chan struct{}, maxPosts), gone: make(chan string, 1), posts: map[string]*post{}}
	w.client = &http.Client{Transport: transport, CheckRedirect: sameOrigin}
	if err := reach(ctx, u, dialer); err != nil {
		return nil, protocol.Errorf(protocol.CodeMCPUnavailable, "transport.url: %s cannot be reached: %v", u.Host, err)
	}
	w.ctx, w.cancel = context.WithCancel(s.t.ctx)
	return w, nil
}

func (s *server) connectTime() time.Duration {
	if ms := s.spec.Transport.TimeoutMS; ms > 0 {
		return protocol.Millis(ms)
	}
	return s.t.options.ConnectTimeout
}

// proxyFor is the proxy of the environment, but never for this machine itself.
func proxyFor(r *http.Request) (*url.URL, error) {
	host := r.URL.Hostname()
	if ip := net.ParseIP(host); strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// sameOrigin follows redirects within a server only: a message is for nobody else.
func sameOrigin(r *http.Request, via []*http.Request) error {
	if len(via) > 3 || r.Method != via[0].Method || r.URL.Scheme != via[0].URL.Scheme || r.URL.Host != via[0].URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// reach connects to a server's host, or to the proxy before it.
func reach(ctx context.Context, u *url.URL, dialer *net.Dialer) error {
	proxy, err := proxyFor(&http.Request{URL: u})
	if err != nil {
		return errors.New("the proxy of the environment is no URL")
	}
	if proxy != nil {
		u = proxy
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return bareError(err)
	}
	return conn.Close()
}

// bareError is a network error without the URL, which may have a secret in it.
func bareError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// serve implements run.
func (w *web) serve(ch capabilities.Channel) ending {
	w.relay = &relay{ch: ch, log: w.s.log, hide: w.s.hide, limit: limitOf(ch), answer: w.answer}
	lost := make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() { lost <- w.read(ch) })
	var end ending
	select {
	case why := <-w.gone:
		end.server = why
	case err := <-lost:
		if w.ctx.Err() == nil {
			end.brain = err
		}
	case <-w.ctx.Done():
	}
	w.stop(&reading)
	return end
}

// discard implements run.
func (w *web) discard() { w.stop(new(sync.WaitGroup)) }

// stop ends what is under way, and the session on the server.
func (w *web) stop(reading *sync.WaitGroup) {
	w.cancel()
	reading.Wait()
	w.work.Wait()
	if w.relay != nil {
		w.relay.summary()
	}
	if session, _ := w.known(); session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), endWait)
		defer cancel()
		if r, err := w.request(ctx, http.MethodDelete, nil, nil); err == nil {
			if resp, err := w.client.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
	w.client.CloseIdleConnections()
}

// read passes on what the brain says, and returns why it says no more.
func (w *web) read(ch capabilities.Channel) error {
	for {
		frame, err := ch.ReadFrame(w.ctx)
		if err != nil {
			return err
		}
		if len(frame) > 0 {
			w.send(frame)
		}
	}
}

// forgotten says that the server does not know the session any more.
func (w *web) forgotten(why string) {
	w.mu.Lock()
	w.session = "" // there is nothing to end
	w.mu.Unlock()
	select {
	case w.gone <- why:
	default:
	}
}

func (w *web) known() (session, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session, w.version
}

// head is what of a message of the brain the transport has to know.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta      map[string]json.RawMessage `json:"_meta"`
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		RequestID json.RawMessage            `json:"requestId"`
	} `json:"params"`
}

func headOf(frame []byte) *head {
	var h head
	if json.Unmarshal(frame, &h) != nil { // params of another shape, or a batch
		var e envelope
		e.write(frame)
		h = head{ID: e.id}
	}
	if !isID(h.ID) {
		h.ID = nil
	}
	return &h
}

func (h *head) request() bool { return h.ID != nil && h.Method != "" }

// version is that of the protocol, where the message says it itself.
func (h *head) version() (v string) {
	_ = json.Unmarshal(h.Params.Meta["io.modelcontextprotocol/protocolVersion"], &v)
	return v
}

// request makes a request with the headers of the transport. h is nil for what is no message.
func (w *web) request(ctx context.Context, method string, body []byte, h *head) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, bodyOf(body))
	if err != nil {
		return nil, bareError(err)
	}
	session, version := w.known()
	r.Header.Set("User-Agent", "executor")
	switch method {
	case http.MethodPost:
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		r.Header.Set("Accept", "text/event-stream")
	}
	if h != nil {
		if own := h.version(); own != "" {
			version = own
		}
		if h.Method == methodInitialize {
			session, version = "", ""
		}
	}
	if session != "" {
		r.Header.Set(headerSession, session)
	}
	if version != "" {
		r.Header.Set(headerVersion, version)
	}
	if h != nil && version >= namesMethods && h.Method != "" {
		r.Header.Set(headerMethod, headerText(h.Method))
		switch h.Method {
		case "tools/call", "prompts/get":
			r.Header.Set(headerName, headerText(h.Params.Name))
		case "resources/read":
			r.Header.Set(headerName, headerText(h.Params.URI))
		}
	}
	return r, nil
}

// answer sends an error for a message of the server's own, without waiting for it.
func (w *web) answer(frame []byte) {
	w.begin(&post{w: w, frame: frame, head: &head{}, passed: make(chan struct{})})
}

// listen asks for the standing stream, once in a session, and keeps it as long as the server has one.
func (w *web) listen() {
	w.mu.Lock()
	again := w.listening
	w.listening = true
	version := w.version
	w.mu.Unlock()
	if again || version >= namesMethods {
		return
	}
	w.work.Go(func() {
		delay := minStreamDelay
		last := ""
		for w.ctx.Err() == nil {
			since := time.Now()
			s, err := w.stream(w.ctx, last, nil)
			if errors.Is(err, errNoStream) {
				w.s.log.Debug("the server has no standing stream", zap.Error(err))
				return
			}
			if err == nil {
				err = s.pump(w.ctx)
				if s.last != "" {
					last = s.last
				}
				if s.retry > 0 {
					delay = s.retry
				}
			}
			w.s.log.Debug("the standing stream of the server has ended", zap.Error(err))
			if time.Since(since) > maxStreamDelay {
				delay = minStreamDelay
			}
			if !sleep(w.ctx, delay) {
				return
			}
			delay = min(2*delay, maxStreamDelay)
		}
	})
}

// sleep waits; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// statusError is an answer that is none.
func statusError(resp *http.Response, body string) string {
	text := fmt.Sprintf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if body != "" {
		text += ": " + body
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		text += "; it sends to another address, which is not followed"
	}
	return text
}
