package executor

import (
	"slices"
	"strings"
	"time"
)

// State of an executor as a whole.
type State string

const (
	StateConnecting State = "connecting" // dialling or registering
	StateWaiting    State = "waiting"    // until the next attempt
	StateReady      State = "ready"
	StateDraining   State = "draining"
	StateStopped    State = "stopped"
)

// Status is a snapshot of what an executor does.
type Status struct {
	State        State         `json:"state"`
	Since        time.Time     `json:"since,omitzero"` // when it came into that state
	Brain        string        `json:"brain"`
	ExecutorID   string        `json:"executor_id,omitempty"`
	ConnectionID string        `json:"connection_id,omitempty"`
	Connected    time.Time     `json:"connected,omitzero"`    // since when
	LastContact  time.Time     `json:"last_contact,omitzero"` // when the brain has last answered a heartbeat or the registration
	LeaseLeft    time.Duration `json:"-"`
	LeaseLeftMS  int64         `json:"lease_left_ms"`
	// Attempts to connect have failed since the last healthy connection; NextAttempt is
	// when the next one is made, while it waits for that.
	Attempts    int       `json:"attempts"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`

	Sessions     []SessionStatus `json:"sessions"`
	CallsRunning int             `json:"calls_running"`
	// Processes counts what runs for sessions and is no call.
	Processes    int   `json:"processes"`
	ResultsOwed  int   `json:"results_owed"`
	ResultsLost  int64 `json:"results_lost"`
	JournalBytes int64 `json:"journal_bytes"` // of the journal's files
	// NotificationsDropped counts what was not sent since there was no connection, or
	// no room before a brain that reads slowly: progress, status.
	NotificationsDropped int64  `json:"notifications_dropped"`
	LastError            string `json:"last_error,omitempty"`
	// Errors are the last ones, newest last. Reconnects counts failed attempts and lost
	// connections by reason, one of ReconnectReasons.
	Errors     []ErrorStatus    `json:"errors,omitempty"`
	Reconnects map[string]int64 `json:"reconnects,omitempty"`
	// DrainReason says why it leaves, and DrainUntil for how long calls and processes are
	// waited for, while it drains.
	DrainReason string    `json:"drain_reason,omitempty"`
	DrainUntil  time.Time `json:"drain_until,omitzero"`
	// Degraded says why nothing can be kept over a restart just now.
	Degraded string `json:"degraded,omitempty"`
	// Overdue is for how long the connection's loop should have made its next step by
	// now. It is 0 in one that works, whether or not the brain can be reached; one for
	// which it is not is stuck.
	Overdue   time.Duration `json:"-"`
	OverdueMS int64         `json:"overdue_ms,omitempty"`
}

// SessionStatus is one session in Status.
type SessionStatus struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Calls     int    `json:"calls"`
	Processes int    `json:"processes"`
	// Running are the calls, oldest first; of many only the oldest.
	Running []CallStatus `json:"running,omitempty"`
}

// CallStatus is one running call in Status.
type CallStatus struct {
	ID    string    `json:"id"`
	Tool  string    `json:"tool"`
	Since time.Time `json:"since"`
}

// ErrorStatus is an error in Status. One that comes several times in a row is counted.
type ErrorStatus struct {
	At    time.Time `json:"at"` // of the last time
	Text  string    `json:"text"`
	Times int       `json:"times"`
}

const (
	maxErrors       = 8  // in Status
	maxCallsRunning = 16 // of one session in Status
)

// seen is what is remembered for Status. The executor's mutex is held.
type seen struct {
	since, connected, contact, next time.Time

	errors     []ErrorStatus
	attempts   int
	reconnects map[string]int64
	due        time.Time // by when the connection's loop makes its next step; zero = not watched
	moved      int64     // what the connection had sent when that was looked at
}

// Status may be called at any time.
func (e *Executor) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{State: e.phase, Since: e.seen.since, Brain: e.knownURL(), ExecutorID: e.executorID,
		LastContact: e.seen.contact, LeaseLeft: max(0, e.lease.left()), Attempts: e.seen.attempts, NextAttempt: e.seen.next,
		CallsRunning: e.running, Processes: e.working, ResultsOwed: e.box.Owed(), ResultsLost: e.lost.Load(), JournalBytes: e.box.Size(),
		NotificationsDropped: e.dropped.Load(), Errors: slices.Clone(e.seen.errors), Sessions: []SessionStatus{}, Overdue: e.overdue()}
	s.LeaseLeftMS, s.OverdueMS = s.LeaseLeft.Milliseconds(), s.Overdue.Milliseconds()
	if e.conn != nil {
		s.ConnectionID, s.Connected = e.connectionID, e.seen.connected
	}
	if n := len(s.Errors); n > 0 {
		s.LastError = s.Errors[n-1].Text
	}
	if e.phase == StateDraining {
		s.DrainReason, s.DrainUntil = e.drainReason, e.drainUntil
	}
	s.Reconnects = make(map[string]int64, len(e.seen.reconnects))
	for reason, n := range e.seen.reconnects {
		s.Reconnects[reason] = n
	}
	for _, id := range e.activeSessions() {
		s.Sessions = append(s.Sessions, e.sessions[id].status())
	}
	if err := e.degraded(); err != nil {
		s.Degraded = err.Error()
	}
	return s
}

func (s *session) status() SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := SessionStatus{ID: s.assign.SessionID, State: s.phase, Calls: len(s.running), Processes: s.processes}
	for id, c := range s.running {
		status.Running = append(status.Running, CallStatus{ID: id, Tool: c.params.Tool, Since: c.started})
	}
	slices.SortFunc(status.Running, func(a, b CallStatus) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	status.Running = status.Running[:min(len(status.Running), maxCallsRunning)]
	return status
}

func (e *Executor) setState(s State, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining && s != StateStopped {
		s = StateDraining
	}
	e.note(err)
	if s != e.phase {
		e.phase = s
		e.seen.since = time.Now()
		e.states.tell(s) // under the lock, for the order
	}
}

func (e *Executor) noteError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note(err)
}

// note remembers an error; nil is none. e.mu is held.
func (e *Executor) note(err error) {
	if err == nil {
		return
	}
	now, text, n := time.Now(), e.creds.hide(err.Error()), len(e.seen.errors)
	if n > 0 && e.seen.errors[n-1].Text == text {
		e.seen.errors[n-1].At = now
		e.seen.errors[n-1].Times++
		return
	}
	if n == maxErrors {
		e.seen.errors = slices.Delete(e.seen.errors, 0, 1)
	}
	e.seen.errors = append(e.seen.errors, ErrorStatus{At: now, Text: text, Times: 1})
}
