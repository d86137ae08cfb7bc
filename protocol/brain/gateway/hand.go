package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

var (
	errAway  = errors.New("the executor is not connected")
	errSlow  = errors.New("the executor has not begun a session in time")
	errFull  = errors.New("the executor has as many sessions as it takes; end one, or start it with a larger --max-sessions")
	errTwice = errors.New("another tool has that name")
)

// hand is a client's place on one executor: its session there, which is assigned when it
// is first needed, and anew when the executor has lost it.
type hand struct {
	c     *client
	x     *brain.Executor
	slots chan struct{} // one for each call that may run

	mu       sync.Mutex
	session  *brain.Session
	passages []*passage  // the servers of the session
	next     *assignment // under way
}

type assignment struct {
	done    chan struct{}
	session *brain.Session // set before done is closed
	err     error
}

// get returns the session, and waits for it.
func (h *hand) get(ctx context.Context) (*brain.Session, error) {
	h.mu.Lock()
	if s := h.session; s != nil && s.Err() == nil {
		h.mu.Unlock()
		return s, nil
	}
	a := h.next
	if a == nil {
		a = &assignment{done: make(chan struct{})}
		if !h.c.goes(func() { h.assign(a) }) {
			h.mu.Unlock()
			return nil, ErrClosed
		}
		h.next = a
	}
	h.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// assign is not bound to the call that needs it first: others wait too.
func (h *hand) assign(a *assignment) {
	limit, end := context.WithTimeoutCause(h.c.ctx, assignLimit, errSlow)
	defer end()
	ctx, cancel := whileThere(limit, h.x, h.c.g.opts.Grace)
	defer cancel()
	assign := func(wait time.Duration) (*brain.Session, error) {
		return h.x.AssignIfRoom(ctx, protocol.SessionAssignParams{Metadata: h.c.metadata()}, wait)
	}
	s, err := assign(time.Millisecond)
	for errors.Is(err, protocol.ErrExecutorBusy) && h.c.g.makesRoom() {
		s, err = assign(time.Millisecond)
	}
	if errors.Is(err, protocol.ErrExecutorBusy) {
		s, err = assign(fullWait)
	}
	if errors.Is(err, protocol.ErrExecutorBusy) {
		err = fmt.Errorf("%w (%s: %w)", errFull, cmp.Or(h.x.Info().Name, h.x.ID()), err)
	}
	if err != nil {
		err = reason(ctx, err)
	}
	if err != nil {
		err = fmt.Errorf("assign session: %w", err)
	}
	if err == nil {
		h.pass(s)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next = nil; err == nil {
		h.session = s
		h.c.g.log.Info("client has a session", zap.String("client", h.c.id), zap.String("session", s.ID()), zap.String("executor", h.x.ID()))
	}
	a.session, a.err = s, err
	close(a.done)
}

// lose forgets a session that the executor does not have any more.
func (h *hand) lose(s *brain.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == s {
		h.session = nil
	}
}

// start begins a call. One that was refused because the executor has lost the session
// gets a new one; one that may have run there does not begin again.
func (h *hand) start(ctx context.Context, tool string, input []byte, follow func(protocol.ToolProgressParams)) (c *brain.PendingCall, stop func(), err error) {
	ctx, cancel := whileThere(ctx, h.x, h.c.g.opts.Grace)
	defer cancel()
	for try := 1; ; try++ {
		s, err := h.get(ctx)
		if err != nil {
			return nil, nil, reason(ctx, err)
		}
		stop = func() {}
		id := uuid.NewString()
		if follow != nil {
			stop = s.Follow(id, follow)
		}
		c, err = s.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: tool, Input: input})
		if err == nil {
			return c, stop, nil
		}
		stop()
		var refused *protocol.Error
		if c != nil || try == 3 || !errors.As(err, &refused) || !errors.Is(err, protocol.ErrSessionNotActive) || refused.Reason() == protocol.ReasonOutcomeUnknown {
			return nil, nil, reason(ctx, err)
		}
		h.lose(s)
	}
}

// reason prefers why a context has ended to that it has.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
		return cause
	}
	return err
}

// do is a call whose result is for the gateway itself.
func (h *hand) do(ctx context.Context, tool string, input []byte) (protocol.ToolResultParams, error) {
	return h.call(ctx, tool, input, nil)
}

// call runs one call to its end. When ctx ends it is cancelled on the executor.
func (h *hand) call(ctx context.Context, tool string, input []byte, follow func(protocol.ToolProgressParams)) (protocol.ToolResultParams, error) {
	var none protocol.ToolResultParams
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	c, stop, err := h.start(ctx, tool, input, follow)
	if err != nil {
		return none, err
	}
	defer stop()
	waiting, cancel := whileThere(ctx, h.x, h.c.g.opts.Patience)
	defer cancel()
	r, err := c.Result(waiting)
	if err != nil && waiting.Err() != nil {
		h.c.goes(func() {
			limit, cancel := context.WithTimeout(h.c.ctx, cancelLimit)
			defer cancel()
			_, _ = c.Cancel(limit, "cancelled by the client")
		})
		err = reason(waiting, err)
	}
	return r, err
}

// end stops the session, over reconnects of the executor, until ctx is done.
func (h *hand) end(ctx context.Context) {
	h.mu.Lock()
	s := h.session
	h.mu.Unlock()
	if s == nil {
		return
	}
	if err := s.Stop(ctx, "the client has gone"); err != nil {
		h.c.g.log.Info("session of a client was not stopped", zap.String("session", s.ID()), zap.Error(err))
	}
}

// whileThere is a context that also ends, with errAway, when the executor has been away
// for the limit.
func whileThere(ctx context.Context, x *brain.Executor, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex // timer is set before it is looked at
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(limit, func() {
		mu.Lock()
		defer mu.Unlock()
		left := limit
		if !x.Connected() {
			left -= time.Since(x.LastSeen())
		}
		switch {
		case ctx.Err() != nil:
		case left <= 0:
			cancel(errAway)
		default:
			timer.Reset(left)
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
