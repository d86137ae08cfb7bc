package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

const (
	// exitWait is how long a program that has closed one of its ends has to exit, so that its exit status is
	// the reason and not that.
	exitWait = time.Second
	// heldErrors are errors for the server that wait until it reads; more are dropped.
	heldErrors = 16
)

// program is a run of a server that is a program.
type program struct {
	s      *server
	p      *spawn.Process
	stderr tail
	ctx    context.Context // what it prints is taken as long as this lasts
	cancel context.CancelFunc

	attached chan struct{} // relay is set
	relay    *relay
	lines    lines
	silent   chan struct{} // it has closed its standard output

	input  chan []byte // messages of the brain
	errors chan []byte // errors for the server's own messages
	deaf   chan struct{}
}

// launch starts the program. It is up to the brain to say the first word to it.
func (s *server) launch(ctx context.Context) (run, error) {
	t := s.spec.Transport
	cwd := t.Cwd
	if cwd == "" {
		cwd = "."
	}
	workspace := s.t.session.Workspace()
	if workspace == nil {
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").WithReason(protocol.ReasonWorkspaceUnavailable)
	}
	dir, err := workspace.ResolveDir(cwd)
	if err != nil {
		e := asError(err)
		e.Message = "transport.cwd: " + e.Message
		return nil, e
	}
	x := &program{s: s, stderr: tail{hide: s.hide}, attached: make(chan struct{}), silent: make(chan struct{}),
		input: make(chan []byte), errors: make(chan []byte, heldErrors), deaf: make(chan struct{})}
	command := spawn.Command{Argv: append([]string{t.Command}, t.Args...), Dir: dir, Env: s.environment(), Input: true,
		Stdout: x.stdout, Stderr: x.stderr.write}
	pinned, err := pin(ctx, t.CommandSHA256, &command)
	if err != nil {
		return nil, err
	}
	if s.group == nil {
		s.group = s.t.options.Children.NewGroup()
	}
	x.ctx, x.cancel = context.WithCancel(s.t.ctx)
	if x.p, err = s.group.Start(command); err != nil {
		x.cancel()
		return nil, startError(err)
	}
	if err := pinned.again(ctx); err != nil {
		x.discard()
		return nil, err
	}
	return x, nil
}

// environment is what the program sees.
func (s *server) environment() []string {
	env := s.t.session.Env()
	maps.Copy(env, s.spec.Transport.Env)
	maps.Copy(env, s.spec.Transport.SecretEnv)
	o := s.t.options
	return o.Children.Environment(o.login(), spawn.Policy{Keep: o.KeepEnv, Secrets: o.Secrets}, env)
}

func startError(err error) error {
	var start *spawn.StartError
	if errors.As(err, &start) && start.DirMissing {
		return protocol.Errorf(protocol.CodeNotFound, "transport.cwd: the working directory %s is gone: %v", capabilities.QuoteName(start.Dir), start.Err)
	}
	return protocol.Errorf(protocol.CodeMCPUnavailable, "%v", err)
}

// stdout is a sink. It waits until there is a channel, and then for each message until the channel has taken
// it: so a server whose messages nobody reads is held up.
func (x *program) stdout(p []byte) {
	select {
	case <-x.attached:
	case <-x.ctx.Done():
	}
	switch {
	case len(p) == 0:
		if x.ctx.Err() == nil {
			x.lines.end()
		}
		close(x.silent)
	case x.ctx.Err() == nil:
		x.lines.write(p)
	}
}

// serve implements run.
func (x *program) serve(ch capabilities.Channel) ending {
	limit := limitOf(ch)
	x.relay = &relay{ch: ch, log: x.s.log, hide: x.s.hide, limit: limit, answer: x.answer}
	x.lines = lines{limit: limit, take: func(m *message) { _ = x.relay.deliver(x.ctx, m) }} // the end of the channel is seen by who reads it
	close(x.attached)
	var loops sync.WaitGroup
	lost := make(chan error, 1)
	loops.Go(func() { lost <- x.read(ch) })
	loops.Go(x.write)
	end := x.await(lost)
	x.stop()
	loops.Wait()
	x.report(end)
	return end
}

// await waits for whatever ends the run.
func (x *program) await(lost <-chan error) ending {
	exited := func(otherwise string) ending {
		timer := time.NewTimer(exitWait)
		defer timer.Stop()
		select {
		case <-x.p.Exited():
			return x.exited(lost)
		case <-timer.C:
			return ending{server: otherwise}
		case err := <-lost:
			return ending{brain: err}
		case <-x.ctx.Done():
			return ending{}
		}
	}
	select {
	case <-x.p.Exited():
		return x.exited(lost)
	case <-x.silent:
		return exited("it has closed its standard output")
	case <-x.deaf:
		return exited("it has closed its standard input")
	case err := <-lost:
		if x.ctx.Err() != nil {
			return ending{}
		}
		return ending{brain: err}
	case <-x.ctx.Done():
		return ending{}
	}
}

// exited is the end of a run by the program's own. What it has printed before goes out first.
func (x *program) exited(lost <-chan error) ending {
	select {
	case <-x.p.Done():
	case err := <-lost:
		return ending{brain: err}
	case <-x.ctx.Done():
		return ending{}
	}
	exit, ok := x.p.Reaped()
	switch {
	case !ok:
		return ending{server: "its end is not known"}
	case exit.Signal != "":
		return ending{server: "killed by " + exit.Signal}
	}
	return ending{server: fmt.Sprintf("exit status %d", exit.Code)}
}

// read passes on what the brain says, and returns why it says no more.
func (x *program) read(ch capabilities.Channel) error {
	for {
		frame, err := ch.ReadFrame(x.ctx)
		if err != nil {
			return err
		}
		line, ok := oneLine(frame)
		if !ok {
			x.s.log.Warn("a message of the brain is no JSON and is dropped", zap.Int("bytes", len(frame)))
			continue
		}
		if len(line) == 0 {
			continue
		}
		select {
		case x.input <- append(line, '\n'):
		case <-x.deaf: // it goes on reading: the end of the channel is to be seen
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
}

// write writes to the program, which may not read: then it waits, until the program's standard input is
// closed.
func (x *program) write() {
	for {
		var line []byte
		select {
		case line = <-x.input:
		case line = <-x.errors:
		case <-x.ctx.Done():
			return
		}
		if _, err := x.p.Stdin().Write(line); err != nil {
			close(x.deaf)
			return
		}
	}
}

// answer holds an error for the program; never may the reading of what it prints wait for what it reads.
func (x *program) answer(frame []byte) {
	select {
	case x.errors <- append(frame, '\n'):
	default:
		x.s.log.Warn("the server does not read; an error for it is dropped")
	}
}

// stop ends the program and all that it has started: its standard input is closed, then SIGTERM, then SIGKILL.
func (x *program) stop() {
	x.cancel() // a program that waits for a reader would not see the end of its input
	_ = x.p.Stdin().Close()
	timer := time.NewTimer(x.s.t.options.Grace)
	defer timer.Stop()
	select {
	case <-x.p.Exited():
	case <-timer.C:
	}
	if survivors := x.p.Terminate(x.s.t.options.Grace); len(survivors) > 0 {
		x.s.log.Warn("processes of an MCP server could not be ended", survivorField(survivors))
	}
}

// discard implements run.
func (x *program) discard() { x.stop() }

// report logs how the run was: what the program has complained about is of interest when it has ended by
// itself.
func (x *program) report(end ending) {
	x.relay.summary()
	text, size := x.stderr.end()
	if size == 0 {
		return
	}
	log := x.s.log.Debug
	if end.server != "" {
		log = x.s.log.Warn
	}
	log("what the MCP server has printed last on standard error", zap.Int64("bytes", size), zap.String("ends", text))
}
