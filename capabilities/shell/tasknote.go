package shell

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// taskNotes begins the keys of what is noted of tasks; their ids follow.
const taskNotes = "shell/task/"

// taskNote is what is noted of a task, so that it is known after a restart of the executor, and its end
// announced.
type taskNote struct {
	Command string    `json:"command"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Wake    bool      `json:"wake,omitempty"` // its end is still to be announced
	// Of one that has ended:
	Ended  time.Time `json:"ended,omitzero"`
	State  string    `json:"state,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Code   *int      `json:"code,omitempty"`
	Signal string    `json:"signal,omitempty"`
}

// note notes a task as it stands. Its goroutine, or who makes it before there is one, calls it.
func (ts *tasks) note(t *task) {
	n := taskNote{Command: t.command, PID: t.pid, Started: t.started, Wake: t.wake}
	t.mu.Lock()
	if t.state != protocol.ProcessRunning {
		n.Ended, n.State, n.Reason, n.Code, n.Signal = t.endedAt, t.state, t.asked, t.code, t.signal
	}
	t.mu.Unlock()
	raw, err := json.Marshal(n)
	if err != nil {
		panic(fmt.Sprintf("shell: marshal a note: %v", err)) // plain data
	}
	ts.session.Note(taskNotes+t.id, raw)
}

// restore takes in what was noted before a restart of the executor, which has ended all of it.
func (ts *tasks) restore() {
	for id, raw := range ts.session.Notes(taskNotes) {
		var n taskNote
		if json.Unmarshal(raw, &n) != nil {
			ts.session.ForgetNote(taskNotes + id)
			continue
		}
		t := &task{id: id, command: n.Command, pid: n.PID, started: n.Started, wake: n.Wake, out: stream.NewRing(1), ended: make(chan struct{}),
			state: n.State, asked: n.Reason, code: n.Code, signal: n.Signal, endedAt: n.Ended}
		if n.State == "" {
			t.state, t.asked, t.endedAt = protocol.ProcessFailed, reasonRestarted, time.Now()
			ts.note(t)
		}
		t.out.CloseWrite()
		close(t.ended)
		ts.all = append(ts.all, t)
	}
	slices.SortFunc(ts.all, func(a, b *task) int { return a.started.Compare(b.started) })
	ts.prune()
	for _, t := range ts.all {
		ts.work.Go(func() { ts.wake(t) })
	}
}
