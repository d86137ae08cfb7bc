package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

var (
	taskOutputTool = capabilities.Tool{
		Name: "shell_task_output",
		Description: "Read what a background task of run_shell has printed since the last read, also a line that is not complete, and how it is going. " +
			"With wait_ms it waits that long for new output or the end of the task. Each byte is given once; what came faster than it was read is counted.",
	}
	taskListTool = capabilities.Tool{
		Name:        "shell_task_list",
		Description: "List the background tasks of run_shell in this session: those that run and the newest that have ended.",
		Annotations: protocol.Annotations{ReadOnly: true, Idempotent: true},
	}
	taskKillTool = capabilities.Tool{
		Name: "shell_task_kill",
		Description: "End a background task of run_shell with all that it has started: SIGTERM, after 5 seconds SIGKILL. " +
			"It returns when they are gone, with what had not been read.",
		Annotations: protocol.Annotations{Destructive: true, Idempotent: true},
	}
)

type taskOutputInput struct {
	TaskID string `json:"task_id" jsonschema:"the task, as run_shell has named it"`
	WaitMS int64  `json:"wait_ms,omitempty" jsonschema:"waits up to this many milliseconds for new output or the end"`
}

// Check implements protocol.Checker.
func (in taskOutputInput) Check() error {
	if in.WaitMS < 0 {
		return protocol.Errorf(protocol.CodeInvalidParams, "wait_ms: is negative")
	}
	return nil
}

type taskInput struct {
	TaskID string `json:"task_id" jsonschema:"the task, as run_shell has named it"`
}

// taskResult is the structured result of what concerns one task.
type taskResult struct {
	taskEntry
	Output    string `json:"output"`
	Truncated bool   `json:"truncated"` // something is missing before the output, or there is more behind it
	// DroppedBytes are missing before the output: they came faster than they were read.
	DroppedBytes int64              `json:"dropped_bytes,omitempty"`
	InvalidBytes int64              `json:"invalid_bytes,omitempty"`
	NULBytes     int64              `json:"nul_bytes,omitempty"`
	Survivors    []program.Survivor `json:"survivors,omitempty"`
}

func taskOf(call *capabilities.Call, id string) (*tasks, *task, error) {
	st, err := stateOf(call.Session())
	if err != nil {
		return nil, nil, err
	}
	t, err := st.tasks.get(id)
	return st.tasks, t, err
}

func (s *Shell) taskOutput(ctx context.Context, call *capabilities.Call, in taskOutputInput) (protocol.ToolOutput, error) {
	limit := s.options.MaxTimeout
	if in.WaitMS > limit.Milliseconds() {
		return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeInvalidParams, "wait_ms: %d is more than the longest, %d", in.WaitMS, limit.Milliseconds())
	}
	_, t, err := taskOf(call, in.TaskID)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	if err := t.wait(ctx, time.Duration(in.WaitMS)*time.Millisecond); err != nil {
		return protocol.ToolOutput{}, err
	}
	if err := ctx.Err(); err != nil {
		return protocol.ToolOutput{}, err // nobody would see what is read now
	}
	return t.output(s.options.InlineBytes-noteBytes, nil), nil
}

func (s *Shell) taskList(_ context.Context, call *capabilities.Call, _ struct{}) (protocol.ToolOutput, error) {
	st, err := stateOf(call.Session())
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	result := struct {
		Tasks []taskEntry `json:"tasks"`
	}{[]taskEntry{}}
	var w program.Words
	for _, t := range st.tasks.list() {
		e := t.entry()
		result.Tasks = append(result.Tasks, e)
		w.Section(fmt.Sprintf("%s  %s, %d bytes to be read: %s\n", e.TaskID, e.how(), e.Unread, program.Brief(e.Command)))
	}
	if len(result.Tasks) == 0 {
		w.Note("no background tasks")
	}
	return protocol.ToolOutput{Content: protocol.Text(w.String()).Content, Structured: result}, nil
}

func (s *Shell) taskKill(ctx context.Context, call *capabilities.Call, in taskInput) (protocol.ToolOutput, error) {
	ts, t, err := taskOf(call, in.TaskID)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	select {
	case survivors := <-ts.kill(t):
		return t.output(s.options.InlineBytes-noteBytes, survivors), nil
	case <-ctx.Done(): // the task is ended all the same
		return protocol.ToolOutput{}, ctx.Err()
	}
}

// output reads what has not been read and makes a result of it.
func (t *task) output(limit int, survivors []spawn.Survivor) protocol.ToolOutput {
	e := t.entry() // before the read: an end that is told has all its output behind it or in it
	data, dropped, more := t.read(limit)
	shown := stream.NewOutput(4*limit, nil)
	_, _ = shown.Write(data)
	_ = shown.Close()
	result := taskResult{taskEntry: e, Output: shown.View(4 * limit).Text(""), Truncated: dropped > 0 || more, DroppedBytes: dropped}
	result.InvalidBytes, result.NULBytes = program.Damage(shown)
	result.Unread = t.entry().Unread
	var w program.Words
	if dropped > 0 {
		w.Note("%d bytes of output came faster than they were read and are not kept", dropped)
	}
	w.Section(result.Output)
	w.Damage(result.InvalidBytes, result.NULBytes)
	if more {
		w.Note("%d bytes more are to be read: call shell_task_output again", result.Unread)
	}
	if len(survivors) > 0 {
		result.Survivors = program.Survivors(survivors)
		w.Survivors(result.Survivors)
	}
	w.Note("task %s %s", e.TaskID, e.how())
	return protocol.ToolOutput{Content: protocol.Text(w.String()).Content, Structured: result}
}

// how says in words how the task is going.
func (e taskEntry) how() string {
	var words string
	switch e.State {
	case protocol.ProcessRunning:
		return fmt.Sprintf("is running, for %d ms", e.DurationMS)
	case protocol.ProcessExited:
		words = fmt.Sprintf("has ended with exit code %d", *e.ExitCode)
	case protocol.ProcessKilled:
		words = "was ended"
		if e.ExitSignal != "" {
			words += " by " + e.ExitSignal
		}
		if e.Reason != "" {
			words += " (" + e.Reason + ")"
		}
	default:
		words = "was lost sight of"
		if e.Reason == reasonRestarted {
			words = "has ended with the executor, which was restarted; what it printed is gone"
		}
	}
	return fmt.Sprintf("%s, after %d ms", words, e.DurationMS)
}
