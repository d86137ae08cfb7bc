package shell

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// Reasons why a task was ended.
const (
	reasonTimeout      = "timeout"
	reasonKilled       = "killed"
	reasonSessionEnded = "session_ended"
	reasonRestarted    = "executor_restarted"
)

// task is a command in the background. Its methods may be called concurrently. Its table makes it and
// ends it.
type task struct {
	id      string
	command string // shortened
	started time.Time
	out     *stream.Ring
	pid     int
	p       *spawn.Process // nil: the task is from before a restart of the executor
	wake    bool           // its end is to be announced
	ended   chan struct{}  // the state is final, and what was printed before is in the ring

	mu      sync.Mutex
	cursor  int64  // of what is read next
	held    int64  // bytes there that begin a character, of which no more had come
	asked   string // why it is being ended, by the first who asked
	state   string
	code    *int
	signal  string
	endedAt time.Time
}

// sink writes what the pump reads into the ring.
func (t *task) sink(p []byte) {
	if len(p) == 0 {
		t.out.CloseWrite()
		return
	}
	_, _ = t.out.Write(p)
}

// ask notes why the task is to end.
func (t *task) ask(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked == "" && t.state == protocol.ProcessRunning {
		t.asked = reason
	}
}

// watch follows the task to its end. It is a goroutine of the table.
func (t *task) watch(timeout <-chan time.Time, grace time.Duration) {
	select {
	case <-t.p.Done():
	case <-timeout:
		select {
		case <-t.p.Done():
		default:
			t.ask(reasonTimeout)
			t.p.Terminate(grace)
		}
	}
	exit := t.p.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endedAt = time.Now()
	switch {
	case exit.Lost:
		t.state = protocol.ProcessFailed
	case exit.Signal != "" || t.asked != "":
		t.state, t.signal, t.code = protocol.ProcessKilled, exit.Signal, &exit.Code
	default:
		t.state, t.code = protocol.ProcessExited, &exit.Code
	}
	close(t.ended)
}

// taskEntry is a task in a structured result.
type taskEntry struct {
	TaskID string `json:"task_id"`
	// State is running, exited, killed (by a signal, or because somebody wanted it to end) or failed
	// (it could not be followed to its end).
	State string `json:"state"`
	// ExitCode is null while the task runs. It is 128 plus the signal's number when a signal ended it.
	ExitCode   *int   `json:"exit_code"`
	ExitSignal string `json:"exit_signal,omitempty"`
	Reason     string `json:"reason,omitempty"` // timeout, killed, session_ended or executor_restarted
	PID        int    `json:"pid"`
	Command    string `json:"command"`
	DurationMS int64  `json:"duration_ms"`
	// Unread is how many bytes of output have not been read.
	Unread int64 `json:"unread_bytes"`
}

func (t *task) entry() taskEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := taskEntry{TaskID: t.id, State: t.state, ExitCode: t.code, ExitSignal: t.signal, PID: t.pid, Command: t.command}
	if t.state != protocol.ProcessRunning {
		e.Reason = t.asked
		e.DurationMS = t.endedAt.Sub(t.started).Milliseconds()
	} else {
		e.DurationMS = time.Since(t.started).Milliseconds()
	}
	e.Unread = t.out.End() - t.cursor
	return e
}

// wait waits for output that has not been read, or the end.
func (t *task) wait(ctx context.Context, limit time.Duration) error {
	if limit <= 0 {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.mu.Lock()
	cursor := t.cursor + t.held
	t.mu.Unlock()
	if err := t.out.Wait(waiting, cursor, t.ended); err == nil && t.out.End() == cursor { // it has closed its output, and may go on for long
		select {
		case <-t.ended:
		case <-waiting.Done():
		}
	}
	return ctx.Err()
}

// read takes output that has not been read, at most so many bytes. dropped are bytes before it that came
// faster than they were read; more says that there are others behind it.
func (t *task) read(limit int) (data []byte, dropped int64, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	chunk, err := t.out.ReadAt(t.cursor, limit)
	if err != nil {
		return nil, 0, false // cannot be: the cursor is one that was given
	}
	dropped = chunk.From - t.cursor
	data = chunk.Data
	t.held = 0
	if n := unfinished(data); !chunk.EOF && n > 0 {
		data = data[:len(data)-n]
		if !chunk.More {
			t.held = int64(n)
		}
	}
	t.cursor = chunk.From + int64(len(data))
	return data, dropped, chunk.More
}

// unfinished is how many bytes at the end begin a character that is not complete.
func unfinished(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}
