package executor

import (
	"context"
	"sync"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// statusEvery is the shortest time between two changes of running and idle, so that
// short calls do not double the traffic.
const statusEvery = 250 * time.Millisecond

// statusReporter sends session.status as it changes. What changes back at once is
// not told.
type statusReporter struct {
	s *session

	saying sync.Mutex // held while one is decided on and sent, for the order

	mu    sync.Mutex
	told  string
	calls int
	timer *time.Timer
	ended bool
}

// set tells a status now.
func (r *statusReporter) set(status, detail string) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.mu.Lock()
	r.told = status
	r.mu.Unlock()
	r.say(status, detail)
}

func (r *statusReporter) say(status, detail string) {
	r.s.e.notify(protocol.SessionStatus.Spec, protocol.SessionStatusParams{
		SessionID: r.s.assign.SessionID, Status: status, Detail: detail})
}

// working counts a piece of work of a capability that is no call, until done.
func (s *session) working() (done func()) {
	count := func(change int) {
		s.mu.Lock()
		s.processes += change
		s.mu.Unlock()
		s.e.count(&s.e.working, change)
	}
	count(1)
	s.report.busy(1)
	return func() {
		s.report.busy(-1)
		count(-1)
	}
}

// busy counts calls and other work that begin (1) or end (-1).
func (r *statusReporter) busy(change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls += change
	if r.timer == nil && !r.ended && r.told != r.current() {
		r.timer = time.AfterFunc(statusEvery, r.tell)
	}
}

func (r *statusReporter) current() string {
	if r.calls > 0 {
		return protocol.StatusRunning
	}
	return protocol.StatusIdle
}

func (r *statusReporter) tell() {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.mu.Lock()
	r.timer = nil
	status := r.current()
	skip := r.ended || status == r.told || r.told == protocol.StatusStopping
	if !skip {
		r.told = status
	}
	r.mu.Unlock()
	if !skip {
		r.say(status, "")
	}
}

func (r *statusReporter) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// notify sends a notification if there is a connection just now.
func (e *Executor) notify(spec protocol.Spec, params any) {
	e.mu.Lock()
	c := e.conn
	e.mu.Unlock()
	if c == nil {
		e.dropped.Add(1)
		return
	}
	ctx, cancel := context.WithTimeout(c.rpc.Context(), time.Second)
	defer cancel()
	if c.rpc.NotifyRaw(ctx, spec, params) != nil { // best effort
		e.dropped.Add(1)
	}
}
