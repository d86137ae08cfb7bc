package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// endedQueue holds the ends of sessions that the brain has not acknowledged, oldest
// first.
type endedQueue struct {
	mu    sync.Mutex
	items []protocol.SessionEndedParams
	more  chan struct{}
}

func (q *endedQueue) init() { q.more = make(chan struct{}) }

func (q *endedQueue) push(p protocol.SessionEndedParams) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, p)
	close(q.more)
	q.more = make(chan struct{})
}

func (q *endedQueue) next(ctx context.Context) (protocol.SessionEndedParams, error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			p := q.items[0]
			q.mu.Unlock()
			return p, nil
		}
		more := q.more
		q.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return protocol.SessionEndedParams{}, ctx.Err()
		}
	}
}

func (q *endedQueue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = q.items[1:]
	close(q.more)
	q.more = make(chan struct{})
}

// drained waits until nothing is left.
func (q *endedQueue) drained(ctx context.Context) {
	for {
		q.mu.Lock()
		n, more := len(q.items), q.more
		q.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// announce sends session.ended until the brain has acknowledged it, after every
// result of that session, and after the results that were owed when the connection
// was made.
func (c *connection) announce(ctx context.Context) error {
	select {
	case <-c.replayed:
	case <-ctx.Done():
		return nil
	}
	retry := newResultRetry()
	for {
		p, err := c.e.ended.next(ctx)
		if err != nil {
			return nil
		}
		if err := c.e.box.Settled(ctx, p.SessionID); err != nil {
			return nil
		}
		if !c.owns() {
			return nil
		}
		err = c.sayEnded(ctx, p)
		var refused *protocol.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Data.Retryable:
			select {
			case <-time.After(retry.NextBackOff()):
			case <-ctx.Done():
				return nil
			}
			continue
		case errors.As(err, &refused):
			c.log.Warn("end of session was refused", zap.String("session", p.SessionID), zap.Error(err))
		case err != nil:
			return fmt.Errorf("session.ended: %w", err)
		}
		retry.Reset()
		c.e.ended.pop()
	}
}

func (c *connection) sayEnded(ctx context.Context, p protocol.SessionEndedParams) error {
	ctx, cancel := c.timeout(ctx)
	defer cancel()
	answer, err := rpc.Call(ctx, c.rpc, protocol.SessionEnded, p)
	if err == nil && !answer.Accepted {
		err = errNotAccepted(protocol.SessionEnded.Name)
	}
	return err
}
