package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// watchEvery is how often it is looked whether what is waited for has changed.
const watchEvery = 200 * time.Millisecond

// operation is the running program seen from outside: what it is, how it does, and how it
// is told to leave. Its methods may be called concurrently.
type operation struct {
	settings *config.Settings
	agents   []*agent.Agent
	started  time.Time
	cancel   context.CancelFunc // ends all agents now
	changed  func(executor.State)
	stopping atomic.Bool
	hide     *cli.Redactor
	log      *zap.Logger
	trusted  *oversight.Oversight
	ended    error // why the program ends; set before the control is closed
}

func (o *operation) status() control.Status {
	s := control.Status{PID: os.Getpid(), Version: executor.Version(), Started: o.started, StateDir: o.settings.StateDir, Config: o.settings.Config,
		Systemd: os.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid()), Stopping: o.stopping.Load()}
	for _, a := range o.agents {
		b := control.BrainStatus{Name: a.Name, Status: a.Executor.Status()}
		b.Brain = config.RedactURL(b.Brain)
		s.Brains = append(s.Brains, b)
	}
	s.Ready = ready(s.Brains)
	if o.trusted != nil {
		o.trusted.Status(&s)
	}
	return s
}

// ready reports whether all brains that are served are registered with.
func ready(brains []control.BrainStatus) bool {
	n := 0
	for _, b := range brains {
		switch b.State {
		case executor.StateReady:
			n++
		case executor.StateStopped: // it was given up, and the others are served on
		default:
			return false
		}
	}
	return n > 0
}

// drain lets all finish, for at most limit; 0 is the drain timeout.
func (o *operation) drain(limit time.Duration) {
	ctx := context.Background()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		context.AfterFunc(ctx, cancel) // its end is the deadline
	}
	for _, a := range o.agents {
		_ = a.Executor.Drain(ctx)
	}
}

// stop ends everything now, in good order.
func (o *operation) stop() {
	o.stopping.Store(true)
	o.cancel()
	o.changed(executor.StateDraining)
}

// answer adds the routes of the program itself.
func (o *operation) answer(c *control.Server) {
	c.Handle("GET /status", func(*http.Request) (any, error) { return o.status(), nil })
	c.Stream("POST /drain", func(r *http.Request, send func(any) error) error {
		var q control.DrainRequest
		if err := control.ReadBody(r, &q); err != nil {
			return err
		}
		if q.DeadlineMS < 0 {
			return control.WithStatus(http.StatusBadRequest, errors.New("deadline_ms: want 0, for the drain timeout, or more"))
		}
		o.log.Info("asked to finish and leave", control.Asker(r)...)
		o.drain(time.Duration(q.DeadlineMS) * time.Millisecond)
		return o.tell(r.Context(), c, send)
	})
	c.Stream("POST /stop", func(r *http.Request, send func(any) error) error {
		o.log.Warn("asked to stop now", control.Asker(r)...)
		o.stop()
		return o.tell(r.Context(), c, send)
	})
}

// tell says how the program stands whenever that changes, until it has left.
func (o *operation) tell(ctx context.Context, c *control.Server, send func(any) error) error {
	var last string
	for {
		s := o.status()
		if text := control.WaitsFor(s); text != last {
			last = text
			if err := send(control.Leaving{Status: &s}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Closing():
			line := control.Leaving{Left: true, Systemd: s.Systemd}
			if err := redacted(o.ended, o.hide); err != nil {
				line.ExitCode, line.Error = cli.Code(err), err.Error()
			}
			return send(line)
		case <-time.After(watchEvery):
		}
	}
}
