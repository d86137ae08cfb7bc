package executor

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// closer is a capability that is closed.
type closer struct {
	hooks
	closed atomic.Int32
	err    error
}

func (c *closer) Close() error {
	c.closed.Add(1)
	return c.err
}

var _ io.Closer = (*closer)(nil)

// requireGone checks how an executor that was asked to leave has left.
func requireGone(t *testing.T, s *script, reason string) {
	t.Helper()
	require.Equal(t, []string{"executor.close " + reason}, s.log("executor.register", "session", "tool"))
	var closed *rpc.CloseError
	require.ErrorAs(t, s.conn().Err(), &closed)
	require.Equal(t, protocol.CloseGoingAway, closed.Code)
	require.False(t, closed.Local)
}

// A drain, whoever asks for it: nothing new is taken, what runs is finished, results
// are delivered, executor.close is said.
func TestDrain(t *testing.T) {
	for name, drain := range map[string]func(w *world, s *script){
		"brain": func(w *world, s *script) {
			r, err := rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{Reason: "shutdown", DeadlineMS: 20_000})
			require.NoError(w.t, err)
			require.True(w.t, r.Accepted)
			require.Equal(w.t, []string{"s1"}, r.ActiveSessions)
		},
		"here": func(w *world, _ *script) { require.NoError(w.t, w.Drain(w.ctx)) },
		"both": func(w *world, s *script) {
			require.NoError(w.t, w.Drain(w.ctx))
			_, err := rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{})
			require.NoError(w.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				h, k := hold(), &closer{hooks: hooks{name: "closer"}}
				s := w.script(nil)
				w.run(nil, h, hello(), k)
				synctest.Wait()
				s.assign(1)
				require.NoError(t, s.call("c1", "hold"))
				drain(w, s)
				synctest.Wait()
				require.Equal(t, StateDraining, w.Status().State)
				requireError(t, s.call("c2", "hello"), protocol.ReasonDraining)
				e := requireError(t, s.tryAssign("s2", "w", 1), protocol.ReasonDraining)
				require.Equal(t, protocol.CodeExecutorBusy, e.Code)
				require.NoError(t, s.call("c1", "hold")) // a repeat
				sleep(10 * time.Second)
				require.EqualValues(t, 0, h.ended.Load())
				require.Zero(t, k.closed.Load())
				began := time.Now()
				close(h.release)
				require.NoError(t, w.stopped())
				require.Less(t, time.Since(began), time.Second)
				require.Equal(t, []string{"tool.result c1 succeeded"}, s.log("executor", "session"))
				require.Equal(t, []string{"session.ended s1 drained"}, s.log("executor", "session.status", "session.ready", "tool"))
				requireGone(t, s, "shutdown")
				require.Equal(t, []string{"start", "end"}, k.wrote())
				require.EqualValues(t, 1, k.closed.Load())
				require.Equal(t, StateStopped, w.Status().State)
			})
		})
	}
}

// What still runs at the deadline is cancelled, and its result delivered.
func TestDrainDeadline(t *testing.T) {
	for _, c := range []struct {
		name  string
		drain func(w *world, s *script)
		takes time.Duration
	}{
		{"default", func(w *world, _ *script) { _ = w.Drain(w.ctx0()) }, 7 * time.Second},
		{"context", func(w *world, _ *script) {
			ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
			w.ends = append(w.ends, cancel)
			_ = w.Drain(ctx)
		}, 3 * time.Second},
		{"longer", func(w *world, _ *script) {
			ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
			w.ends = append(w.ends, cancel)
			_ = w.Drain(ctx)
		}, time.Minute},
		{"passed", func(w *world, _ *script) {
			ctx, cancel := context.WithTimeout(w.ctx, -time.Second)
			w.ends = append(w.ends, cancel)
			_ = w.Drain(ctx)
		}, 0},
		{"cancelled", func(w *world, _ *script) {
			ctx, cancel := context.WithCancel(w.ctx0())
			time.AfterFunc(2*time.Second, cancel)
			_ = w.Drain(ctx)
		}, 2 * time.Second},
		{"brain", func(w *world, s *script) {
			_, _ = rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{DeadlineMS: 4000})
		}, 4 * time.Second},
		{"brain later shortens it", func(w *world, s *script) {
			_ = w.Drain(w.ctx0())
			time.Sleep(time.Second)
			_, _ = rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{DeadlineMS: 1000})
		}, 2 * time.Second},
		{"brain cannot lengthen it", func(w *world, s *script) {
			_ = w.Drain(w.ctx0())
			_, _ = rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{DeadlineMS: 60_000})
		}, 7 * time.Second},
		{"a second signal", func(w *world, _ *script) {
			_ = w.Drain(w.ctx0())
			time.Sleep(time.Second)
			w.leave()
		}, time.Second},
		{"run's context", func(w *world, _ *script) { w.leave() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				h := hold()
				s := w.script(nil)
				w.run(func(o *Options) { o.DrainTimeout = 7 * time.Second }, h)
				synctest.Wait()
				s.assign(1)
				require.NoError(t, s.call("c1", "hold"))
				began := time.Now()
				c.drain(w, s)
				require.NoError(t, w.stopped())
				require.InDelta(t, c.takes.Seconds(), time.Since(began).Seconds(), 0.05)
				require.Equal(t, []string{"tool.result c1 canceled"}, s.log("executor", "session"))
				require.Equal(t, 1, s.count(protocol.SessionEnded.Name))
				require.Equal(t, 1, s.count(protocol.ExecutorClose.Name))
			})
		})
	}
}

// ctx0 is a context without a deadline.
func (w *world) ctx0() context.Context { return context.WithoutCancel(w.ctx) }

// An idle session delays nothing.
func TestDrainIdle(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil)
		synctest.Wait()
		s.assign(1)
		began := time.Now()
		_, err := rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{Reason: "update", DeadlineMS: 60_000})
		require.NoError(t, err)
		require.NoError(t, w.stopped())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		requireGone(t, s, "update")
	})
}

// What cannot be delivered is waited for a few seconds, over a new connection too.
func TestGoodbye(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.script(func(s *script) {
			s.result = func(n int, _ protocol.ToolResultParams) (bool, error) {
				if n == 1 {
					w.net.Cut() // when all but the acknowledgement is done
				}
				return true, nil
			}
		})
		w.run(nil, h)
		sleep(40 * time.Second)
		s.assign(1)
		require.NoError(t, s.call("c1", "hold"))
		w.leave()
		require.NoError(t, w.stopped())
		require.Equal(t, 2, s.count(protocol.ToolResult.Name))
		require.Equal(t, 1, s.count(protocol.SessionEnded.Name))
		require.Equal(t, 1, s.count(protocol.ExecutorClose.Name))
		require.Zero(t, w.Status().ResultsOwed)
	})
	in(t, func(t *testing.T, w *world) { // the brain never takes it
		h := hold()
		s := w.script(func(s *script) {
			s.result = func(int, protocol.ToolResultParams) (bool, error) { return false, protocol.ErrResourceUnavailable }
		})
		w.run(nil, h)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c1", "hold"))
		began := time.Now()
		w.leave()
		require.NoError(t, w.stopped())
		require.InDelta(t, goodbyeTimeout.Seconds(), time.Since(began).Seconds(), 0.1)
		require.Equal(t, 1, w.Status().ResultsOwed)
	})
	in(t, func(t *testing.T, w *world) { // nobody is there, and nothing is owed
		s := w.script(nil)
		w.run(nil)
		synctest.Wait()
		s.assign(1)
		w.net.Close()
		w.net.Cut()
		sleep(time.Minute)
		began := time.Now()
		w.leave()
		require.NoError(t, w.stopped())
		require.Zero(t, time.Since(began))
	})
}

// Every call accepted has one result, however the drain races with calls.
func TestDrainUnderLoad(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stored := newStored()
		s := w.session(brain.Options{Results: stored}, nil, hello(), hold())
		var accepted atomic.Int32
		var callers sync.WaitGroup
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		for i := range 20 {
			callers.Go(func() {
				for j := 0; ; j++ {
					id := fmt.Sprint(i, "-", j)
					_, err := brain.Do(ctx, s.Executor(), protocol.ToolCall, protocol.ToolCallParams{SessionID: s.ID(), ToolCallID: id, Tool: "hello"})
					if err != nil {
						return
					}
					accepted.Add(1)
					time.Sleep(time.Millisecond)
				}
			})
		}
		sleep(30 * time.Millisecond)
		require.NoError(t, w.Drain(w.ctx))
		require.NoError(t, w.stopped())
		cancel()
		callers.Wait()
		require.Greater(t, accepted.Load(), int32(100))
		require.Len(t, stored.stored(), int(accepted.Load()))
		for _, id := range stored.stored() {
			require.Equal(t, 1, stored.times(id))
		}
	})
}

// The errors of capabilities that are closed are Run's.
func TestCloseFails(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.script(nil)
		w.run(nil, &closer{hooks: hooks{name: "closer"}, err: errRefused})
		synctest.Wait()
		w.leave()
		require.ErrorIs(t, w.stopped(), errRefused)
	})
}

// Drain before Run.
func TestDrainFirst(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.script(nil)
		e, err := New(w.options(nil))
		require.NoError(t, err)
		require.NoError(t, e.Drain(w.ctx))
		require.NoError(t, e.Run(w.ctx))
		require.Equal(t, StateStopped, e.Status().State)
	})
}

var _ capabilities.Capability = (*closer)(nil)
