package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

const (
	// readyAfter is when the service counts as started although no brain has been reached
	// yet: what waits for its start, such as the boot, does not wait for a brain.
	readyAfter = 30 * time.Second
	// superviseEvery is how often the text of the status is looked at.
	superviseEvery = 30 * time.Second
	// extendEvery is how often more time to stop is asked for, and extendBy for how much.
	extendEvery = 5 * time.Second
	extendBy    = 20 * time.Second
	// leaveSlack is how long it may take from the end of a drain until the program ends:
	// ending sessions, delivering results.
	leaveSlack = 45 * time.Second
)

// Supervision tells the service manager how the agents do: READY=1 when the first has
// registered, STATUS=, STOPPING=1 with more time while it drains, and WATCHDOG=1 as long
// as no agent is stuck.
//
// What the watchdog is for: an agent that does not do its work any more and does not know
// it, such as one whose loops wait for each other, or for a disk that never answers. A
// brain that is away is not that: to restart the agent would mend nothing, cut the commands
// that run, and do so for ever. So WATCHDOG=1 does not ask for a connection, but for
// progress: every step of an agent's connection loop (the credential, the dial, the
// registration, a heartbeat with its answer, the wait before the next attempt) has a time
// by which it is over whatever the brain and the network do, and executor.Status says when
// that has passed. Status takes the executor's own lock, so that one which is never let go
// stops the message too.
//
// Run is called once; Changed may be called at any time.
type Supervision struct {
	notify *Notifier
	log    *zap.Logger
	status func() control.Status
	wake   chan struct{}

	began            time.Time
	ready            atomic.Bool // READY=1 was said
	stopping         bool
	said             string
	stopBy           time.Time // when draining has to have come to its end
	failing, tripped bool
}

// NewSupervision makes it; status may be called at any time. It starts nothing.
func NewSupervision(n *Notifier, status func() control.Status, log *zap.Logger) *Supervision {
	return &Supervision{notify: n, log: log.Named("supervision"), status: status, wake: make(chan struct{}, 1)}
}

// Changed says that the state of an agent has changed. It is quick.
func (v *Supervision) Changed(executor.State) {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Reloading says that settings are read again. One that was not told of the start is told
// nothing.
func (v *Supervision) Reloading() {
	if v.ready.Load() {
		_ = v.notify.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonicMicros()))
	}
}

// Reloaded says that they have been, which the service manager waits for.
func (v *Supervision) Reloaded() {
	if v.ready.Load() {
		_ = v.notify.tell("READY=1")
	}
}

// Run looks and tells until ctx is done, and then that the program ends.
func (v *Supervision) Run(ctx context.Context) {
	if !v.notify.wanted() {
		return
	}
	v.began = time.Now()
	beat := superviseEvery
	if w := v.notify.watchdog; w > 0 {
		beat = min(beat, w/2)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := v.began; ; {
		now := time.Now()
		due := !now.Before(next) // a state that changes is no proof of life of the other agents
		if due {
			next = now.Add(beat)
		}
		sooner := next
		if v.look(now, due) {
			sooner = earlier(sooner, now.Add(extendEvery))
		}
		if !v.ready.Load() {
			sooner = earlier(sooner, v.began.Add(readyAfter))
		}
		if v.failing {
			sooner = earlier(sooner, now.Add(extendEvery))
		}
		timer.Reset(time.Until(sooner))
		select {
		case <-ctx.Done():
			v.send("STOPPING=1", "STATUS=ending")
			return
		case <-v.wake:
		case <-timer.C:
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// look says what has changed; true while the program is about to leave.
func (v *Supervision) look(now time.Time, due bool) (leaving bool) {
	s := v.status()
	var lines []string
	ready, said := v.ready.Load(), v.said
	if !ready && (registered(s) || now.Sub(v.began) >= readyAfter) {
		v.ready.Store(true)
		lines = append(lines, "READY=1")
	}
	until, leaving := leavesBy(s, now)
	if leaving && !v.stopping {
		v.stopping = true
		v.stopBy = until.Add(leaveSlack)
		lines = append(lines, "STOPPING=1")
	}
	if text := statusLine(s); text != v.said {
		v.said = text
		lines = append(lines, "STATUS="+text)
	}
	if leaving {
		v.stopBy = earlier(v.stopBy, until.Add(leaveSlack))
		if now.Before(v.stopBy) { // beyond, it hangs
			lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendBy.Microseconds()))
		}
	}
	if v.notify.watchdog > 0 && due && v.alive(s) {
		lines = append(lines, "WATCHDOG=1")
	}
	if !v.send(lines...) { // then it is said again
		v.ready.Store(ready)
		v.said = said
	}
	return leaving
}

// alive reports whether no agent is stuck, and says once when one is.
func (v *Supervision) alive(s control.Status) bool {
	for _, b := range s.Brains {
		if b.Overdue > 0 {
			if !v.tripped {
				v.log.Error("the connection's loop is stuck: the service manager's watchdog is not told that all is well", zap.String("brain", b.Name), zap.Duration("overdue", b.Overdue))
			}
			v.tripped = true
			return false
		}
	}
	v.tripped = false
	return true
}

// send reports whether it was heard.
func (v *Supervision) send(lines ...string) bool {
	if len(lines) == 0 {
		return true
	}
	err := v.notify.tell(lines...)
	if err != nil && !v.failing {
		v.log.Warn("the service manager cannot be told", zap.Error(err))
	}
	v.failing = err != nil
	return err == nil
}

func registered(s control.Status) bool {
	for _, b := range s.Brains {
		if !b.LastContact.IsZero() {
			return true
		}
	}
	return false
}

// leavesBy reports whether all agents are about to leave or have left, and until when
// they wait for what runs.
func leavesBy(s control.Status, now time.Time) (until time.Time, leaving bool) {
	until, leaving = now, s.Stopping
	for _, b := range s.Brains {
		switch {
		case b.State == executor.StateDraining:
			leaving = true
			if b.DrainUntil.After(until) {
				until = b.DrainUntil
			}
		case b.State != executor.StateStopped && !s.Stopping:
			return now, false
		}
	}
	return until, leaving
}

// statusLine is the state in one line.
func statusLine(s control.Status) string {
	var parts []string
	for _, b := range s.Brains {
		text := string(b.State)
		switch b.State {
		case executor.StateReady:
			text = fmt.Sprintf("connected, %s, %s", cli.Count(len(b.Sessions), "session", "sessions"), cli.Count(b.CallsRunning, "call running", "calls running"))
		case executor.StateWaiting:
			text = "not connected: " + clipLine(b.LastError)
		case executor.StateDraining:
			text = "finishing"
			if what := control.WaitsFor(control.Status{Brains: []control.BrainStatus{b}}); what != "" {
				text += ": " + clipLine(what)
			}
		}
		parts = append(parts, b.Name+": "+text)
	}
	return cli.Line(strings.Join(parts, "; "))
}

const maxStatusText = 200

func clipLine(text string) string {
	if len(text) > maxStatusText {
		text = strings.ToValidUTF8(text[:maxStatusText], "") + "…"
	}
	return text
}

// monotonicMicros is the system's monotonic clock, which the service manager compares with
// its own.
func monotonicMicros() int64 { return monotonicNow() / int64(time.Microsecond) }
