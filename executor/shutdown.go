package executor

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// goodbyeTimeout bounds how long Run waits for what is owed to be delivered, once
// everything else has ended.
const goodbyeTimeout = 5 * time.Second

// Drain asks Run to leave: no new sessions and calls are taken, those that run are
// waited for until ctx is done or, when it has no deadline, the drain timeout has
// passed, then cancelled; their results are delivered; Run returns nil. Drain itself
// returns at once.
func (e *Executor) Drain(ctx context.Context) error {
	var limit time.Duration // the drain timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(time.Until(deadline), time.Nanosecond)
	}
	e.beginDrain("shutdown", limit)
	context.AfterFunc(ctx, func() { e.beginDrain("shutdown", time.Nanosecond) })
	return nil
}

// drainRequest is executor.drain: the same, asked for by the brain, which gets its
// answer first.
func (e *Executor) drainRequest(ctx context.Context, p protocol.DrainParams) (protocol.DrainResult, func(), error) {
	if err := e.awaitGate(ctx); err != nil {
		return protocol.DrainResult{}, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return protocol.DrainResult{Accepted: true, ActiveSessions: e.activeSessions()}, func() {
		e.beginDrain(p.Reason, protocol.Millis(p.DeadlineMS))
	}, nil
}

func (e *Executor) beginDrain(reason string, limit time.Duration) {
	e.mu.Lock()
	if limit <= 0 {
		limit = e.opts.DrainTimeout
	}
	already := e.draining
	if until := time.Now().Add(limit); !already || until.Before(e.drainUntil) {
		e.drainUntil = until
	}
	e.draining = true
	if !already {
		e.drainReason = reason
		e.depart(errLeaving)
	}
	e.mu.Unlock()
	if !already {
		e.log.Info("draining", zap.String("reason", clip(reason)), zap.Duration("at_most", limit))
		e.setState(StateDraining, nil)
	}
	select {
	case e.leave <- struct{}{}: // also when it is only the deadline that has changed
	default:
	}
}

func (e *Executor) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// awaitQuiet waits for running calls and processes: until none is left, until the drain's
// deadline, or until ctx is done. An idle session delays nothing.
func (e *Executor) awaitQuiet(ctx context.Context) {
	for {
		e.mu.Lock()
		if e.running+e.working == 0 {
			e.mu.Unlock()
			return
		}
		if e.quiet == nil {
			e.quiet = make(chan struct{})
		}
		quiet, until := e.quiet, e.drainUntil
		e.mu.Unlock()
		select {
		case <-quiet:
			return
		case <-e.leave: // sooner than before
		case <-time.After(time.Until(until)):
			e.log.Warn("drain deadline passed, cancelling what still runs")
			return
		case <-ctx.Done():
			return
		}
	}
}

// endSessions takes no more work and ends all sessions, each with its calls.
func (e *Executor) endSessions(cause *protocol.Error) {
	e.mu.Lock()
	e.draining = true
	e.depart(errLeaving)
	all := make([]*session, 0, len(e.sessions))
	for _, s := range e.sessions {
		all = append(all, s)
	}
	e.mu.Unlock()
	var ends sync.WaitGroup
	for _, s := range all {
		ends.Go(func() { s.end(cause, endedDrained) })
	}
	ends.Wait()
}

// sayGoodbye delivers what is owed, for a few seconds, also over a new connection when
// the one there is gets lost, and says executor.close.
func (e *Executor) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	if err := e.box.Drained(ctx); err != nil {
		e.log.Warn("results stay undelivered", zap.Int("results", e.box.Owed()))
	}
	e.mu.Lock()
	connected, reason := e.conn != nil, e.drainReason
	e.mu.Unlock()
	if connected { // the ends of sessions alone are not worth waiting for a brain that is away
		e.ended.drained(ctx)
	}
	if reason == "" {
		reason = "shutdown"
	}
	e.notify(protocol.ExecutorClose.Spec, protocol.CloseParams{Reason: reason})
}
