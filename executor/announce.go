package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	items []*protocol.SessionEndedParams
	more  chan struct{}
}

// init begins with those owed from before a restart.
func (q *endedQueue) init(owed []protocol.SessionEndedParams) {
	q.more = make(chan struct{})
	for _, p := range owed {
		q.items = append(q.items, &p)
	}
}

func (q *endedQueue) list() []protocol.SessionEndedParams {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]protocol.SessionEndedParams, 0, len(q.items))
	for _, p := range q.items {
		list = append(list, *p)
	}
	return list
}

func (q *endedQueue) push(p protocol.SessionEndedParams) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, &p)
	close(q.more)
	q.more = make(chan struct{})
}

func (q *endedQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

func (q *endedQueue) next(ctx context.Context) (*protocol.SessionEndedParams, error) {
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
			return nil, ctx.Err()
		}
	}
}

// pop takes out what next returned.
func (q *endedQueue) pop(p *protocol.SessionEndedParams) {
	q.remove(func(item *protocol.SessionEndedParams) bool { return item == p })
}

// drop takes out the ends of a session that is assigned anew: said now, they would be
// taken for the end of the new assignment.
func (q *endedQueue) drop(sessionID string) {
	q.remove(func(item *protocol.SessionEndedParams) bool { return item.SessionID == sessionID })
}

func (q *endedQueue) remove(which func(*protocol.SessionEndedParams) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = slices.DeleteFunc(q.items, which)
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
	retry, said := newResultRetry(), sync.OnceFunc(func() { close(c.announced) })
	now, cancel := context.WithCancel(ctx) // without waiting
	cancel()
	for {
		if c.e.ended.empty() {
			said()
		}
		p, err := c.e.ended.next(ctx)
		if err != nil {
			return nil
		}
		if c.e.box.Settled(now, p.SessionID) != nil {
			said() // a result of it rests, for as long as the brain does not take it
		}
		if err := c.e.box.Settled(ctx, p.SessionID); err != nil {
			return nil
		}
		if !c.owns() || !c.sendNotices(ctx, p.SessionID) {
			return nil
		}
		err = c.sayEnded(ctx, *p)
		var refused *protocol.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Data.Retryable:
			said() // nothing else waits for it
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
		c.e.ended.pop(p)
		c.e.notices.forget(p.SessionID)
		c.e.state.change(false)
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
