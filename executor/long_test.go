package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// Hours of heartbeats, sessions and calls with many disconnects at random
// moments: no goroutine, session or call is lost, every call runs once, and every
// result is stored once. EXECUTOR_STRESS=1 makes it a day, and a thousand.
func TestADayOfDisconnects(t *testing.T) {
	const callers = 5
	day, cuts := 3*time.Hour, 125
	if os.Getenv("EXECUTOR_STRESS") != "" {
		day, cuts = 24*time.Hour, 1000
	}
	real := time.Now()
	in(t, func(t *testing.T, w *world) {
		stored := newStored()
		var mu sync.Mutex
		ran := map[string]int{}
		work := capabilities.Func("work", "Takes its time.", func(ctx context.Context, c *capabilities.Call, in struct {
			MS int `json:"ms"`
		}) (protocol.ToolOutput, error) {
			mu.Lock()
			ran[c.Session().ID()+" "+c.ID()]++
			mu.Unlock()
			select {
			case <-time.After(time.Duration(in.MS) * time.Millisecond):
				return protocol.Text(c.ID()), nil
			case <-ctx.Done():
				return protocol.ToolOutput{}, ctx.Err()
			}
		})
		b := w.brain(brain.Options{Results: stored})
		w.handle(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if f, err := rpc.Accept(rw, r, rpc.AcceptOptions{}); err == nil {
				_ = b.ServeFrames(plainFrames{f}, brain.Principal{})
			}
		}))
		e := w.run(nil, work)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		end := time.Now().Add(day)
		seed := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(20261129, n)) }

		resting := func() (n int, all []byte) { // goroutines of the bubble when nothing is to be done
			sleep(2 * time.Minute)
			all = make([]byte, 4<<20)
			all = all[:runtime.Stack(all, true)]
			return bytes.Count(all, []byte("synctest bubble")), all
		}
		first, err := x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: "lasting"})
		require.NoError(t, err)
		before, _ := resting()

		var all sync.WaitGroup
		var calls, sessions, disconnects int
		for n := range callers {
			all.Go(func() {
				r := seed(uint64(n))
				for time.Now().Before(end) {
					s := first
					if n%2 == 1 { // half of them in sessions of an hour or so
						var err error
						s, err = x.Assign(w.ctx, protocol.SessionAssignParams{})
						require.NoError(t, err)
					}
					until := time.Now().Add(time.Duration(r.IntN(7200)) * time.Second) // an hour on average
					for time.Now().Before(until) {
						time.Sleep(time.Duration(r.IntN(120_000)) * time.Millisecond)
						id := fmt.Sprint(n, "-", r.Uint64())
						c, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: id, Tool: "work",
							Input: fmt.Appendf(nil, `{"ms":%d}`, max(0, r.IntN(120_000)-40_000))})
						require.NoError(t, err)
						result, err := c.Result(w.ctx)
						require.NoError(t, err)
						require.Equal(t, id, text(result))
						mu.Lock()
						calls++
						mu.Unlock()
					}
					if n%2 == 1 {
						require.NoError(t, s.Stop(w.ctx, "done"))
						mu.Lock()
						sessions++
						mu.Unlock()
					}
				}
			})
		}
		all.Go(func() {
			r := seed(callers)
			methods := []protocol.Spec{protocol.ToolCall.Spec, protocol.ToolResult.Spec, protocol.ExecutorRegister.Spec, protocol.SessionReady.Spec,
				protocol.SessionAssign.Spec, protocol.SessionStop.Spec, protocol.SessionEnded.Spec, protocol.ExecutorHeartbeat.Spec}
			for range cuts {
				time.Sleep(time.Duration(r.Int64N(int64(2*day) / int64(cuts))))
				disconnects++
				switch r.IntN(4) {
				case 0, 1:
					w.net.Cut()
				case 2:
					w.faults.CutNow()
				default: // just when a message of some kind is on its way
					do := []rpctest.Action{rpctest.CutBefore, rpctest.CutAfter, rpctest.Repeat, rpctest.Stall}[r.IntN(4)]
					w.faults.Add(rpctest.Rule{Method: methods[r.IntN(len(methods))].Name, Answer: r.IntN(2) == 0, Nth: 1 + r.IntN(3), Do: do})
				}
			}
		})
		all.Wait()
		sleep(2 * time.Minute) // what is owed is delivered

		st := e.Status()
		require.Equal(t, StateReady, st.State)
		require.Equal(t, []SessionStatus{{ID: "lasting", State: phaseActive}}, st.Sessions)
		require.Zero(t, st.CallsRunning)
		require.Zero(t, st.ResultsOwed)
		require.Zero(t, st.ResultsLost)
		require.Equal(t, cuts, disconnects)
		require.Greater(t, calls, 2*cuts)
		require.Greater(t, sessions, cuts/250) // 6 in 125 on average
		require.Len(t, ran, calls)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
		require.Len(t, stored.stored(), calls)
		now, stacks := resting()
		require.LessOrEqual(t, now, before+2, "%s", stacks) // a read loop that was taken over comes and goes
		t.Logf("%d calls, %d sessions, %d disconnects", calls, sessions, disconnects)
	})
	t.Logf("in %v", time.Since(real))
}

// plainFrames hide what a WebSocket does beyond frames, its clocks above all, which
// would be most of the work of a day.
type plainFrames struct{ rpc.Frames }

// A brain that restarts, and forgets all, while calls run: what it still holds goes
// on, what it does not ends.
func TestBrainRestarts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.session(brain.Options{}, nil, h)
		_, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		id := s.Executor().ID()
		require.NoError(t, s.Executor().Sessions()[0].Err())

		old := *w.serve.Load()
		stored := newStored()
		b := w.brain(brain.Options{Results: stored})
		require.NoError(t, old.(*brain.Brain).Close("restart"))
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		require.Equal(t, id, x.ID())
		sleep(time.Minute)
		require.Empty(t, w.Status().Sessions)
		require.EqualValues(t, 1, h.ended.Load())
		require.Len(t, stored.stored(), 1) // the new brain has the result all the same
		s, err = x.Assign(w.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		close(h.release)
		_, err = s.Call(w.ctx, "hold", nil)
		require.NoError(t, err)
		_, err = brain.Do(w.ctx, x, protocol.ToolCall, protocol.ToolCallParams{SessionID: "gone", ToolCallID: "c", Tool: "hold"})
		require.True(t, errors.Is(err, protocol.ErrSessionNotActive) && !errors.Is(err, rpc.ErrClosed))
		synctest.Wait()
	})
}
