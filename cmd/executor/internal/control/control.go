package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

const (
	// controlTimeout bounds how long a client may take to send a request's body and to read
	// an answer, each line of one that is a stream.
	controlTimeout = 10 * time.Second
	// controlIdle is how long a connection may be open without a request on it.
	controlIdle = 2 * time.Second
	// controlOwnConns are the connections that the agent's own commands have at once, of
	// all: they keep nobody else out.
	controlOwnConns = 8
	// controlLook is how often it is looked whether the socket is still there, and tried
	// to make it where that failed.
	controlLook = 30 * time.Second
	// controlGoodbye is how long clients have to read the last line when the program ends.
	controlGoodbye = 2 * time.Second
	maxControlBody = 1 << 20
)

// Server is what the running agent answers on the control socket in its state directory:
// HTTP with JSON, for the same user and root alone. What a command that this agent has
// started asks for is answered, but it changes nothing: it must not approve its own call.
//
//	c := control.New(dir, hide, log)
//	c.Handle("GET /status", func(r *http.Request) (any, error) { … })
//	c.Start()
//	defer c.Close()
//
// Routes are added before Start. Handlers are called concurrently.
type Server struct {
	dir  string
	hide *cli.Redactor
	log  *zap.Logger
	mux  *http.ServeMux

	server  *http.Server
	limit   *cli.Limit
	leaving context.Context // done when Close was called
	leave   context.CancelFunc
	work    sync.WaitGroup
}

// New makes the server for the state directory. It starts nothing; Start does.
func New(dir string, hide *cli.Redactor, log *zap.Logger) *Server {
	c := &Server{dir: dir, hide: hide, log: log.Named("control"), mux: http.NewServeMux()}
	c.leaving, c.leave = context.WithCancel(context.Background())
	c.limit = &cli.Limit{Max: cli.MaxControlConns, MaxFew: controlOwnConns, Few: func(conn net.Conn) bool {
		peer, ok := cli.PeerOf(conn)
		return ok && startedHere(peer)
	}}
	c.server = c.limit.Guard(&http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: controlIdle, IdleTimeout: controlIdle,
		MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(c.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			ctx = context.WithValue(ctx, connKey{}, conn)
			if peer, ok := cli.PeerOf(conn); ok {
				ctx = context.WithValue(ctx, peerKey{}, peer)
			}
			return ctx
		}})
	return c
}

type peerKey struct{}

type connKey struct{}

// PeerOf is who asks, where the system says it.
func PeerOf(ctx context.Context) (cli.Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(cli.Peer)
	return p, ok
}

// WithStatus is an error with the HTTP status of its answer; any other error is 422.
func WithStatus(status int, err error) error { return statusError{status, err} }

type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

var (
	errGaveUp     = WithStatus(http.StatusRequestTimeout, errors.New("the request came too late, its sender had given up; nothing was done"))
	errOwnCommand = WithStatus(http.StatusForbidden, errors.New("a command that this executor has started may not control it; ask from a terminal of your own"))
)

// Handle adds a route, METHOD /path, whose answer is one value. The request's context
// ends with the client.
func (c *Server) Handle(pattern string, h func(r *http.Request) (any, error)) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := h(r)
		if err != nil {
			c.refuse(w, err)
			return
		}
		_ = c.write(w, http.StatusOK, v)
	})
}

// Stream adds a route whose answer is lines, each a value given to send. The context ends
// with the client, and with send's error; it does not end when the agent leaves, which a
// handler waits for by Closing.
func (c *Server) Stream(pattern string, h func(r *http.Request, send func(v any) error) error) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		begun := false
		err := h(r, func(v any) error {
			begun = true
			return c.write(w, http.StatusOK, v)
		})
		if err != nil && !begun {
			c.refuse(w, err)
		}
	})
}

func (c *Server) serve(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(controlTimeout)
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	if r.Method != http.MethodGet {
		if peer, ok := PeerOf(r.Context()); ok && startedHere(peer) {
			c.log.Warn("a command that this executor has started asked to control it", zap.Int("pid", peer.PID), zap.String("path", r.URL.Path))
			c.refuse(w, errOwnCommand)
			return
		}
		if conn, _ := r.Context().Value(connKey{}).(net.Conn); cli.GaveUp(r, conn) {
			c.log.Info("a request was not carried out, since its sender had given up", zap.String("path", r.URL.Path))
			c.refuse(w, errGaveUp)
			return
		}
	}
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("handler panicked", zap.String("path", r.URL.Path), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			c.refuse(w, WithStatus(http.StatusInternalServerError, errors.New("the request failed unexpectedly; see the executor's log")))
		}
	}()
	r.Body = http.MaxBytesReader(w, r.Body, maxControlBody)
	c.mux.ServeHTTP(w, r)
}

func (c *Server) refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	var e statusError
	if errors.As(err, &e) {
		status = e.status
	}
	_ = c.write(w, status, cli.AnswerError{Error: err.Error()})
}

// write writes one value and a line's end, with no secret in it.
func (c *Server) write(w http.ResponseWriter, status int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(controlTimeout))
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
	}
	if _, err := io.WriteString(w, c.hide.Redact(string(raw))+"\n"); err != nil {
		return err
	}
	return out.Flush()
}

// ReadBody reads a request's body into v: an object without unknown members, or nothing.
func ReadBody(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return WithStatus(http.StatusBadRequest, fmt.Errorf("bad request: %w", err))
	}
	return nil
}

// Closing is done when the agent leaves: Close was called.
func (c *Server) Closing() <-chan struct{} { return c.leaving.Done() }

// Start makes the socket and serves it until Close. Where it cannot be made, or is
// removed, it is tried again: the agent works without.
func (c *Server) Start() {
	c.work.Go(func() {
		failed := false
		for c.leaving.Err() == nil {
			l, err := cli.ListenControl(c.dir)
			if err != nil {
				if !failed {
					c.log.Warn("no control socket: status, drain, stop and approvals do not reach this executor; trying again", zap.Error(err))
				}
				failed = true
				select {
				case <-time.After(controlLook):
				case <-c.leaving.Done():
				}
				continue
			}
			if failed {
				c.log.Info("the control socket is there")
			}
			failed = true // what ends it now is a failure, unless it is Close
			c.serveAt(l)
		}
	})
}

// serveAt serves one socket until it is gone or Close is called.
func (c *Server) serveAt(l *cli.ControlListener) {
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.server.Serve(c.limit.Listen(l))
	}()
	timer := time.NewTimer(controlLook)
	defer timer.Stop()
	for {
		select {
		case <-c.leaving.Done():
			<-served // Close ends it
			return
		case <-timer.C:
			timer.Reset(controlLook)
		}
		if err := l.Check(); err != nil {
			c.log.Warn("the control socket was removed, making it again", zap.Error(err))
			_ = l.Close()
			<-served
			return
		}
	}
}

// Close lets the handlers say their last and ends them. The socket is gone then. It may
// be called without Start.
func (c *Server) Close() {
	c.leave()
	ctx, cancel := context.WithTimeout(context.Background(), controlGoodbye)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	c.work.Wait()
}

// Asker is who asks, for the log.
func Asker(r *http.Request) []zap.Field {
	p, ok := PeerOf(r.Context())
	if !ok {
		return nil
	}
	return []zap.Field{zap.Int("by_uid", p.UID), zap.Int("by_pid", p.PID)}
}
