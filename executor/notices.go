package executor

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// maxUnproven bounds the notices that were sent and may have been lost, and maxWaiting
// those that were not sent; the oldest go.
const (
	maxUnproven = 4096
	maxWaiting  = 16 << 10
)

// notices are notifications that are sent at least once (capabilities.Tell): over each
// connection again, until a heartbeat that was sent behind them on the same connection
// was answered, which says that the brain has read them.
type notices struct {
	mu       sync.Mutex
	waiting  []*notice   // not sent over the current connection, oldest first
	unproven []*notice   // sent over it
	on       *connection // the current one
	sent     uint64      // how many were sent so far
	more     chan struct{}
}

type notice struct {
	session string
	spec    protocol.Spec
	params  any
	number  uint64 // among those sent; the highest while it is not
}

func (q *notices) init() { q.more = make(chan struct{}, 1) }

// tellOf is capabilities.SessionConfig.Tell of a session.
func (e *Executor) tellOf(session string) func(protocol.Spec, any) {
	return func(spec protocol.Spec, params any) {
		if !e.notices.put(&notice{session: session, spec: spec, params: params}) {
			e.dropped.Add(1)
		}
	}
}

// put adds one; false when the oldest had to go for it.
func (q *notices) put(x *notice) (room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, x)
	if room = len(q.waiting) <= maxWaiting; !room {
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
	q.wake()
	return room
}

func (q *notices) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// begin says that there is another connection, over which all have to be sent again.
func (q *notices) begin(c *connection) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.on = c
	q.waiting = append(q.unproven, q.waiting...)
	q.unproven = nil
	q.wake()
}

// take takes the next one to be sent over c, of a session or, when it is empty, of all.
// When it is on its way, went is to be called.
func (q *notices) take(c *connection, session string) *notice {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.on != c {
		return nil
	}
	i := slices.IndexFunc(q.waiting, func(x *notice) bool { return session == "" || x.session == session })
	if i < 0 {
		return nil
	}
	x := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	x.number = math.MaxUint64
	q.unproven = append(q.unproven, x)
	if len(q.unproven) > maxUnproven {
		q.unproven = slices.Delete(q.unproven, 0, 1)
	}
	return x
}

// went says that nothing sent from now on comes before the notice.
func (q *notices) went(x *notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	x.number = q.sent
}

// mark is what to give to read when a request that is sent now was answered.
func (q *notices) mark() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent
}

// read says that the brain has read what was sent over c up to the mark.
func (q *notices) read(c *connection, mark uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.on == c {
		q.unproven = slices.DeleteFunc(q.unproven, func(x *notice) bool { return x.number <= mark })
	}
}

// forget drops those of a session whose end the brain knows.
func (q *notices) forget(session string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := func(x *notice) bool { return x.session == session }
	q.waiting = slices.DeleteFunc(q.waiting, of)
	q.unproven = slices.DeleteFunc(q.unproven, of)
}

// tell sends notices, after results and ends of sessions that were owed when the
// connection was made (spec section 3).
func (c *connection) tell(ctx context.Context) error {
	select {
	case <-c.announced:
	case <-ctx.Done():
		return nil
	}
	for {
		if !c.sendNotices(ctx, "") {
			return nil
		}
		select {
		case <-c.e.notices.more:
		case <-ctx.Done():
			return nil
		}
	}
}

// sendNotices sends those that wait, of one session or of all; false when the
// connection is over.
func (c *connection) sendNotices(ctx context.Context, session string) bool {
	select {
	case c.telling <- struct{}{}:
		defer func() { <-c.telling }()
	case <-ctx.Done():
		return false
	}
	for {
		if !c.owns() {
			return false
		}
		x := c.e.notices.take(c, session)
		if x == nil {
			return ctx.Err() == nil
		}
		if c.rpc.NotifyRaw(ctx, x.spec, x.params) != nil && c.rpc.Err() == nil && ctx.Err() == nil {
			c.e.dropped.Add(1) // it can never be sent: it is larger than the brain takes
		}
		c.e.notices.went(x)
	}
}
