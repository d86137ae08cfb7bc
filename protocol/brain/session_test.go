package brain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

func TestAssignFillsIn(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, x := b.executor(func(h *hand) {
			h.tweak = func(p *protocol.RegisterParams) { p.EnvironmentID = "env" }
		})
		s, err := x.Assign(b.ctx, protocol.SessionAssignParams{AgentID: "a"})
		require.NoError(t, err)
		got := locked(h, func() protocol.SessionAssignParams { return h.assigned[s.ID()] })
		require.Equal(t, s.Assignment(), got)
		require.NotEmpty(t, got.WorkID)
		require.NotEmpty(t, got.Lease.Token)
		require.Positive(t, got.Lease.FencingToken)
		require.Equal(t, "env", got.EnvironmentID)
		require.Equal(t, []*Session{s}, x.Sessions())
		require.Same(t, x, s.Executor())

		later, err := x.Assign(b.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		require.Greater(t, later.Assignment().Lease.FencingToken, got.Lease.FencingToken)
		found, ok := x.Session(later.ID())
		require.True(t, ok)
		require.Same(t, later, found)
	})
}

func TestAssignOverFaults(t *testing.T) {
	assign, ready := protocol.SessionAssign.Name, protocol.SessionReady.Name
	for name, rule := range map[string]rpctest.Rule{
		"cut behind the assign":     {Method: assign, Do: rpctest.CutAfter},
		"cut before its answer":     {Method: assign, Answer: true, Do: rpctest.CutBefore},
		"cut before ready":          {Method: ready, Do: rpctest.CutBefore},
		"cut before its answer too": {Method: ready, Answer: true, Do: rpctest.CutBefore},
		"ready twice":               {Method: ready, Do: rpctest.Repeat},
		"ready before the answer":   {Method: assign, Answer: true, Do: rpctest.Delay(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, Options{}, func(t *testing.T, b *bench) {
				_, x := b.executor(nil)
				b.faults.Add(rule)
				s, err := x.Assign(b.ctx, protocol.SessionAssignParams{})
				require.NoError(t, err)
				_, err = s.Call(b.ctx, "echo", nil)
				require.NoError(t, err)
				require.NoError(t, s.Stop(b.ctx, "done"))
			})
		})
	}
}

func TestStopOverFaults(t *testing.T) {
	stop, ended := protocol.SessionStop.Name, protocol.SessionEnded.Name
	for name, rule := range map[string]rpctest.Rule{
		"cut behind the stop":   {Method: stop, Do: rpctest.CutAfter},
		"cut before its answer": {Method: stop, Answer: true, Do: rpctest.CutBefore},
		"cut before ended":      {Method: ended, Do: rpctest.CutBefore},
		"ended twice":           {Method: ended, Do: rpctest.Repeat},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, Options{}, func(t *testing.T, b *bench) {
				h, s := b.session(nil)
				b.faults.Add(rule)
				require.NoError(t, s.Stop(b.ctx, "done"))
				<-s.Ended()
				time.Sleep(time.Minute)
				require.Zero(t, h.owes())
			})
		})
	}
}

func TestAssignAgain(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		x, p := s.Executor(), s.Assignment()
		same, err := x.Assign(b.ctx, protocol.SessionAssignParams{SessionID: p.SessionID, WorkID: p.WorkID})
		require.NoError(t, err)
		require.Same(t, s, same)

		_, err = x.Assign(b.ctx, protocol.SessionAssignParams{SessionID: p.SessionID, WorkID: "w2", Lease: p.Lease})
		require.ErrorIs(t, err, protocol.ErrConflict)

		// Another work takes over, and the end of the older one is not its own.
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		b.faults.Add(rpctest.Rule{Method: protocol.SessionEnded.Name, Do: rpctest.Delay(time.Second)})
		h.end(s.ID(), "taken over")
		synctest.Wait() // it is on its way, before the new one's session.ready
		s2, err := x.Assign(b.ctx, protocol.SessionAssignParams{SessionID: p.SessionID})
		require.NoError(t, err)
		require.NotSame(t, s, s2)
		_, err = c.Result(b.ctx)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.ErrorIs(t, s.Err(), protocol.ErrSessionNotActive)
		require.NoError(t, s2.Err())
		_, err = s2.Call(b.ctx, "sleep", nil)
		require.NoError(t, err)

		other, y := b.executor(nil)
		require.NotEqual(t, x.ID(), other.identity())
		_, err = y.Assign(b.ctx, protocol.SessionAssignParams{SessionID: p.SessionID})
		require.ErrorIs(t, err, protocol.ErrConflict)
	})
}

func TestAssignRefused(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, x := b.executor(nil)
		d, err := x.Drain(b.ctx, protocol.DrainParams{Reason: "update", DeadlineMS: 1000})
		require.NoError(t, err)
		require.True(t, d.Accepted)
		_, err = x.Assign(b.ctx, protocol.SessionAssignParams{})
		require.ErrorIs(t, err, protocol.ErrExecutorBusy)
		require.Empty(t, x.Sessions())
		_ = h
	})
}

func TestAssignRejected(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		b.hands.Go(func() {
			f, err := b.dial(b.ctx)
			require.NoError(b.t, err)
			x := rpc.NewMux(0)
			rpc.Handle(x, protocol.SessionAssign, func(context.Context, protocol.SessionAssignParams) (protocol.SessionAssignResult, error) {
				return protocol.SessionAssignResult{}, nil
			})
			c := rpc.NewConn(f, x, nil)
			c.Start()
			_, _ = rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
			<-c.Done()
		})
		x, err := b.WaitExecutor(b.ctx)
		require.NoError(t, err)
		_, err = x.Assign(b.ctx, protocol.SessionAssignParams{})
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, protocol.ReasonSessionRejected, e.Reason())
	})
}

// An assignment that was given up is stopped at the executor, if it got that far.
func TestAssignGivenUp(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, x := b.executor(nil)
		b.faults.Add(rpctest.Rule{Method: protocol.SessionReady.Name, Do: rpctest.Delay(5 * time.Second)})
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err := x.Assign(ctx, protocol.SessionAssignParams{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, x.Sessions())
		time.Sleep(time.Minute)
		require.Zero(t, h.owes())
		require.Equal(t, 1, locked(h, func() int { return len(h.assigned) }))
		b.sessions.Range(func(id, _ any) bool {
			t.Errorf("session %v is held", id)
			return true
		})
	})
}

func TestAssignEndsBeforeReady(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, x := b.executor(nil)
		b.faults.Add(rpctest.Rule{Method: protocol.SessionReady.Name, Do: rpctest.Drop, Nth: -1})
		time.AfterFunc(time.Second, func() { h.end("s", "workspace_unavailable") })
		_, err := x.Assign(b.ctx, protocol.SessionAssignParams{SessionID: "s"})
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.ErrorContains(t, err, "workspace_unavailable")
		b.faults.CutNow() // the hand waits for its acknowledgement
	})
}

func TestSessionStatus(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		for _, status := range []string{protocol.StatusRunning, protocol.StatusIdle} {
			require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.SessionStatus,
				protocol.SessionStatusParams{SessionID: s.ID(), Status: status, Detail: "d"}))
		}
		synctest.Wait()
		status, detail := s.Status()
		require.Equal(t, protocol.StatusIdle, status)
		require.Equal(t, "d", detail)
		require.Empty(t, s.MCPServers())
	})
}

// An executor that was set up anew under the same id has lost its sessions. Its
// heartbeats say so.
func TestSessionLost(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.run = block })
		c, err := s.Start(b.ctx, protocol.ToolCallParams{Tool: "sleep"})
		require.NoError(t, err)
		h.mu.Lock()
		h.active = nil
		h.mu.Unlock()
		time.Sleep(protocol.DefaultHeartbeatInterval + time.Second)
		require.NoError(t, s.Err())
		_, err = c.Result(b.ctx)
		require.ErrorIs(t, err, protocol.ErrSessionNotActive)
		require.Empty(t, s.Executor().Sessions())
	})
}

// A brain does not wait for an executor that answers a stop with "not mine".
func TestStopOfUnknown(t *testing.T) {
	for name, answer := range map[string]error{"error": protocol.ErrSessionNotActive, "false": nil} {
		t.Run(name, func(t *testing.T) {
			in(t, Options{}, func(t *testing.T, b *bench) {
				_, s := b.session(nil)
				b.net.Cut()
				b.hands.Go(func() {
					h := newHand(b.dial)
					x := rpc.NewMux(0)
					rpc.Handle(x, protocol.SessionStop, func(context.Context, protocol.SessionStopParams) (protocol.SessionStopResult, error) {
						return protocol.SessionStopResult{}, answer
					})
					f, err := h.dial(b.ctx)
					if err != nil {
						return
					}
					c := rpc.NewConn(f, x, nil)
					c.Start()
					_, _ = rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1,
						Resume: &protocol.Resume{ExecutorID: s.Executor().ID()}})
					<-c.Done()
				})
				time.Sleep(time.Millisecond * 50)
				require.NoError(t, s.Stop(b.ctx, "done"))
				require.Error(t, s.Err())
			})
		})
	}
}

// A deadline that no clock can hold is long, not over.
func TestMayWaitDoesNotOverflow(t *testing.T) {
	wait := mayWait(&protocol.SessionStopParams{DeadlineMS: 1<<63 - 1})
	require.Positive(t, wait)
	require.Positive(t, protocol.DefaultRequestTimeout+wait)
}
