package process

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// Defaults of a PTY's window.
const (
	defaultCols = 80
	defaultRows = 24
)

// start answers process.start: the process is started once, however often it is asked for.
func (c *Processes) start(ctx context.Context, s *capabilities.Session, p protocol.ProcessStartParams) (protocol.ProcessState, error) {
	t, err := tableOf(s)
	if err != nil {
		return protocol.ProcessState{}, err
	}
	if err := c.check(p); err != nil {
		return protocol.ProcessState{}, err
	}
	ch, fresh, err := t.reserve(p)
	if err != nil {
		return protocol.ProcessState{}, err
	}
	if fresh {
		err = c.launch(t, ch, p)
	} else {
		err = ch.awaitStart(ctx)
	}
	if err != nil {
		return protocol.ProcessState{}, err
	}
	if p.WaitMS > 0 {
		timer := time.NewTimer(protocol.Millis(p.WaitMS))
		defer timer.Stop()
		select {
		case <-ch.ended:
		case <-timer.C:
		case <-ctx.Done():
			return protocol.ProcessState{}, givenUp(ctx, s)
		}
	}
	return ch.snapshot(), nil
}

// check refuses what is not done here, and what no program can be started with.
func (c *Processes) check(p protocol.ProcessStartParams) error {
	for _, x := range []struct {
		asked bool
		name  string
	}{
		{p.PackageInstall != nil, "package_install"},
		{p.FileTransfer != nil, "file_transfer"},
		{len(p.GitCredentials) > 0, "git_credentials"},
		{p.IOMode == protocol.IOModePTY && !c.pty, "pty"},
	} {
		if x.asked {
			return protocol.Errorf(protocol.CodeCapabilityUnavailable, "%s is not available on this executor", x.name).
				WithCapability(protocol.CapabilityProcess + "." + x.name)
		}
	}
	invalid := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidParams, format, args...)
	}
	if p.Argv[0] == "" {
		return invalid("argv: the first word, the program, is empty")
	}
	for _, word := range p.Argv {
		if strings.ContainsRune(word, 0) {
			return invalid("argv: contains a NUL character, which no command line can")
		}
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("env: %s cannot be an environment variable", quote(name))
		}
	}
	return nil
}

// hashOf tells specifications apart: all that makes a difference to the process.
func hashOf(p protocol.ProcessStartParams) specHash {
	p.SessionID, p.ProcessID, p.WaitMS = "", "", 0
	for _, mode := range []struct {
		field    *string
		absentIs string
	}{
		{&p.IOMode, protocol.IOModePipes},
		{&p.Stdin, protocol.StdinClosed},
		{&p.Stderr, protocol.StderrSeparate},
		{&p.OnFull, protocol.OnFullDrop},
		{&p.Cwd, "."},
	} {
		if *mode.field == "" {
			*mode.field = mode.absentIs
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("process: marshal params: %v", err)) // they came as JSON
	}
	return sha256.Sum256(raw)
}

// launch starts the process whose place was reserved.
func (c *Processes) launch(t *table, ch *child, p protocol.ProcessStartParams) (err error) {
	err = errSessionEnds // should it panic
	defer func() {
		if err != nil {
			t.failed(ch, err)
		}
	}()
	workspace := t.session.Workspace()
	if workspace == nil {
		err = protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").WithReason(protocol.ReasonWorkspaceUnavailable)
		return err
	}
	cwd := p.Cwd
	if cwd == "" {
		cwd = "."
	}
	dir, err := workspace.ResolveDir(cwd)
	if err != nil {
		return err
	}
	command := spawn.Command{Argv: p.Argv, Dir: dir, Follow: true, Env: c.environment(t.session, p)}
	pty := p.IOMode == protocol.IOModePTY
	if pty {
		var tty *os.File
		ch.terminal, tty, err = openTerminal(window(p.Cols, defaultCols), window(p.Rows, defaultRows))
		if err != nil {
			return protocol.Errorf(protocol.CodeResourceUnavailable, "open a PTY: %v", err)
		}
		defer tty.Close()
		command.Terminal = tty
		ch.shown = c.options.Children.Masked(command.Env, sink(ch.stdout))
	} else {
		command.Stdout, command.Merge, command.Input = sink(ch.stdout), ch.merge, p.Stdin == protocol.StdinOpen
		if !ch.merge {
			command.Stderr = sink(ch.stderr)
		}
	}
	ch.startedAt, ch.noted = time.Now(), true
	t.note(ch) // before it can have done anything
	ch.p, err = t.group.Start(command)
	if err != nil {
		ch.terminal.close()
		err = startError(err)
		return err
	}
	ch.startedAt, ch.pid = time.Now(), ch.p.PID()
	switch {
	case p.Stdin != protocol.StdinOpen:
	case pty:
		ch.input = newInput(ch.terminal.input(), c.options.MaxWrite)
	default:
		ch.input = newInput(pipeInput(ch.p.Stdin()), c.options.MaxWrite)
	}
	ch.working = t.session.Working()
	if !t.run(func() { ch.watch(t, protocol.Millis(p.TimeoutMS)) }) {
		// The session ends in this very moment, and with it the process.
		ch.working()
		ch.ask(reasonSessionEnded)
		ch.letGo()
		ch.terminal.close()
		return errSessionEnds
	}
	close(ch.started)
	return nil
}

func window(asked, absentIs int) int {
	if asked == 0 {
		return absentIs
	}
	return asked
}

// environment is what a process of this session sees.
func (c *Processes) environment(s *capabilities.Session, p protocol.ProcessStartParams) []string {
	env := s.Env()
	for name, value := range p.Env {
		env[name] = value
	}
	policy := spawn.Policy{Keep: c.options.KeepEnv, Secrets: c.options.Secrets}
	if p.IOMode == protocol.IOModePTY {
		policy.Terminal = "xterm-256color"
	}
	return c.options.Children.Environment(c.login(), policy, env)
}

// startError says in the protocol's words why a program did not start.
func startError(err error) error {
	var start *spawn.StartError
	switch {
	case errors.Is(err, spawn.ErrClosed):
		return errSessionEnds
	case errors.As(err, &start) && start.DirMissing:
		return protocol.Errorf(protocol.CodeNotFound, "cwd: the working directory %s is gone: %v", capabilities.QuoteName(start.Dir), start.Err)
	}
	return protocol.Errorf(protocol.CodeResourceUnavailable, "%v", err).WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
}
