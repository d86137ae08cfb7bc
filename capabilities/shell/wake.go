package shell

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

const (
	// wakeSource says to the brain what wakes it.
	wakeSource = "task"
	// wakeTries is how often a wake is sent at most to a brain that does not take it, wakeAgain how long
	// after a failure, doubling up to wakeAgainMost.
	wakeTries     = 12
	wakeAgain     = time.Second
	wakeAgainMost = 30 * time.Second
)

// wakePayload is what a wake says of the task.
type wakePayload struct {
	TaskID     string `json:"task_id"`
	State      string `json:"state"`
	ExitCode   *int   `json:"exit_code"`
	ExitSignal string `json:"exit_signal,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Command    string `json:"command"`
}

// wake tells the brain that a task has ended, if it is to know that, while the session lives.
func (ts *tasks) wake(t *task) {
	if !t.wake {
		return
	}
	e := t.entry()
	payload, err := json.Marshal(wakePayload{e.TaskID, e.State, e.ExitCode, e.ExitSignal, e.Reason, e.Command})
	if err != nil {
		panic(err) // strings and numbers
	}
	params := protocol.SessionWakeParams{SessionID: ts.session.ID(), WakeID: "wake-" + t.id, Source: wakeSource, Payload: payload, ElapsedMS: e.DurationMS}
	session := ts.session.Context()
	pause := wakeAgain
	for range wakeTries {
		// Without a connection it waits for one, as long as the session lives.
		if _, err = capabilities.Request(session, ts.session, protocol.SessionWake, params); err == nil {
			t.wake = false
			ts.note(t)
			return
		}
		var refusal *protocol.Error
		if session.Err() != nil || errors.As(err, &refusal) && !refusal.Data.Retryable {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-session.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, wakeAgainMost)
	}
	if session.Err() == nil {
		ts.session.Logger().Warn("the brain could not be told of the end of a task", zap.String("task", t.id), zap.Error(err))
	}
}
