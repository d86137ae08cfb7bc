package brain

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// ServeHTTP takes an executor's connection: it authenticates the request and
// upgrades it to a WebSocket. It returns as soon as that is done; the connection
// lives on and ends with Close at the latest.
func (b *Brain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := b.authenticate(r)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	query := r.URL.Query()
	switch channel := query.Get("channel"); channel {
	case "", protocol.ChannelControl:
	case protocol.ChannelMCP:
		b.serveMCP(w, r, p)
		return
	default:
		http.Error(w, fmt.Sprintf("this brain serves the channels control and mcp, not %q", channel), http.StatusNotFound)
		return
	}
	f := b.upgrade(w, r)
	if f == nil {
		return
	}
	if query.Get("probe") == "1" {
		defer b.work.Done()
		c := rpc.NewConn(f, rpc.NewMux(0), nil)
		c.Start()
		c.Shutdown(protocol.CloseNormal, "probe ok")
		<-c.Done()
		return
	}
	c := b.connect(f, p)
	c.origin = &http.Request{Method: http.MethodGet, URL: &url.URL{Path: r.URL.Path, RawQuery: r.URL.RawQuery},
		Host: r.Host, RemoteAddr: r.RemoteAddr}
	go func() { // not this goroutine: the HTTP server's has a large stack
		defer b.work.Done()
		_ = c.serve()
	}()
}

// upgrade turns a request that is authenticated into a connection, after b.enter; nil when
// it has been answered otherwise.
func (b *Brain) upgrade(w http.ResponseWriter, r *http.Request) rpc.Frames {
	if !b.enter() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the brain is going away", http.StatusServiceUnavailable)
		return nil
	}
	f, err := rpc.Accept(w, r, rpc.AcceptOptions{Subprotocols: rpc.Subprotocols(b.opts.Dialects)})
	if err != nil {
		b.work.Done()
		b.log.Info("connection refused", zap.String("remote", r.RemoteAddr), zap.Error(err))
		return nil
	}
	return f
}

// ServeFrames takes an executor's connection that is already there and
// authenticated, and blocks until it has ended. The error says why, and is nil
// after a close with 1000 or 1001.
func (b *Brain) ServeFrames(f rpc.Frames, p Principal) error {
	if !b.enter() {
		_ = f.Close(protocol.CloseGoingAway, "going away")
		return ErrClosed
	}
	defer b.work.Done()
	return served(b.connect(f, p).serve())
}

func (b *Brain) authenticate(r *http.Request) (Principal, error) {
	if b.opts.Authenticate == nil {
		return Principal{}, nil
	}
	return b.opts.Authenticate(r)
}

// refuse answers a request that was not authenticated.
func (b *Brain) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusServiceUnavailable, "credentials cannot be checked now"
	var e *protocol.Error
	switch {
	case !errors.As(err, &e):
	case e.Code == protocol.CodeUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
		status, text = http.StatusUnauthorized, e.Message
	case e.Code == protocol.CodeForbidden:
		status, text = http.StatusForbidden, e.Message
	}
	b.log.Info("connection refused", zap.String("remote", r.RemoteAddr), zap.Int("status", status), zap.Error(err))
	http.Error(w, text, status)
}
