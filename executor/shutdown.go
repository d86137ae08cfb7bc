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
// waited for until ctx is done or the drain timeout has passed, then cancelled; their
// results are delivered; Run returns nil. Drain itself returns at once.
func (e *Executor) Drain(ctx context.Context) error {
	limit := e.opts.DrainTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	e.beginDrain("shutdown", limit)
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
		e.beginDrain(p.Reason, time.Duration(p.DeadlineMS)*time.Millisecond)
	}, nil
}

func (e *Executor) beginDrain(reason string, limit time.Duration) {
	if limit <= 0 {
		limit = e.opts.DrainTimeout
	}
	e.mu.Lock()
	already := e.draining
	if until := time.Now().Add(limit); !already || until.Before(e.drainUntil) {
		e.drainUntil = until
	}
	e.draining = true
	if !already {
		e.drainReason = reason
	}
	e.mu.Unlock()
	if already {
		return
	}
	e.log.Info("draining", zap.String("reason", reason), zap.Duration("at_most", limit))
	e.setState(StateDraining, nil)
	select {
	case e.leave <- struct{}{}:
	default:
	}
}

func (e *Executor) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// awaitQuiet waits for running calls: until none is left, until the drain's
// deadline, or until ctx is done. An idle session delays nothing.
func (e *Executor) awaitQuiet(ctx context.Context) {
	e.mu.Lock()
	if e.running == 0 {
		e.mu.Unlock()
		return
	}
	if e.quiet == nil {
		e.quiet = make(chan struct{})
	}
	quiet, until := e.quiet, e.drainUntil
	e.mu.Unlock()
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-quiet:
	case <-t.C:
		e.log.Warn("drain deadline passed, cancelling what still runs")
	case <-ctx.Done():
	}
}

// endSessions takes no more work and ends all sessions, each with its calls.
func (e *Executor) endSessions(cause *protocol.Error) {
	e.mu.Lock()
	e.draining = true
	all := make([]*session, 0, len(e.sessions))
	for _, s := range e.sessions {
		all = append(all, s)
	}
	e.mu.Unlock()
	var ends sync.WaitGroup
	for _, s := range all {
		ends.Go(func() { s.end(cause, "executor shutdown") })
	}
	ends.Wait()
}

// sayGoodbye delivers what is owed, for a few seconds, and says executor.close.
func (e *Executor) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	e.mu.Lock()
	c, reason := e.conn, e.drainReason
	e.mu.Unlock()
	if c == nil {
		return // nothing to wait for: it stays in the journal
	}
	go func() { // the connection may be lost while we wait
		select {
		case <-c.rpc.Context().Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := e.box.Drained(ctx); err != nil {
		e.log.Warn("results stay undelivered", zap.Int("results", e.box.Owed()))
	}
	e.ended.drained(ctx)
	if reason == "" {
		reason = "shutdown"
	}
	_ = c.rpc.NotifyRaw(ctx, protocol.ExecutorClose.Spec, protocol.CloseParams{Reason: reason}) // best effort: it goes anyway
}
