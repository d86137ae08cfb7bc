//go:build unix

package shell

import (
	"context"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// runTask is run_shell in the background.
func (s *Shell) runTask(ctx context.Context, call *capabilities.Call, in runShellInput, workspace string, timeout time.Duration) (protocol.ToolOutput, error) {
	state, err := stateOf(call.Session())
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	dir, env := state.shell.surroundings()
	if env == nil {
		env = s.environment(call.Session(), nil)
	}
	if dir == "" {
		dir = workspace
	}
	if ctx.Err() != nil {
		return protocol.ToolOutput{}, s.endError(ctx, canceledOr(ctx), timeout)
	}
	from := existing(dir, workspace)
	t, err := state.tasks.start(state.group, spawn.Command{Script: in.Command + "\n", Dir: from, Env: env}, timeout, in.Notify)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	var w program.Words
	e := t.entry()
	w.Note("task %s runs in the background in %s, pid %d; shell_task_output reads what it prints", t.id, capabilities.QuoteName(from), e.PID)
	if from != dir {
		w.Note("the directory %s was removed", capabilities.QuoteName(dir))
	}
	return protocol.ToolOutput{Content: protocol.Text(w.String()).Content, Structured: taskResult{taskEntry: e}}, nil
}
