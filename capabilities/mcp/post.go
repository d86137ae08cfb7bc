package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
)

const (
	// maxErrorBody is how much of the body of an answer that is an error is read, and maxErrorText how much of
	// one that is no message is shown.
	maxErrorBody = 64 << 10
	maxErrorText = 200
	// maxResumes is how often in a row a stream is gone on with that brings nothing.
	maxResumes = 5
)

// post is one message to the server, and what comes back for it.
type post struct {
	w        *web
	frame    []byte
	head     *head
	cancel   context.CancelFunc
	passed   chan struct{} // the next message may be sent
	pass     sync.Once
	answered bool // its response was delivered
}

// send sends a message, and waits as long as the order of messages demands it.
func (w *web) send(frame []byte) {
	p := &post{w: w, frame: frame, head: headOf(frame), passed: make(chan struct{})}
	if !w.begin(p) {
		return
	}
	timer := time.NewTimer(orderWait)
	defer timer.Stop()
	select {
	case <-p.passed:
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

// begin starts it, when there is room. False: the run has ended.
func (w *web) begin(p *post) bool {
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return false
	}
	ctx, cancel := context.WithCancel(w.ctx)
	p.cancel = cancel
	if p.head.request() {
		w.mu.Lock()
		w.posts[string(p.head.ID)] = p
		w.mu.Unlock()
	}
	w.work.Go(func() {
		defer func() { <-w.slots }()
		defer cancel()
		p.run(ctx)
		p.next()
		w.mu.Lock()
		if w.posts[string(p.head.ID)] == p {
			delete(w.posts, string(p.head.ID))
		}
		w.mu.Unlock()
		if p.head.Method == methodCancelled {
			w.cancelPost(p.head.Params.RequestID)
		}
	})
	return true
}

// cancelPost ends what comes back for a request that the brain has cancelled: nothing has to.
func (w *web) cancelPost(id []byte) {
	w.mu.Lock()
	p := w.posts[string(id)]
	w.mu.Unlock()
	if p != nil && p.head.Method != methodInitialize {
		p.cancel()
	}
}

func (p *post) next() { p.pass.Do(func() { close(p.passed) }) }

// run sends the message and delivers what comes back. A request gets its response, or an error instead.
func (p *post) run(ctx context.Context) {
	w := p.w
	traced := ctx
	if p.head.request() { // its answer may take long; a notification is over at once
		traced = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { p.next() }})
	}
	r, err := w.request(traced, http.MethodPost, p.frame, p.head)
	if err != nil {
		p.fail(ctx, protocol.CodeMCPUnavailable, err.Error())
		return
	}
	resp, err := w.client.Do(r)
	if err != nil {
		p.fail(ctx, protocol.CodeMCPUnavailable, "the server cannot be reached: "+bareError(err).Error())
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 || resp.StatusCode < 200 {
		p.refused(ctx, resp, r.Header.Get(headerSession) != "")
		return
	}
	if p.head.Method == methodInitialize {
		w.mu.Lock()
		w.session, w.version, w.listening = resp.Header.Get(headerSession), "", false
		w.mu.Unlock()
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case !p.head.request():
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
		if p.head.Method == methodInitialized {
			w.listen()
		}
	case kind == "text/event-stream":
		p.follow(ctx, newStream(w, resp, p))
	case kind == "application/json":
		p.whole(ctx, resp.Body)
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		p.fail(ctx, protocol.CodeMCPUnavailable, "the server has taken the request and answers nothing")
	default:
		p.fail(ctx, protocol.CodeMCPUnavailable, "the server answers with neither JSON nor a stream of events, but with "+clip(kind))
	}
}

// refused is an answer with an error's status. One that has a response of JSON-RPC in it is that response.
func (p *post) refused(ctx context.Context, resp *http.Response, inSession bool) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what there is of it
	var said struct {
		ID    json.RawMessage `json:"id"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == nil {
		said.Error = nil
	} else if p.head.request() && bytes.Equal(said.ID, p.head.ID) {
		p.deliver(ctx, &message{limit: p.w.relay.limit, text: body, size: int64(len(body))})
		return
	}
	if resp.StatusCode == http.StatusNotFound && inSession {
		p.w.forgotten("the server has forgotten the session")
		return
	}
	text := ""
	if said.Error != nil {
		text = said.Error.Message
	} else if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/plain" || kind == "application/json" || kind == "" {
		text, _, _ = strings.Cut(strings.TrimSpace(string(body)), "\n")
	}
	p.fail(ctx, protocol.CodeMCPUnavailable, statusError(resp, clipTo(strings.ToValidUTF8(text, "\uFFFD"), maxErrorText)))
}

// fail answers a request in the server's place, unless it has been answered, or nobody waits for it.
func (p *post) fail(ctx context.Context, code protocol.Code, text string) {
	switch {
	case ctx.Err() != nil || p.answered:
	case !p.head.request():
		p.w.s.log.Warn("a message does not reach the MCP server", zap.String("why", text))
	default:
		p.answered = true
		if p.head.Method == methodInitialize { // without it nothing works, and few look into the answer
			p.w.s.log.Warn("the MCP server does not let itself be initialized", zap.String("why", p.w.s.hide.maskString(text)))
		}
		_ = p.w.relay.ch.WriteFrame(p.w.ctx, errorFrame(p.head.ID, code, text)) // the end of the channel is seen by who reads it
	}
}

// whole is an answer that is JSON.
func (p *post) whole(ctx context.Context, body io.Reader) {
	m := &message{limit: p.w.relay.limit}
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		m.write(buffer[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.fail(ctx, protocol.CodeMCPUnavailable, "the connection to the server was lost: "+bareError(err).Error())
			return
		}
	}
	if !m.tooLarge() {
		if m.text = bytes.TrimSpace(m.text); len(m.text) == 0 {
			p.fail(ctx, protocol.CodeMCPUnavailable, "the server answers nothing")
			return
		}
	}
	p.deliver(ctx, m)
	p.fail(ctx, protocol.CodeMCPUnavailable, "the server answers something else")
}

// follow delivers the events of a stream until the response is there. One that is cut is gone on with, when
// the server has said how.
func (p *post) follow(ctx context.Context, s *stream) {
	for fruitless := 0; ; {
		err := s.pump(ctx)
		if p.answered || ctx.Err() != nil {
			return
		}
		if s.events > 0 {
			fruitless = 0
		}
		if fruitless++; s.last == "" || fruitless > maxResumes {
			p.cut(ctx, err)
			return
		}
		if !sleep(ctx, s.pause()) {
			return
		}
		next, err := p.w.stream(ctx, s.last, p)
		for err != nil && !errors.Is(err, errNoStream) && fruitless < maxResumes {
			fruitless++
			if !sleep(ctx, s.pause()) {
				return
			}
			next, err = p.w.stream(ctx, s.last, p)
		}
		if err != nil {
			p.cut(ctx, err)
			return
		}
		next.retry = s.retry
		s = next
	}
}

func (p *post) cut(ctx context.Context, err error) {
	text := "the stream of the server's answer was cut"
	if err != nil {
		text += ": " + bareError(err).Error()
	}
	p.fail(ctx, protocol.CodeMCPUnavailable, text)
}

// deliver passes on a message that came back, and notes what the transport has to know of it.
func (p *post) deliver(ctx context.Context, m *message) {
	mine := false
	if !m.tooLarge() {
		e := envelope{}
		e.write(m.text)
		mine = e.response() && bytes.Equal(e.id, p.head.ID)
		if mine && p.head.Method == methodInitialize {
			var result struct {
				Result struct {
					Version string `json:"protocolVersion"`
				} `json:"result"`
			}
			_ = json.Unmarshal(m.text, &result) // without one there is no header
			p.w.mu.Lock()
			p.w.version = result.Result.Version
			p.w.mu.Unlock()
		}
		if !mine && m.text[0] == '[' {
			mine = bytes.Contains(m.text, p.head.ID)
		}
	} else {
		mine = m.response() && bytes.Equal(m.id, p.head.ID)
	}
	if mine && p.answered {
		return
	}
	p.answered = p.answered || mine
	_ = p.w.relay.deliver(ctx, m) // the end of the channel is seen by who reads it
}

func bodyOf(p []byte) io.Reader {
	if p == nil {
		return nil
	}
	return bytes.NewReader(p)
}

// headerText is a text as it may stand in a header: what may not is written in base64.
func headerText(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
