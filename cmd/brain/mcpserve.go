package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// The gateway for MCP clients lives here, where the executors are. brain mcp is a pipe to
// it: one request whose body and answer are what an MCP client says and hears on standard
// input and output. With --listen, it listens for as long as that request lasts.

// mcpPath is where clients find MCP over HTTP.
const mcpPath = "/mcp"

// mcpListenRequest asks for MCP over HTTP.
type mcpListenRequest struct {
	Executor string   `json:"executor,omitempty"`
	Addr     string   `json:"addr"`
	Token    string   `json:"token"`
	Origins  []string `json:"origins,omitempty"`
	IdleMS   int64    `json:"idle_ms,omitempty"`
}

// mcpListenAnswer is the first line of the answer. There is no other; the answer ends when
// the brain does.
type mcpListenAnswer struct {
	Addr string `json:"addr"`
}

func (s *server) gateway(executor string) *gateway.Gateway {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return gateway.New(s.brain, gateway.Options{Executor: executor, Version: version, Logger: s.log.Named("gateway")})
}

// mcp serves one MCP client. It ends with the request.
func (s *server) mcp(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		cli.Answer(w, http.StatusInternalServerError, cli.AnswerError{Error: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	in := &mcpInput{from: r.Body, interrupt: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
	defer in.end()
	g := s.gateway(r.URL.Query().Get("executor"))
	defer g.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	out := &mcpOutput{to: w, control: control}
	defer out.end()
	if err := g.Serve(ctx, gateway.Lines(in, out)); err != nil {
		s.log.Info("mcp client gone", zap.Error(err))
	}
}

// mcpInput is the body of a request, of which nothing is read after end.
type mcpInput struct {
	interrupt func()
	mu        sync.Mutex // held by a Read
	from      io.Reader  // nil: ended
}

func (i *mcpInput) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.from == nil {
		return 0, io.EOF
	}
	return i.from.Read(p)
}

func (i *mcpInput) Close() error {
	i.interrupt()
	return nil
}

func (i *mcpInput) end() {
	i.interrupt()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.from = nil
}

// mcpOutput is the answer to a request, in which every line is sent at once, and nothing is written after
// end: a Write that a client does not take may outlast the one who has begun it.
type mcpOutput struct {
	control *http.ResponseController
	mu      sync.Mutex // held by a Write
	to      io.Writer  // nil: ended
}

func (o *mcpOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := o.to.Write(p)
	if err == nil {
		err = o.control.Flush()
	}
	return n, err
}

// Close frees a Write that a client does not take.
func (o *mcpOutput) Close() error { return o.control.SetWriteDeadline(time.Unix(1, 0)) }

func (o *mcpOutput) end() {
	_ = o.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
	_ = o.control.SetWriteDeadline(time.Time{}) // for the end of the answer
}

// mcpListen serves MCP over HTTP until whoever asked has gone.
func (s *server) mcpListen(w http.ResponseWriter, r *http.Request) {
	var q mcpListenRequest
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInputBytes))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || q.Token == "" {
		cli.Answer(w, http.StatusBadRequest, cli.AnswerError{Error: fmt.Sprintf("bad request: %v", err)})
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection is noticed
	l, err := net.Listen("tcp", q.Addr)
	if err != nil {
		cli.Answer(w, http.StatusUnprocessableEntity, cli.AnswerError{Error: fmt.Sprintf("listen: %v; choose another address with --listen", err)})
		return
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		s.log.Warn("mcp: others on the network can read the token and everything else on the way; put TLS in front, or listen on 127.0.0.1")
	}
	g := s.gateway(q.Executor)
	defer g.Close()
	clients := g.HTTP(gateway.HTTPOptions{Token: q.Token, Origins: q.Origins, Idle: time.Duration(q.IdleMS) * time.Millisecond})
	defer clients.Close()
	mux := http.NewServeMux()
	mux.Handle(mcpPath, clients)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: zap.NewStdLog(s.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() { <-served }()
	defer srv.Close()
	s.log.Info("mcp clients are served", zap.String("address", l.Addr().String()))
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(mcpListenAnswer{Addr: l.Addr().String()})
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-s.ending.Done():
	case err := <-served:
		served <- err
	}
	s.log.Info("mcp clients are served no more", zap.String("address", l.Addr().String()))
}

// checkOrigins finds out before anything is asked whether origins are some.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return cli.Usagef("--allow-origin %q: want one like https://host or http://host:8080", o)
		}
	}
	return nil
}
