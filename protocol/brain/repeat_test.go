package brain

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// forgets makes the hand forget its calls, as one does that loses its power before they
// were written down.
func (h *hand) forgets() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs, h.results, h.owed = map[string]int{}, map[string]protocol.ToolResultParams{}, nil
}

// A call that was accepted and that the executor has lost is asked for again.
func TestLostCallIsAskedForAgain(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		var began atomic.Int32
		h, s := b.session(func(h *hand) {
			h.run = func(ctx context.Context, p protocol.ToolCallParams) protocol.ToolResultParams {
				if began.Add(1) == 1 {
					time.Sleep(time.Minute) // and is forgotten
				}
				return echo(p)
			}
		})
		for _, start := range []func() (protocol.ToolResultParams, error){
			func() (protocol.ToolResultParams, error) { return s.Call(b.ctx, "read", "first") }, // not active yet: Start
			func() (protocol.ToolResultParams, error) { return s.Call(b.ctx, "read", "first") },
		} {
			began.Store(0)
			done := make(chan error, 1)
			go func() {
				r, err := start()
				if err == nil && text(r) != `"first"` {
					err = fmt.Errorf("got %q", text(r))
				}
				done <- err
			}()
			synctest.Wait()
			require.EqualValues(t, 1, began.Load())
			before := time.Now()
			h.forgets()
			b.net.Cut()
			require.NoError(t, <-done)
			require.EqualValues(t, 2, began.Load())
			require.Less(t, time.Since(before), time.Second)
			time.Sleep(2 * time.Minute)
		}
	})
}

// A call whose session the executor has lost ends with that error, and does not wait
// for the heartbeats to tell.
func TestLostSessionEndsItsCalls(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		h.forgets()
		locked(h, func() any { h.active = nil; h.over[s.ID()] = true; return nil })
		b.net.Cut()
		began := time.Now()
		_, err = c.Result(b.ctx)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.GreaterOrEqual(t, time.Since(began), owedGrace)
		require.Less(t, time.Since(began), owedGrace+time.Second)
	})
}

// A result that comes although its call was refused wins.
func TestOwedResultWinsOverRefusal(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		locked(h, func() any { h.active = nil; h.over[s.ID()] = true; return nil })
		b.net.Cut()
		time.Sleep(owedGrace / 2)
		r := echo(c.params)
		r.Content[0].Text = "owed"
		h.owe(r)
		r, err = c.Result(b.ctx)
		require.NoError(t, err)
		require.Equal(t, "owed", text(r))
		time.Sleep(owedGrace)
	})
}

// Many calls are asked for a few at a time, once for each connection, and run once.
func TestManyCallsAreAskedForAgain(t *testing.T) {
	const calls = 200
	in(t, Options{}, func(t *testing.T, b *bench) {
		release := make(chan struct{})
		var now, most atomic.Int32
		var slow atomic.Bool
		h, s := b.session(func(h *hand) {
			h.run = func(_ context.Context, p protocol.ToolCallParams) protocol.ToolResultParams {
				<-release
				return echo(p)
			}
			h.asked = func() {
				if !slow.Load() {
					return
				}
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(10 * time.Millisecond)
				now.Add(-1)
			}
		})
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				r, err := s.Call(b.ctx, "wait", i)
				if err != nil || text(r) != fmt.Sprint(i) {
					t.Errorf("call %d: %q, %v", i, text(r), err)
				}
			})
			synctest.Wait()
		}
		slow.Store(true)
		for range 3 {
			b.net.Cut()
			time.Sleep(5 * time.Second)
		}
		close(release)
		all.Wait()
		require.LessOrEqual(t, most.Load(), int32(repeatAtOnce))
		require.Positive(t, most.Load())
		for id, n := range h.callCounts() {
			require.Equal(t, 4, n, id)
			require.Equal(t, 1, h.runCounts()[id], id)
		}
	})
}

// What is refused for now is asked for until it is answered; a connection that is lost
// meanwhile leaves that to the next one.
func TestRepeatRefusedForNow(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		var refusals atomic.Int32
		h, s := b.session(func(h *hand) { h.run = block })
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		synctest.Wait()
		h.forgets()
		locked(h, func() any {
			h.run = nil
			h.refuse = func(protocol.ToolCallParams) *protocol.Error {
				if n := refusals.Add(1); n < 10 {
					return protocol.ErrExecutorBusy
				}
				return nil
			}
			return nil
		})
		b.faults.Add(rpctest.Rule{Method: protocol.ToolCall.Name, Nth: 3, Answer: true, Do: rpctest.CutBefore})
		b.net.Cut()
		r, err := c.Result(b.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome)
		require.EqualValues(t, 10, refusals.Load())
	})
}

// Calls that nobody waits for any more are not asked for.
func TestGivenUpCallsAreNotRepeated(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err := s.Call(ctx, "sleep", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		before := h.callCounts()
		b.net.Cut()
		time.Sleep(time.Minute)
		require.Equal(t, before, h.callCounts())
	})
}
