package brain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

func TestCallAndStop(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		_, s := b.session(nil)
		r, err := s.Call(b.ctx, "echo", map[string]int{"n": 1})
		require.NoError(t, err)
		require.Equal(t, `{"n":1}`, text(r))
		require.NoError(t, s.Stop(b.ctx, "done"))
		require.Empty(t, s.Executor().Sessions())
		require.NoError(t, s.Stop(b.ctx, "again"))
		_, err = s.Call(b.ctx, "echo", nil)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.ErrorContains(t, err, "done")
	})
}

func TestCallsAtOnce(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		_, s := b.session(nil)
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				r, err := s.Call(b.ctx, "echo", i)
				if err != nil || text(r) != fmt.Sprint(i) {
					t.Errorf("call %d: %q, %v", i, text(r), err)
				}
			})
		}
		calls.Wait()
	})
}

// Whatever is lost with a connection, or twice on it, a call runs once and has its
// result once.
func TestCallOverFaults(t *testing.T) {
	call, result := protocol.ToolCall.Name, protocol.ToolResult.Name
	for name, rule := range map[string]rpctest.Rule{
		"cut before the call":          {Method: call, Do: rpctest.CutBefore},
		"cut behind the call":          {Method: call, Do: rpctest.CutAfter},
		"cut before its answer":        {Method: call, Answer: true, Do: rpctest.CutBefore},
		"cut behind its answer":        {Method: call, Answer: true, Do: rpctest.CutAfter},
		"the call twice":               {Method: call, Do: rpctest.Repeat},
		"the call lost":                {Method: call, Do: rpctest.Drop},
		"its answer lost":              {Method: call, Answer: true, Do: rpctest.Drop},
		"its answer late":              {Method: call, Answer: true, Do: rpctest.Delay(20 * time.Second)},
		"cut before the result":        {Method: result, Do: rpctest.CutBefore},
		"cut behind the result":        {Method: result, Do: rpctest.CutAfter},
		"cut before its acknowledging": {Method: result, Answer: true, Do: rpctest.CutBefore},
		"the result twice":             {Method: result, Do: rpctest.Repeat},
		"nothing goes out any more":    {Method: call, Answer: true, Do: rpctest.Stall},
		"nothing comes in any more":    {Method: call, Do: rpctest.Stall},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, Options{}, func(t *testing.T, b *bench) {
				h, s := b.session(nil)
				b.faults.Add(rule)
				r, err := s.Call(b.ctx, "echo", "one")
				require.NoError(t, err)
				require.Equal(t, `"one"`, text(r))
				r, err = s.Call(b.ctx, "echo", "two")
				require.NoError(t, err)
				require.Equal(t, `"two"`, text(r))
				time.Sleep(time.Minute) // what is owed is acknowledged
				require.Zero(t, h.owes())
				require.Len(t, h.runCounts(), 2)
				for id, n := range h.runCounts() {
					require.Equal(t, 1, n, id)
				}
			})
		})
	}
}

// A result that was stored and whose acknowledgement was lost is sent again,
// acknowledged, and not delivered again.
func TestResultTwice(t *testing.T) {
	puts := &countedResults{Results: NewMemoryResults(0)}
	in(t, Options{Results: puts}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		b.faults.Add(rpctest.Rule{Method: protocol.ToolResult.Name, Answer: true, Do: rpctest.CutBefore})
		_, err := s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Equal(t, []bool{true, false}, puts.fresh())
		require.Zero(t, h.owes())
	})
}

type countedResults struct {
	Results
	mu   sync.Mutex
	fail []any // an error, or what to panic with; one each
	seen []bool
}

func (c *countedResults) Put(ctx context.Context, r protocol.ToolResultParams) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fail) > 0 {
		f := c.fail[0]
		c.fail = c.fail[1:]
		if err, ok := f.(error); ok {
			return false, err
		}
		panic(f)
	}
	fresh, err := c.Results.Put(ctx, r)
	c.seen = append(c.seen, fresh)
	return fresh, err
}

func (c *countedResults) fresh() []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// A result that cannot be stored is not acknowledged, and comes again.
func TestResultNotStored(t *testing.T) {
	puts := &countedResults{Results: NewMemoryResults(0), fail: []any{errors.New("disk full"), "a bug"}}
	in(t, Options{Results: puts}, func(t *testing.T, b *bench) {
		_, s := b.session(nil)
		start := time.Now()
		r, err := s.Call(b.ctx, "echo", "kept")
		require.NoError(t, err)
		require.Equal(t, `"kept"`, text(r))
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		require.Equal(t, []bool{true}, puts.fresh())
	})
}

// A result nobody waits for is stored and acknowledged: owed results need no
// session.
func TestResultOfNobody(t *testing.T) {
	kept := NewMemoryResults(0)
	in(t, Options{Results: kept}, func(t *testing.T, b *bench) {
		h, _ := b.executor(nil)
		h.owe(protocol.ToolResultParams{SessionID: "old", ToolCallID: "c", Outcome: protocol.OutcomeSucceeded})
		time.Sleep(time.Second)
		require.Zero(t, h.owes())
		_, ok := kept.Get("old", "c")
		require.True(t, ok)
	})
}

func TestBusyIsTriedAgain(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		left := 3 // by the hand's lock
		h, s := b.session(func(h *hand) {
			h.refuse = func(protocol.ToolCallParams) *protocol.Error {
				if left--; left < 0 {
					return nil
				}
				return protocol.ErrExecutorBusy
			}
		})
		_, err := s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)

		locked(h, func() int { left = 1 << 30; return 0 })
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		_, err = s.Call(ctx, "echo", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, 1<<30-locked(h, func() int { return left }), 25) // it backs off
	})
}

func TestRefusal(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) {
			h.refuse = func(p protocol.ToolCallParams) *protocol.Error {
				return protocol.Errorf(protocol.CodeNotFound, "no tool %s", p.Tool)
			}
		})
		_, err := s.Call(b.ctx, "nothing", nil)
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "no tool nothing", e.Message)
		require.Len(t, h.callCounts(), 1)
		require.Empty(t, waiting(s))
		_, err = s.Call(b.ctx, "bad", func() {})
		require.ErrorContains(t, err, "input of bad")
		_, err = s.Call(b.ctx, "big", strings.Repeat("x", 1<<20))
		require.ErrorIs(t, err, protocol.ErrPayloadTooLarge)
	})
}

// A request that overtook the acknowledgement of session.ready is tried again.
func TestCallTooEarly(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		first := true
		_, s := b.session(func(h *hand) {
			h.refuse = func(protocol.ToolCallParams) *protocol.Error {
				if first {
					first = false
					return protocol.ErrSessionNotActive
				}
				return nil
			}
		})
		_, err := s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)
	})
}

func block(_ context.Context, p protocol.ToolCallParams) protocol.ToolResultParams {
	time.Sleep(time.Minute)
	return echo(p)
}

func TestCallGivenUp(t *testing.T) {
	kept := NewMemoryResults(0)
	in(t, Options{Results: kept}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		defer cancel()
		_, err := s.Call(ctx, "sleep", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Len(t, h.cancelled(), 1)
		require.Equal(t, 1, h.runCounts()[h.cancelled()[0]])
		time.Sleep(2 * time.Minute) // the result comes all the same, and is kept
		_, ok := kept.Get(s.ID(), h.cancelled()[0])
		require.True(t, ok)
		require.Empty(t, waiting(s))
	})
}

// A cancel never overtakes its call: before the call is answered, none is sent.
func TestCallGivenUpBeforeItsAnswer(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		b.faults.Add(rpctest.Rule{Method: protocol.ToolCall.Name, Do: rpctest.Delay(5 * time.Second)})
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err := s.Call(ctx, "sleep", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(3 * time.Second)
		require.Empty(t, h.callCounts())
		require.Empty(t, h.cancelled())
		time.Sleep(3 * time.Second)
		require.Len(t, h.cancelled(), 1)
		require.Equal(t, map[string]int{h.cancelled()[0]: 1}, h.runCounts())
	})
}

// While the executor is away nothing was sent, so nothing is cancelled.
func TestCallGivenUpWhileAway(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		b.net.Stall(true)
		time.Sleep(time.Minute)
		require.False(t, s.Executor().Connected())
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err := s.Call(ctx, "echo", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		b.net.Stall(false)
		time.Sleep(time.Minute)
		require.True(t, s.Executor().Connected())
		require.Empty(t, h.callCounts())
		require.Empty(t, h.cancelled())
	})
}

func TestPendingCall(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		p := protocol.ToolCallParams{ToolCallID: "mine", Tool: "sleep", Input: []byte(`{}`)}
		c, err := s.Start(b.ctx, p)
		require.NoError(t, err)
		require.Equal(t, "mine", c.ID())
		same, err := s.Start(b.ctx, p)
		require.NoError(t, err)
		require.Same(t, c, same)
		p.Input = []byte(`{"other":true}`)
		_, err = s.Start(b.ctx, p)
		require.ErrorIs(t, err, protocol.ErrConflict)

		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err = c.Result(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, h.cancelled())
		canceled, err := c.Cancel(b.ctx, "enough")
		require.NoError(t, err)
		require.True(t, canceled.Canceled)
		r, err := c.Result(b.ctx)
		require.NoError(t, err)
		require.Equal(t, `{}`, text(r))
		<-c.Done()

		// Once more under the same id: the executor sends what it has.
		p.Input = []byte(`{}`)
		c, err = s.Start(b.ctx, p)
		require.NoError(t, err)
		_, err = c.Result(b.ctx)
		require.NoError(t, err)
		require.Equal(t, 1, h.runCounts()["mine"])
	})
}

// The end of a session is the end of its calls, and of those who wait for them.
func TestCallInSessionThatEnds(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		h.end(s.ID(), "workspace gone")
		_, err = c.Result(b.ctx)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.ErrorContains(t, err, "workspace gone")
		require.ErrorIs(t, s.Err(), protocol.ErrSessionNotActive)
		_, err = c.Cancel(b.ctx, "late")
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		time.Sleep(time.Hour / 2)
	})
}

// The acceptance is lost with the connection, and the session ends; its result is
// owed, and the call has it all the same.
func TestOwedResultWins(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) {
			h.run = func(_ context.Context, p protocol.ToolCallParams) protocol.ToolResultParams {
				h.mu.Lock()
				h.active = nil // it ends while nobody is connected
				h.mu.Unlock()
				time.Sleep(3 * time.Second)
				h.owe(echo(p))
				h.end(p.SessionID, "crashed")
				return echo(p)
			}
		})
		time.Sleep(readyGrace)
		b.faults.Add(rpctest.Rule{Method: protocol.ToolCall.Name, Answer: true, Do: rpctest.CutBefore})
		r, err := s.Call(b.ctx, "echo", "kept")
		require.NoError(t, err)
		require.Equal(t, `"kept"`, text(r))
		require.GreaterOrEqual(t, h.callCounts()[r.ToolCallID], 2, "asked for again under the same id")
	})
}

func TestCallWhenBrainCloses(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		_, s := b.session(func(h *hand) { h.run = block })
		errs := make(chan error, 1)
		go func() {
			_, err := s.Call(b.ctx, "sleep", nil)
			errs <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, b.Shutdown(b.ctx))
		require.ErrorIs(t, <-errs, ErrClosed)
		_, err := s.Call(b.ctx, "sleep", nil)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, s.Stop(b.ctx, ""), ErrClosed)
		_, err = s.Executor().Assign(b.ctx, protocol.SessionAssignParams{})
		require.ErrorIs(t, err, ErrClosed)
		_, err = b.WaitExecutor(b.ctx)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func waiting(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}
