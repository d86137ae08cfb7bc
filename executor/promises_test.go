package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// The tests of this file hold what PROTOCOL.md says under "What is promised when", where
// no other test does.

// A call that is sent again, in every state it can be in, is not run again, and its
// result is (case 108).
func TestRedeliveredCall(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		// The result is read, and the connection lost without an answer.
		w.faults.Add(rpctest.Rule{Method: protocol.ToolResult.Name, Answer: true, Do: rpctest.CutBefore})
		h, s := hold(), w.script(nil)
		w.run(nil, h)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("x", "hold"))
		require.NoError(t, s.call("x", "hold"), "while it runs")
		close(h.release)
		sleep(5 * time.Second)
		require.Equal(t, 2, s.count(protocol.ToolResult.Name), "once lost, once acknowledged (case 110)")
		for range 3 {
			require.NoError(t, s.call("x", "hold"), "when it has ended, and was acknowledged")
			sleep(time.Second)
			w.net.Cut()
			sleep(5 * time.Second)
		}
		results := s.so().results
		require.Len(t, results, 5)
		for _, r := range results {
			require.Equal(t, results[0], r)
		}
		require.EqualValues(t, 1, h.started.Load())
		require.Zero(t, w.Status().ResultsOwed)
	})
}

// A session that is assigned twice, at once and after a reconnect, is one; other work
// under the same fencing token is a conflict (case 113).
func TestAssignedTwice(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		s := w.script(nil)
		w.run(nil, h, k)
		synctest.Wait()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { require.NoError(t, s.tryAssign("s1", "work", 1)) })
		}
		both.Wait()
		sleep(time.Second)
		require.NoError(t, s.call("c", "hold"))
		w.net.Cut()
		sleep(5 * time.Second)
		require.NoError(t, s.tryAssign("s1", "work", 1))
		requireError(t, s.tryAssign("s1", "other work", 1), "conflict")
		sleep(time.Second)
		require.Equal(t, []string{"start"}, k.wrote(), "it was prepared once")
		require.EqualValues(t, 1, h.started.Load())
		require.Zero(t, h.ended.Load(), "what runs goes on")
	})
}

// A session that is stopped while its executor is away ends when that is back: with the
// results of its calls first, and with its end told.
func TestStopWhileAway(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stored, h := newStored(), hold()
		s := w.session(brain.Options{Results: stored}, nil, h)
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		w.net.Stall(true)
		w.net.Cut()
		stopped := make(chan error, 1)
		go func() { stopped <- s.Stop(w.ctx, "not wanted any more") }()
		sleep(5 * time.Minute)
		require.Empty(t, stopped, "nobody is told that it has stopped while that is not known")
		require.Zero(t, h.ended.Load())

		w.net.Stall(false)
		require.NoError(t, <-stopped)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeCanceled, r.Outcome)
		sleep(time.Minute)
		require.Len(t, stored.stored(), 1)
		require.Empty(t, w.Status().Sessions)
		require.Zero(t, w.Status().ResultsOwed)
		require.EqualValues(t, 1, h.ended.Load())
	})
}

// The brain dies before it has stored a result, or after that and before it has
// acknowledged it. The next one, with what the first had stored, has the result once.
func TestBrainKilled(t *testing.T) {
	for name, after := range map[string]bool{"before it stored": false, "after it stored": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				kept := newStored() // outlives the brain
				dead := make(chan struct{})
				results := resultsFunc(func(ctx context.Context, r protocol.ToolResultParams) (bool, error) {
					if after {
						_, _ = kept.Put(ctx, r)
					}
					close(dead)
					<-ctx.Done() // it answers nothing any more
					return false, ctx.Err()
				})
				h := hold()
				s := w.session(brain.Options{Results: results}, nil, h)
				first := *w.serve.Load()
				_, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: "c", Tool: "hold"})
				require.NoError(t, err)
				close(h.release)
				<-dead
				w.brain(brain.Options{Results: kept})
				w.net.Cut()
				require.NoError(t, first.(*brain.Brain).Close("killed"))
				sleep(time.Minute)
				require.Equal(t, []string{"c"}, kept.stored())
				if after {
					require.Equal(t, 2, kept.times("c"))
				}
				require.Zero(t, w.Status().ResultsOwed)
				require.Zero(t, w.Status().ResultsLost)
				require.EqualValues(t, 1, h.started.Load())
			})
		})
	}
}

type resultsFunc func(context.Context, protocol.ToolResultParams) (bool, error)

func (f resultsFunc) Put(ctx context.Context, r protocol.ToolResultParams) (bool, error) {
	return f(ctx, r)
}

// The answer to the very first register is lost: the executor is given another id, and
// the one who waits for it under the first is told.
func TestFirstRegisterLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.faults.Add(rpctest.Rule{Method: protocol.ExecutorRegister.Name, Answer: true, Do: rpctest.CutBefore})
		came := make(chan *brain.Executor, 8)
		w.brain(brain.Options{OnExecutor: func(x *brain.Executor, connected bool) {
			if connected {
				came <- x
			}
		}})
		w.run(nil, hello())
		first := <-came
		_, err := first.Assign(w.ctx, protocol.SessionAssignParams{})
		require.ErrorIs(t, err, brain.ErrForgotten)
		x := <-came
		require.NotEqual(t, first.ID(), x.ID())
		s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		_, err = s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
	})
}

// 500 calls, 50 a second, while sessions come and go and the connection is lost three
// times: each has one answer, and the log has each that was taken (case 114).
func TestEveryCallIsAnswered(t *testing.T) {
	const calls, every, sessions = 500, 20 * time.Millisecond, 4
	in(t, func(t *testing.T, w *world) {
		core, logged := observer.New(zap.DebugLevel)
		stored := newStored()
		b := w.brain(brain.Options{Results: stored})
		var mu sync.Mutex
		ran := map[string]int{}
		w.run(func(o *Options) { o.Logger = zap.New(core) },
			tool("work", func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
				mu.Lock()
				ran[c.ID()]++
				n := len(ran)
				mu.Unlock()
				select {
				case <-time.After(time.Duration(n%30) * 10 * time.Millisecond):
					return protocol.Text(c.ID()), nil
				case <-ctx.Done():
					return protocol.ToolOutput{}, ctx.Err()
				}
			}))
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)

		open := make([]*brain.Session, sessions) // those in use; mu
		assign := func(n int) {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			open[n] = s
		}
		for n := range open {
			assign(n)
		}
		var all sync.WaitGroup
		answers := map[string][]string{}
		answered := func(id, what string) {
			mu.Lock()
			defer mu.Unlock()
			answers[id] = append(answers[id], what)
		}
		for n := range calls {
			id := fmt.Sprint("call-", n)
			mu.Lock()
			s := open[n%sessions]
			mu.Unlock()
			all.Go(func() {
				c, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: id, Tool: "work"})
				var r protocol.ToolResultParams
				if err == nil {
					r, err = c.Result(w.ctx)
				}
				var refused *protocol.Error
				switch {
				case err == nil:
					answered(id, r.Outcome)
				case errors.As(err, &refused):
					answered(id, refused.Reason())
				default:
					answered(id, "no answer: "+err.Error())
				}
			})
			if n%40 == 39 { // a session ends under its calls, and another begins
				k := n / 40 % sessions
				all.Go(func() {
					mu.Lock()
					old := open[k]
					mu.Unlock()
					assign(k)
					require.NoError(t, old.Stop(w.ctx, "done"))
				})
			}
			if n == 120 || n == 260 || n == 400 {
				w.net.Cut()
			}
			time.Sleep(every)
		}
		all.Wait()
		sleep(time.Minute)

		fates := map[string]int{}
		has := map[string]bool{}
		for _, id := range stored.stored() {
			has[id] = true
		}
		ends := map[string]int{} // of calls, in the log
		for _, e := range logged.FilterMessage("call ended").All() {
			ends[e.ContextMap()["call"].(string)]++
		}
		for n := range calls {
			id := fmt.Sprint("call-", n)
			require.Len(t, answers[id], 1, id)
			fate := answers[id][0]
			fates[fate]++
			result := fate == protocol.OutcomeSucceeded || fate == protocol.OutcomeCanceled
			require.Equal(t, result, has[id], "%s: told %s", id, fate)
			require.LessOrEqual(t, ran[id], 1, id)
			if has[id] {
				require.Equal(t, 1, ends[id], "%s in the log", id)
			} else {
				require.Zero(t, ran[id], "%s ran, and its caller was told %s", id, fate)
			}
		}
		t.Log(fates)
		require.Greater(t, fates[protocol.OutcomeSucceeded], calls/2)
		require.Zero(t, w.Status().ResultsOwed)
		require.Len(t, w.Status().Sessions, sessions)
	})
}
