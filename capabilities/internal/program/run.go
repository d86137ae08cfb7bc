package program

import (
	"context"
	"errors"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// Limits of one run. Zero fields are the defaults.
type Limits struct {
	Timeout     time.Duration // 120 s
	Grace       time.Duration // between SIGTERM and SIGKILL; 2 s
	InlineBytes int           // of text in the result; 32 KiB, at least 4 KiB
	SpillBytes  int64         // of raw output kept in a file when it is more than that; 64 MiB
	// Live sends the output to the brain also while the program runs, up to 64 KiB a second.
	Live bool
}

const minInline = 4 << 10

func (l *Limits) defaults() {
	if l.Timeout <= 0 {
		l.Timeout = protocol.DefaultBashTimeout
	}
	if l.Grace <= 0 {
		l.Grace = 2 * time.Second
	}
	if l.InlineBytes <= 0 {
		l.InlineBytes = protocol.DefaultInlineResult
	}
	l.InlineBytes = max(l.InlineBytes, minInline)
	if l.SpillBytes <= 0 {
		l.SpillBytes = 64 << 20
	}
}

// Ending is why a program ended.
type Ending int

// The values of Ending.
const (
	Exited   Ending = iota // by itself
	TimedOut               // at its limit, or at the deadline of the call
	Canceled               // with the call
)

// Run is a program that has ended. It belongs to one goroutine.
type Run struct {
	End       Ending
	Exit      spawn.Exit
	Duration  time.Duration
	Survivors []spawn.Survivor // what could not be ended

	late    bool // the deadline of the call, not the limit, ended it
	limits  Limits
	noun    string // what it is called: program, command
	streams *Streams
	stdout  *stream.Output
	stderr  *stream.Output
}

// NewRun is a run of something that the caller starts itself, and calls by this noun.
// The caller gives it its two sinks, and fills in the exported fields when it has ended.
func NewRun(noun string, streams *Streams) *Run {
	return &Run{noun: noun, streams: streams, stdout: streams.Stream(), stderr: streams.Stream()}
}

// Sink takes what is printed on protocol.StreamStdout or StreamStderr.
func (r *Run) Sink(name string) spawn.Sink {
	if name == protocol.StreamStderr {
		return r.streams.Sink(name, r.stderr)
	}
	return r.streams.Sink(name, r.stdout)
}

// Start runs a program to its end. At its time limit, or when ctx ends, the whole tree gets SIGTERM,
// Limits.Grace later SIGKILL. The sinks of c are set here. The error, a *protocol.Error, is that it did not
// start; how it ended is in the Run.
func Start(ctx context.Context, call *capabilities.Call, group *spawn.Group, c spawn.Command, l Limits) (*Run, error) {
	l.defaults()
	r := NewRun("program", NewStreams(call, l.InlineBytes, l.SpillBytes, l.Live))
	r.limits = l
	c.Stdout, c.Stderr = r.Sink(protocol.StreamStdout), r.Sink(protocol.StreamStderr)

	if ctx.Err() != nil {
		return nil, endError(endingOf(ctx), true, l.Timeout)
	}
	started := time.Now()
	p, err := group.Start(c)
	if err != nil {
		return nil, StartError(err)
	}
	r.End, r.Survivors = await(ctx, p, l)
	r.Exit = p.Wait()
	r.late = r.End == TimedOut && ctx.Err() != nil
	r.Duration = time.Since(started)
	return r, nil
}

// await waits for the end of a program and brings it about when it is time.
func await(ctx context.Context, p *spawn.Process, l Limits) (Ending, []spawn.Survivor) {
	timer := time.NewTimer(l.Timeout)
	defer timer.Stop()
	end := Exited
	select {
	case <-p.Exited():
		return Exited, nil
	case <-timer.C:
		end = TimedOut
	case <-ctx.Done():
		end = endingOf(ctx)
	}
	select {
	case <-p.Exited(): // in the same moment: its own end is the better answer
		return Exited, nil
	default:
		return end, p.Terminate(l.Grace)
	}
}

// endingOf tells a call that was canceled from one whose deadline passed.
func endingOf(ctx context.Context) Ending {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimedOut
	}
	return Canceled
}

// Err is the error of a program that did not end by itself: timeout or canceled, a *protocol.Error. An exit
// status is none.
func (r *Run) Err() error { return endError(r.End, r.late, r.limits.Timeout) }

func endError(end Ending, late bool, limit time.Duration) error {
	switch {
	case end == TimedOut && late:
		return protocol.Errorf(protocol.CodeTimeout, "the deadline of the call passed and the program was ended").WithRetryable(false)
	case end == TimedOut:
		return protocol.Errorf(protocol.CodeTimeout, "the program did not end within %v and was ended", limit).WithRetryable(false)
	case end == Canceled:
		return protocol.Errorf(protocol.CodeCanceled, "the program was canceled")
	}
	return nil
}

// StartError says in the protocol's words why a program did not start.
func StartError(err error) error {
	var start *spawn.StartError
	switch {
	case errors.Is(err, spawn.ErrClosed):
		return protocol.Errorf(protocol.CodeSessionNotActive, "the session is ending")
	case errors.As(err, &start) && start.DirMissing:
		return protocol.Errorf(protocol.CodeNotFound, "the working directory %s is gone: %v", capabilities.QuoteName(start.Dir), start.Err)
	}
	return protocol.Errorf(protocol.CodeResourceUnavailable, "%v", err).WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
}
