package brain

import (
	"context"
	"errors"

	"github.com/agent-executor/executor/protocol"
)

// An executor learns its id from the answer to its first register. When that answer is
// lost with the connection, it comes back without one and is given another: nobody will
// ever answer under the first again. Whether the answer was lost shows in what comes
// next: nothing at all over that connection, and no resume under that id.

// heard says that the executor has said something that it only says after it has read
// the answer to register.
func (c *connection) heard() {
	if !c.confirmed.Load() {
		c.confirmed.Store(true)
	}
}

// answered is heard for an answer: also a refusal is one.
func (c *connection) answered(err error) {
	var refused *protocol.Error
	if err == nil || errors.As(err, &refused) {
		c.heard()
	}
}

// expire forgets an executor that was given its id on c, which has ended, unless it
// comes back within a request's time. Whoever waits for it gets ErrForgotten.
func (x *Executor) expire(c *connection) {
	if !c.named || c.confirmed.Load() {
		return
	}
	b := x.b
	b.behind(func(ctx context.Context) {
		<-ctx.Done()
		defer b.changes.tell()
		b.mu.Lock()
		defer b.mu.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		if b.closed || x.forgotten || x.newest != c {
			return
		}
		x.forgotten = true
		delete(b.executors, x.id)
		b.away--
		x.broadcast()
	})
}
