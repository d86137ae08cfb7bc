package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

const (
	metricsTimeout  = 10 * time.Second // for a request's body to be sent, and for its answer to be read
	metricsHeader   = 2 * time.Second  // for a request to be sent
	metricsIdle     = time.Minute
	maxMetricsConns = 32
	// statusPatience is how long the status is waited for; an agent that does not give it
	// by then is stuck.
	statusPatience = 2 * time.Second
)

// Server serves /metrics, /healthz and /readyz. It is made with the address, and
// does nothing without one; Serve is called once, and Close ends it.
type Server struct {
	counts *callCounts
	listen net.Listener // nil: it is off
	limit  *cli.Limit
	server *http.Server
	served sync.WaitGroup
	asking chan struct{}
}

// Listen takes the address. An error is final: whoever has configured it counts on
// being able to look.
func Listen(addr string, log *zap.Logger) (*Server, error) {
	m := &Server{counts: newCallCounts(), asking: make(chan struct{}, 1)}
	if addr == "" {
		return m, nil
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("metrics_listen: the address %s is in use by another program; stop it, or choose another address", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics_listen: %w; choose another address", err)
	}
	m.limit = &cli.Limit{Max: maxMetricsConns}
	m.listen = m.limit.Listen(l)
	m.server = &http.Server{ReadTimeout: metricsTimeout, ReadHeaderTimeout: metricsHeader, WriteTimeout: metricsTimeout,
		IdleTimeout: metricsIdle, MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))}
	log.Info("metrics are served", zap.Stringer("address", l.Addr()))
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn("others on the network can read the metrics: names of tools and brains, and how much is done; listen on 127.0.0.1 if that is not meant")
	}
	return m, nil
}

// Prepare is called before the executors are made.
func (m *Server) Prepare(o *executor.Options) {
	if m.listen != nil {
		o.OnCall = m.counts.ended
	}
}

// Serve answers until Close.
func (m *Server) Serve(status func() control.Status) {
	if m.listen == nil {
		return
	}
	m.server.Handler = m.handler(status)
	m.limit.Guard(m.server)
	m.served.Go(func() { _ = m.server.Serve(m.listen) })
}

// Close ends it, and what is asked just now. It may be called without Serve.
func (m *Server) Close() {
	if m.listen == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if m.server.Shutdown(ctx) != nil {
		_ = m.server.Close()
	}
	_ = m.listen.Close()
	m.served.Wait()
}

func (m *Server) handler(status func() control.Status) http.Handler {
	mux := http.NewServeMux()
	add := func(path string, answer func(w http.ResponseWriter, s control.Status)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			s, ok := within(statusPatience, m.asking, status)
			if !ok {
				plain(w, http.StatusServiceUnavailable, fmt.Sprintf("the executor does not say within %v how it does: it is stuck", statusPatience))
				return
			}
			answer(w, s)
		})
	}
	add("/metrics", func(w http.ResponseWriter, s control.Status) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = writeMetrics(w, s, m.counts)
	})
	add("/healthz", func(w http.ResponseWriter, s control.Status) {
		for _, b := range s.Brains {
			if b.Overdue > 0 {
				plain(w, http.StatusServiceUnavailable, fmt.Sprintf("%s: the connection's loop is stuck, for %v", b.Name, b.Overdue.Round(time.Second)))
				return
			}
		}
		plain(w, http.StatusOK, "ok")
	})
	add("/readyz", func(w http.ResponseWriter, s control.Status) {
		if s.Ready && !s.Stopping {
			plain(w, http.StatusOK, "ok")
			return
		}
		var parts []string
		for _, b := range s.Brains {
			parts = append(parts, b.Name+": "+string(b.State))
		}
		if s.Stopping {
			parts = append(parts, "stopping")
		}
		plain(w, http.StatusServiceUnavailable, strings.Join(parts, "\n"))
	})
	return mux
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
