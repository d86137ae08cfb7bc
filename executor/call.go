package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/internal/outbox"
	"github.com/agent-executor/executor/protocol"
)

// callGrace is how long a tool may take to come back after its context has ended.
// Then its call gets a result without it.
const callGrace = 15 * time.Second

// call is one run of a tool, from its acceptance to its recorded result. Its context
// comes from its session, never from a connection.
type call struct {
	s       *session
	params  protocol.ToolCallParams
	caps    *capabilities.Call
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	once    sync.Once
	done    chan struct{}  // closed when the result is recorded
	spilled string         // where the whole text of a long result is
	ended   func(gate.End) // of the verdict; nil: nobody wants to know
	refused atomic.Bool    // it has waited, and is not run
}

// toolCall answers tool.call at once (spec section 6): what can be refused is
// refused, then the call is recorded, then answered, then it runs.
func (e *Executor) toolCall(ctx context.Context, p protocol.ToolCallParams) (protocol.AcceptedResult, func(), error) {
	if err := e.awaitGate(ctx); err != nil {
		return protocol.AcceptedResult{}, nil, err
	}
	start, err := e.accept(p)
	return protocol.AcceptedResult{Accepted: err == nil}, start, err
}

// accept records a call and returns what starts it; nil when it was recorded before.
func (e *Executor) accept(p protocol.ToolCallParams) (start func(), err error) {
	// A repeat is asked of the outbox, not of the session: its result may be owed
	// after the session's end.
	if state, err := e.box.Lookup(p); err != nil || state != outbox.Fresh {
		e.deliverNow() // it may be owed again
		return nil, err
	}
	s, err := e.lookup(p.SessionID)
	if err != nil {
		return nil, err
	}
	if !e.lease.valid() {
		return nil, errLeaseExpired()
	}
	tool, ok := e.registry.Tool(p.Tool)
	if !ok {
		return nil, e.unknownTool(p.Tool)
	}
	handler, effect, err := tool.PrepareEffect(p.Input)
	if err != nil {
		return nil, err
	}
	if e.opts.Wrap != nil {
		handler = e.opts.Wrap(handler)
	}
	verdict := e.decideCall(s, p, effect)
	if verdict.Refuse != nil {
		return nil, verdict.Refuse
	}
	c := &call{s: s, params: p, started: time.Now(), done: make(chan struct{}), ended: verdict.Ended}
	c.caps = capabilities.NewCall(capabilities.CallConfig{Session: s.caps, ID: p.ToolCallID, Tool: tool, Input: p.Input})
	if err := e.begin(c); err != nil {
		c.notStarted(err)
		return nil, err
	}
	state, err := e.box.Accept(p, tool.Info().Annotations.ReadOnly)
	if err != nil || state != outbox.Fresh {
		e.finished(c)
		c.notStarted(err)
		return nil, err
	}
	if verdict.Wait != nil {
		handler = c.waits(verdict.Wait, handler)
	}
	return func() { go c.run(handler) }, nil
}

// begin counts the call, unless the session or the executor takes no more. What ends
// a session or drains the executor waits for those that were counted.
func (e *Executor) begin(c *call) error {
	e.mu.Lock()
	if e.draining {
		e.mu.Unlock()
		return errDraining()
	}
	e.running++
	e.mu.Unlock()
	s := c.s
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	if s.phase != phaseActive {
		s.mu.Unlock()
		c.cancel(nil)
		e.countCalls(-1)
		return protocol.Errorf(protocol.CodeSessionNotActive, "session_id: %q has ended", clip(c.params.SessionID))
	}
	s.calls.Add(1)
	s.running[c.params.ToolCallID] = c
	s.mu.Unlock()
	s.report.busy(1)
	return nil
}

// finished takes back what begin counted.
func (e *Executor) finished(c *call) {
	s := c.s
	s.mu.Lock()
	if s.running[c.params.ToolCallID] == c {
		delete(s.running, c.params.ToolCallID)
	}
	s.mu.Unlock()
	close(c.done)
	c.cancel(nil)
	s.report.busy(-1)
	s.calls.Done()
	e.countCalls(-1)
}

// run calls the handler and records its result. A handler that does not come back
// when its context has ended is given up after callGrace.
func (c *call) run(handler capabilities.ToolHandler) {
	ctx := c.ctx
	if d := c.params.DeadlineMS; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, protocol.Millis(d), errCallDeadline)
		defer cancel()
	}
	watchdog := &watchdog{}
	stop := context.AfterFunc(ctx, func() {
		watchdog.start(func() {
			c.s.log.Error("tool did not stop", zap.String("tool", c.params.Tool), zap.String("call", c.params.ToolCallID))
			c.finish(ctx, protocol.ToolOutput{}, errNotStopped(ctx))
		})
	})
	// Also when the handler ends its goroutine.
	out, err := protocol.ToolOutput{}, errors.New("the tool ended without a result")
	defer func() {
		if !stop() {
			watchdog.stop()
		}
		c.finish(ctx, out, err)
	}()
	out, err = c.guard(ctx, handler)
}

// watchdog is a timer that may be stopped before it was started.
type watchdog struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (w *watchdog) start(bite func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer = time.AfterFunc(callGrace, bite)
	}
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// guard calls the handler and turns a panic into an error.
func (c *call) guard(ctx context.Context, handler capabilities.ToolHandler) (out protocol.ToolOutput, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.log.Error("tool panicked", zap.String("tool", c.params.Tool), zap.String("call", c.params.ToolCallID),
				zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			err = protocol.Errorf(protocol.CodeInternalError, "the tool %s failed unexpectedly: %v", c.params.Tool, p)
		}
	}()
	return handler(ctx, c.caps)
}

// finish records the result, once.
func (c *call) finish(ctx context.Context, out protocol.ToolOutput, err error) {
	c.once.Do(func() {
		r := c.result(ctx, out, err)
		if why := c.s.e.whyDegraded(); why != nil {
			r.Content = append(r.Content, protocol.Content{Type: protocol.ContentText, Text: fmt.Sprintf("(%s: %v)", degraded, why)})
		}
		if err := c.caps.Close(); err != nil {
			c.s.log.Warn("spill file was not written", zap.String("call", c.params.ToolCallID), zap.Error(err))
		}
		c.tellEnd(r)
		if err := c.s.e.box.Put(r); err != nil {
			c.s.log.Error("result was not recorded", zap.String("call", c.params.ToolCallID), zap.Error(err))
		}
		if c.refused.Load() {
			c.s.e.box.ForgetWaiting(c.params.SessionID, c.params.ToolCallID)
		}
		c.s.e.deliverNow()
		if ce := c.s.log.Check(zap.DebugLevel, "call ended"); ce != nil {
			ce.Write(zap.String("tool", c.params.Tool), zap.String("call", c.params.ToolCallID),
				zap.String("outcome", r.Outcome), zap.Int64("duration_ms", r.DurationMS))
		}
		c.tellEnded(r)
		c.s.e.finished(c)
	})
}

// degraded is said in every result, and in the log, while the state directory cannot be
// written (spec section 14.12).
const degraded = "the executor's state directory cannot be written, so what it does now would be lost if it ended"

func (e *Executor) whyDegraded() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.degraded()
}

// toolCancel cancels a call and answers when it has ended, so that what it held is
// free again. A call that has ended, or is not known, has nothing to cancel.
func (e *Executor) toolCancel(ctx context.Context, p protocol.ToolCancelParams) (protocol.ToolCancelResult, error) {
	s, err := e.lookup(p.SessionID)
	if err != nil {
		return protocol.ToolCancelResult{}, err
	}
	s.mu.Lock()
	c := s.running[p.ToolCallID]
	s.mu.Unlock()
	if c == nil {
		return protocol.ToolCancelResult{}, nil
	}
	c.cancel(errCallCanceled)
	select {
	case <-c.done:
		return protocol.ToolCancelResult{Canceled: true}, nil
	case <-ctx.Done():
		return protocol.ToolCancelResult{}, ctx.Err()
	}
}

// countCalls changes the number of running calls.
func (e *Executor) countCalls(change int) { e.count(&e.running, change) }

func (e *Executor) count(what *int, change int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*what += change
	if e.running+e.working == 0 && e.quiet != nil {
		close(e.quiet)
		e.quiet = nil
	}
}

func (e *Executor) unknownTool(name string) *protocol.Error {
	err := protocol.Errorf(protocol.CodeNotFound, "tool: %q is not a tool of this executor", clip(name))
	if near := capabilities.Nearest(name, e.registry.ToolNames()); near != "" {
		err.Message += fmt.Sprintf("; did you mean %q?", near)
	}
	return err
}

func errLeaseExpired() *protocol.Error {
	return protocol.Errorf(protocol.CodeLeaseExpired, "the executor's lease ran out; it registers again before it takes new work")
}

func errNotStopped(ctx context.Context) error {
	cause := causeOf(ctx)
	return cause.WithDetail("the tool did not stop in time and may still be at work")
}

// outcome says how a call ended, and with which error.
func outcome(ctx context.Context, err error) (string, *protocol.Error) {
	if err == nil {
		return protocol.OutcomeSucceeded, nil
	}
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
	case ctx.Err() == nil:
		// The text of a tool's own error is for the model to read.
		e = protocol.Errorf(protocol.CodeInternalError, "%v", err)
	case errors.Is(err, ctx.Err()):
		e = causeOf(ctx)
	default: // most likely a consequence: "signal: killed"
		e = causeOf(ctx).WithDetail(err.Error())
	}
	if e.Code == protocol.CodeCanceled {
		// The handler says that it was canceled; why is known here.
		if cause := causeOf(ctx); ctx.Err() != nil {
			e = cause
		}
	}
	if e.Code == protocol.CodeCanceled {
		return protocol.OutcomeCanceled, e
	}
	return protocol.OutcomeFailed, e
}
