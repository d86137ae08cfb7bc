//go:build unix

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

// maxAttempts is in how many shells a command is tried that none of them has read.
const maxAttempts = 3

type runShellInput struct {
	Command         string `json:"command" jsonschema:"the command, a script of any length"`
	TimeoutMS       int64  `json:"timeout_ms,omitempty" jsonschema:"interrupts the command after this many milliseconds; in the background there is no limit unless this names one"`
	Description     string `json:"description,omitempty" jsonschema:"what the command is for, in a few words, for whoever watches"`
	RunInBackground bool   `json:"run_in_background,omitempty" jsonschema:"runs the command beside the shell and returns a task_id at once"`
	Notify          bool   `json:"notify,omitempty" jsonschema:"with run_in_background: announces the end of the task"`
}

// Check implements protocol.Checker.
func (in runShellInput) Check() error {
	if in.Notify && !in.RunInBackground {
		return protocol.Errorf(protocol.CodeInvalidParams, "notify: is for run_in_background; the end of any other command is its result")
	}
	return checkCommand(in.Command, in.TimeoutMS)
}

func (s *Shell) runShellTool() capabilities.Tool {
	return capabilities.Tool{
		Name: "run_shell",
		Description: fmt.Sprintf("Run a command in the session's persistent shell, a bash, and return what it printed and its exit code. "+
			"The directory, variables, exports, functions, aliases, options and activated environments last from call to call; redirections made with exec do not. "+
			"Calls of one session run one after another, and the time a call waits for its turn counts. "+
			"Standard input is empty, so nothing can be asked. A program started with & goes on and is listed. "+
			"A command that takes too long is interrupted, and the shell stays. exit, exec, or an error under set -e ends the shell: "+
			"then state_lost is true, and the next call gets a new one in the same directory. "+
			"With run_in_background the command runs in a bash of its own, with the directory and the exported variables that the shell has between commands; "+
			"shell_task_output reads what it prints, shell_task_list lists such tasks, shell_task_kill ends one. "+
			"The default timeout is %d ms, the longest %d ms. Long output is cut in the middle, with the whole of it in a file.",
			s.options.Timeout.Milliseconds(), s.options.MaxTimeout.Milliseconds()),
		Annotations: protocol.Annotations{Destructive: true, OpenWorld: true},
	}
}

func (s *Shell) installPersistent(r *capabilities.Registrar) {
	capabilities.AddTool(r, s.runShellTool(), s.runShell)
	capabilities.AddTool(r, taskOutputTool, s.taskOutput)
	capabilities.AddTool(r, taskListTool, s.taskList)
	capabilities.AddTool(r, taskKillTool, s.taskKill)
}

func (s *Shell) runShell(ctx context.Context, call *capabilities.Call, in runShellInput) (protocol.ToolOutput, error) {
	timeout, err := s.timeout(in.TimeoutMS)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	state, err := stateOf(call.Session())
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	workspace, err := s.directory(call.Session(), "")
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	if in.RunInBackground {
		if in.TimeoutMS == 0 {
			timeout = 0
		}
		return s.runTask(ctx, call, in, workspace, timeout)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	k := state.shell
	if err := k.take(ctx, timer.C, timeout); err != nil {
		return protocol.ToolOutput{}, err
	}
	defer k.give()
	if ctx.Err() != nil {
		return protocol.ToolOutput{}, s.endError(ctx, canceledOr(ctx), timeout)
	}

	env := func() []string { return s.environment(call.Session(), nil) }
	started := time.Now()
	command := in.Command
	if mayBeUnfinished(command) {
		if words := k.unfinished(ctx, state.group, env(), command); words != "" {
			command = `\builtin printf %s ` + quoted(words) + ` >&2; \builtin return 2`
		}
	}
	var r *shellReport
	replaced := false
	for attempt := 1; ; attempt++ {
		sh, gone, cd, lost, err := k.ready(state.group, env, workspace)
		if err != nil {
			return protocol.ToolOutput{}, startError(err)
		}
		replaced = replaced || lost
		r = newShellReport(call, s.options)
		r.fresh, r.movedFrom, r.movedTo = replaced, gone, cd
		x, err := sh.begin(&k.pipes, command, cd, r.sink())
		if err != nil {
			return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeResourceUnavailable, "%v", err).WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
		}
		r.end = x.wait(ctx, timer.C)
		if r.end != exited {
			x.stop(s.options.Grace)
		}
		r.background = x.finish()
		r.died = k.done(x)
		if r.end == exited && x.unseen && ctx.Err() == nil {
			if attempt == maxAttempts {
				return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeResourceUnavailable, "no shell stayed long enough to read the command; bash runs without one").
					WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
			}
			continue // it was not run: the shell had just ended
		}
		r.survivors, r.status, r.mute, r.useless = x.survivors, x.status, x.mute, x.useless
		r.exit, r.exitKnown = sh.p.Reaped()
		break
	}
	r.cwd = k.cwd
	r.duration = time.Since(started)
	return r.output(), s.endError(ctx, r.end, timeout)
}

// take waits for the turn.
func (k *keeper) take(ctx context.Context, late <-chan time.Time, timeout time.Duration) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-late:
		return protocol.Errorf(protocol.CodeTimeout, "the command was not started: another one ran in the shell for all of the %v; bash runs beside it", timeout).WithRetryable(false)
	case <-ctx.Done():
		if canceledOr(ctx) == timedOut {
			return protocol.Errorf(protocol.CodeTimeout, "the command was not started: another one ran in the shell up to the deadline of the call").WithRetryable(false)
		}
		return protocol.Errorf(protocol.CodeCanceled, "the command was canceled before it was started")
	}
}

func (k *keeper) give() { <-k.turn }

// shellResult is the structured result of run_shell.
type shellResult struct {
	Output string `json:"output"`
	// ExitCode is null when the executor ended the command, and when the shell could not say it.
	ExitCode   *int   `json:"exit_code"`
	ExitSignal string `json:"exit_signal,omitempty"` // of the shell itself
	Cwd        string `json:"cwd"`                   // of the next command
	TimedOut   bool   `json:"timed_out"`
	DurationMS int64  `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
	// StateLost says that the shell has ended with this command, or was a new one in the place of
	// another: variables, functions and options are gone.
	StateLost    bool               `json:"state_lost"`
	OutputFile   string             `json:"output_file,omitempty"`
	InvalidBytes int64              `json:"invalid_bytes,omitempty"`
	NULBytes     int64              `json:"nul_bytes,omitempty"`
	Background   []program.Process  `json:"background"`
	Survivors    []program.Survivor `json:"survivors"`
}

// shellReport gathers what a command in the persistent shell prints and makes the result of it.
type shellReport struct {
	*program.Streams
	stream     *stream.Output
	status     *status // nil: the shell did not say
	exit       spawn.Exit
	exitKnown  bool
	end        ending
	duration   time.Duration
	cwd        string
	fresh      bool // a new shell took the place of another
	died       bool
	mute       bool // ended because it said nothing
	useless    bool // ended because it could not open files any more
	movedFrom  string
	movedTo    string // empty when the directory was there
	background []spawn.Member
	survivors  []spawn.Survivor
}

func newShellReport(call *capabilities.Call, o Options) *shellReport {
	c := newStreams(call, o)
	return &shellReport{Streams: c, stream: c.Stream()}
}

func (r *shellReport) sink() spawn.Sink { return r.Sink(protocol.StreamStdout, r.stream) }

func (r *shellReport) output() protocol.ToolOutput {
	view := r.stream.View(r.Limit)
	result := shellResult{
		Cwd:        capabilities.QuoteName(r.cwd),
		TimedOut:   r.end == timedOut,
		DurationMS: r.duration.Milliseconds(),
		Truncated:  view.Omitted > 0,
		StateLost:  r.fresh || r.died,
		OutputFile: r.Path(),
		Background: program.Background(r.background),
		Survivors:  program.Survivors(r.survivors),
	}
	result.Output = view.Text(r.Omission(view, "output"))
	result.InvalidBytes, result.NULBytes = program.Damage(r.stream)
	switch {
	case r.end != exited:
	case r.status != nil:
		result.ExitCode = &r.status.code
	case r.exitKnown && !r.mute:
		result.ExitCode, result.ExitSignal = &r.exit.Code, r.exit.Signal
	}
	return protocol.ToolOutput{
		Content:    protocol.Text(r.words(result)).Content,
		Structured: result,
		IsError:    r.end == exited && (result.ExitCode == nil || *result.ExitCode != 0),
	}
}

// words is the text block: what was printed, and below it what is to be known about the command.
func (r *shellReport) words(result shellResult) string {
	var w program.Words
	w.Section(result.Output)
	w.Damage(result.InvalidBytes, result.NULBytes)
	w.Spill(r.Streams)
	if r.movedTo != "" {
		w.Note("the directory %s was removed or replaced; the command ran in %s", capabilities.QuoteName(r.movedFrom), capabilities.QuoteName(r.movedTo))
	}
	if r.fresh {
		w.Note("the shell before had ended: a new one took its place, without the variables, functions and options of the old one")
	}
	w.Background(result.Background)
	w.Survivors(result.Survivors)
	if r.died {
		if r.useless {
			w.Note("the shell could not open files any more, so that the command may not have run, and was ended; the next command gets a new one in %s", result.Cwd)
		} else if r.mute {
			w.Note("the shell did not say how the command ended, and was ended itself; the next command gets a new one in %s", result.Cwd)
		} else {
			w.Note("the shell has ended with this command; the next one gets a new shell in %s, without its variables, functions and options", result.Cwd)
		}
	}
	switch {
	case r.end == timedOut:
		w.Note("timed out after %d ms; the command was ended", result.DurationMS)
	case r.end == canceled:
		w.Note("canceled after %d ms; the command was ended", result.DurationMS)
	case result.ExitCode == nil:
		w.Note("the exit status is not known")
	case result.ExitSignal != "":
		w.Note("ended by %s, exit code %d", result.ExitSignal, *result.ExitCode)
	case *result.ExitCode != 0:
		w.Note("exit code %d", *result.ExitCode)
	case w.Len() == 0:
		w.Note("no output, exit code 0")
	}
	return w.String()
}
