package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

type bashInput struct {
	Command     string            `json:"command" jsonschema:"the command, a script of any length for bash -c"`
	Cwd         string            `json:"cwd,omitempty" jsonschema:"the directory to run in; relative to the workspace, which is the default"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"environment variables to add or replace"`
	TimeoutMS   int64             `json:"timeout_ms,omitempty" jsonschema:"ends the command after this many milliseconds"`
	Description string            `json:"description,omitempty" jsonschema:"what the command is for, in a few words, for whoever watches"`
}

// Check implements protocol.Checker.
func (in bashInput) Check() error {
	invalid := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidParams, format, args...)
	}
	if err := checkCommand(in.Command, in.TimeoutMS); err != nil {
		return err
	}
	for name, value := range in.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("env: %q cannot be an environment variable", name)
		}
	}
	return nil
}

// checkCommand checks what the tools have in common.
func checkCommand(command string, timeoutMS int64) error {
	switch {
	case strings.TrimSpace(command) == "":
		return protocol.Errorf(protocol.CodeInvalidParams, "command: is empty")
	case strings.ContainsRune(command, 0):
		return protocol.Errorf(protocol.CodeInvalidParams, "command: contains a NUL character, which no command line can")
	case timeoutMS < 0:
		return protocol.Errorf(protocol.CodeInvalidParams, "timeout_ms: is negative")
	}
	return nil
}

// timeout is how long a call may take.
func (s *Shell) timeout(ms int64) (time.Duration, error) {
	if ms == 0 {
		return s.options.Timeout, nil
	}
	// Compared before the conversion, which could overflow.
	if limit := s.options.MaxTimeout.Milliseconds(); ms > limit {
		return 0, protocol.Errorf(protocol.CodeInvalidParams, "timeout_ms: %d is more than the longest, %d", ms, limit)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (s *Shell) bashTool() capabilities.Tool {
	return capabilities.Tool{
		Name: "bash",
		Description: fmt.Sprintf("Run a command with bash and return what it printed and its exit code. "+
			"Every call is a fresh shell: neither cd nor variables last. Standard input is empty, so nothing can be asked. "+
			"The call returns when the shell exits; a program started with & goes on and is listed. "+
			"The default timeout is %d ms, the longest %d ms. Long output is cut in the middle, with the whole of it in a file.",
			s.options.Timeout.Milliseconds(), s.options.MaxTimeout.Milliseconds()),
		Annotations: protocol.Annotations{Destructive: true, OpenWorld: true},
	}
}

// ending is why a command ended.
type ending int

const (
	exited   = ending(program.Exited)
	timedOut = ending(program.TimedOut)
	canceled = ending(program.Canceled)
)

func (s *Shell) bash(ctx context.Context, call *capabilities.Call, in bashInput) (protocol.ToolOutput, error) {
	timeout, err := s.timeout(in.TimeoutMS)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	state, err := stateOf(call.Session())
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	dir, err := s.directory(call.Session(), in.Cwd)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	if ctx.Err() != nil {
		return protocol.ToolOutput{}, s.endError(ctx, canceledOr(ctx), timeout)
	}
	env := s.environment(call.Session(), in.Env)
	if ctx.Err() != nil { // while the login shell was asked
		return protocol.ToolOutput{}, s.endError(ctx, canceledOr(ctx), timeout)
	}

	report := newReport(call, s.options)
	started := time.Now()
	p, err := state.group.Start(spawn.Command{
		Script: in.Command + "\n", // a backslash at the very end goes on to the next line, as in a file
		Dir:    dir,
		Env:    env,
		Stdout: report.sink(protocol.StreamStdout),
		Stderr: report.sink(protocol.StreamStderr),
	})
	if err != nil {
		return protocol.ToolOutput{}, startError(err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	end := exited
	select {
	case <-p.Exited():
	case <-timer.C:
		end = timedOut
	case <-ctx.Done():
		end = canceledOr(ctx)
	}
	if end != exited {
		select {
		case <-p.Exited(): // in the same moment: its own end is the better answer
			end = exited
		default:
			report.survivors = p.Terminate(s.options.Grace)
		}
	}
	report.exit = p.Wait()
	report.end = end
	report.duration = time.Since(started)
	return report.output(), s.endError(ctx, end, timeout)
}

// canceledOr tells a call that was canceled from one whose deadline passed.
func canceledOr(ctx context.Context) ending {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return timedOut
	}
	return canceled
}

// endError is the error of a command that did not end by itself.
func (s *Shell) endError(ctx context.Context, end ending, timeout time.Duration) error {
	switch end {
	case timedOut:
		words := fmt.Sprintf("the command did not end within %v and was ended", timeout)
		if ctx.Err() != nil {
			words = "the deadline of the call passed and the command was ended"
		}
		return protocol.Errorf(protocol.CodeTimeout, "%s", words).WithRetryable(false)
	case canceled:
		return protocol.Errorf(protocol.CodeCanceled, "the command was canceled")
	}
	return nil
}

// directory is where the command runs: inside the roots, and there.
func (s *Shell) directory(session *capabilities.Session, cwd string) (string, error) {
	workspace := session.Workspace()
	if workspace == nil {
		return "", protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").WithReason(protocol.ReasonWorkspaceUnavailable)
	}
	if cwd == "" {
		cwd = "."
	}
	return workspace.ResolveDir(cwd)
}

// startError says in the protocol's words why bash did not start.
func startError(err error) error {
	var start *spawn.StartError
	switch {
	case errors.Is(err, spawn.ErrClosed):
		return protocol.Errorf(protocol.CodeSessionNotActive, "the session is ending")
	case errors.As(err, &start) && start.DirMissing:
		return protocol.Errorf(protocol.CodeNotFound, "the working directory %s is gone: %v", capabilities.QuoteName(start.Dir), start.Err)
	}
	return protocol.Errorf(protocol.CodeResourceUnavailable, "%v", err).WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
}

func survivorField(survivors []spawn.Survivor) zap.Field {
	pids := make([]int, len(survivors))
	for i, s := range survivors {
		pids[i] = s.PID
	}
	return zap.Ints("pids", pids)
}
