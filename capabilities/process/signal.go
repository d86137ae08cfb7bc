package process

import (
	"context"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// interrupt answers process.interrupt, at once.
func (c *Processes) interrupt(ctx context.Context, s *capabilities.Session, p protocol.ProcessSignalParams) (protocol.ProcessState, error) {
	t, ch, err := find(ctx, s, p.ProcessID)
	if err != nil {
		return protocol.ProcessState{}, err
	}
	if !ch.hasEnded() {
		ch.interrupted()
		ch.p.Interrupt()
		if p.GraceMS != nil {
			t.endLater(ch, protocol.Millis(*p.GraceMS))
		}
	}
	return ch.snapshot(), nil
}

// terminate answers process.terminate, when the tree is gone. What an ended process left running is
// ended too.
func (c *Processes) terminate(ctx context.Context, s *capabilities.Session, p protocol.ProcessSignalParams) (protocol.ProcessState, error) {
	t, ch, err := find(ctx, s, p.ProcessID)
	if err != nil {
		return protocol.ProcessState{}, err
	}
	grace := c.options.Grace
	if p.GraceMS != nil {
		grace = min(protocol.Millis(*p.GraceMS), maxGrace)
	}
	if !ch.hasEnded() || ch.leftSomething() {
		t.end(ch, reasonTerminated, grace)
		for _, done := range []<-chan struct{}{ch.gone, ch.ended} {
			select {
			case <-done:
			case <-ctx.Done():
				return protocol.ProcessState{}, givenUp(ctx, s)
			}
		}
	}
	return ch.snapshot(), nil
}

// maxGrace keeps the time of an end from overflowing.
const maxGrace = 365 * 24 * time.Hour

// leftSomething says whether descendants of an ended process may be alive.
func (ch *child) leftSomething() bool {
	if ch.former { // the start of this executor has ended it
		return false
	}
	select {
	case <-ch.p.Done():
		return len(ch.p.Wait().Background) > 0
	default: // its output is held up
		return true
	}
}

// resize answers process.resize.
func (c *Processes) resize(ctx context.Context, s *capabilities.Session, p protocol.ProcessResizeParams) (protocol.AcceptedResult, error) {
	_, ch, err := find(ctx, s, p.ProcessID)
	switch {
	case err != nil:
		return protocol.AcceptedResult{}, err
	case ch.former:
		return protocol.AcceptedResult{}, errEnded
	case ch.terminal == nil:
		return protocol.AcceptedResult{}, protocol.Errorf(protocol.CodeConflict, "the process has no PTY: it was started with io_mode pipes")
	case ch.hasEnded():
		return protocol.AcceptedResult{}, errEnded
	}
	if err := ch.terminal.resize(p.Cols, p.Rows); err != nil {
		return protocol.AcceptedResult{}, errEnded // in the same moment
	}
	return protocol.AcceptedResult{Accepted: true}, nil
}

var errEnded = protocol.Errorf(protocol.CodeConflict, "the process has ended")
