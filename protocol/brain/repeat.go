package brain

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// repeatAtOnce is how many calls are asked for again at once.
const repeatAtOnce = 8

// repeat asks again, over a new connection, for every call that was accepted and has no
// result, under the same id. An executor that knows the call has nothing to do. One that
// has lost it, with its power or since it keeps nothing, runs it or refuses it; without
// being asked it would leave whoever waits waiting for ever.
func (x *Executor) repeat(conn *connection) {
	calls := x.unfinished()
	if len(calls) == 0 || !x.b.enter() {
		return
	}
	go func() {
		defer x.b.work.Done()
		x.repeatCalls(conn, calls)
	}()
}

// unfinished are the calls that were accepted and have no result.
func (x *Executor) unfinished() (list []*PendingCall) {
	for _, s := range x.Sessions() {
		s.mu.Lock()
		for _, c := range s.calls {
			if c.accepted.Load() {
				list = append(list, c)
			}
		}
		s.mu.Unlock()
	}
	return list
}

// repeatCalls asks until each call was answered for or the connection is lost: then the
// next one asks. What was refused for good ends when results that are owed had their
// time.
func (x *Executor) repeatCalls(conn *connection, calls []*PendingCall) {
	refused := map[*PendingCall]error{}
	for delay := minRetry; ; delay = min(2*delay, maxRetry) {
		calls = askAgain(conn, calls, refused)
		if len(calls) == 0 {
			break
		}
		if !conn.pause(delay) {
			return
		}
	}
	if len(refused) == 0 || !conn.pause(owedGrace-time.Since(conn.published)) {
		return
	}
	for c, err := range refused {
		if c.s.give(c, err) {
			x.b.log.Warn("call is lost", zap.String("session", c.s.ID()), zap.String("call", c.ID()), zap.Error(err))
		}
	}
}

// askAgain asks once for each call that has no result by then, a few at a time. It
// returns those to be asked for once more, and adds those that were refused for good.
func askAgain(conn *connection, calls []*PendingCall, refused map[*PendingCall]error) (again []*PendingCall) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	slots := make(chan struct{}, repeatAtOnce)
	for _, c := range calls {
		slots <- struct{}{} // each is given back: a request ends with its connection
		asked.Go(func() {
			defer func() { <-slots }()
			select {
			case <-c.done:
				return
			default:
			}
			_, err := request(conn.rpc.Context(), conn, protocol.ToolCall, c.params)
			var e *protocol.Error
			if err == nil || !errors.As(err, &e) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if e.Data.Retryable {
				again = append(again, c)
			} else {
				refused[c] = e
			}
		})
	}
	asked.Wait()
	return again
}

// pause returns false when the connection has ended before.
func (c *connection) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.rpc.Context().Done():
		return false
	}
}

// take notes that the executor has accepted the call, on conn. One that has connected
// anew meanwhile was not asked for it.
func (c *PendingCall) take(conn *connection) {
	c.accepted.Store(true)
	if now := c.s.x.connected(); now != nil && now != conn {
		c.s.x.repeat(now)
	}
}
