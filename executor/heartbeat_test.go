package executor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// Heartbeats come every interval ±10 %, spread over that, and say what is active.
func TestHeartbeat(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil)
		synctest.Wait()
		s.assign(1)
		sleep(2 * time.Hour)
		require.Len(t, s.so().dials, 1)
		var early, late bool
		for i := 1; i < len(s.so().beats); i++ {
			gap := s.so().beats[i].Sub(s.so().beats[i-1])
			require.GreaterOrEqual(t, gap, 9*time.Second)
			require.LessOrEqual(t, gap, 11*time.Second+10*time.Millisecond)
			early, late = early || gap < 9200*time.Millisecond, late || gap > 10800*time.Millisecond
		}
		require.True(t, early && late)
		require.InDelta(t, 720, len(s.so().beats), 30)
	})
}

// The lease runs from the moment a request was sent that was answered, not from its
// answer.
func TestLeaseFromSend(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.faults.Add(rpctest.Rule{Method: protocol.ExecutorRegister.Name, Answer: true, Nth: 1, Do: rpctest.Delay(4 * time.Second)})
		w.faults.Add(rpctest.Rule{Method: protocol.ExecutorHeartbeat.Name, Answer: true, Nth: 1, Do: rpctest.Delay(6 * time.Second)})
		s := w.script(nil)
		w.run(nil)
		sleep(5 * time.Second)
		require.InDelta(t, 25, w.Status().LeaseLeft.Seconds(), 0.1)
		for s.count(protocol.ExecutorHeartbeat.Name) == 0 {
			sleep(time.Millisecond)
		}
		sleep(7 * time.Second)
		require.InDelta(t, 23, w.Status().LeaseLeft.Seconds(), 0.1)
	})
}

// A lease that ran out: no new work is taken, what runs goes on, and the executor
// registers again at once.
func TestLeaseExpired(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				if n == 1 { // runs out before the first heartbeat
					r.HeartbeatIntervalMS, r.LeaseTTLMS = 60_000, 20_000
				}
				return nil
			}
		})
		w.run(nil, h, hello())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c1", "hold"))
		sleep(21 * time.Second)
		require.Zero(t, w.Status().LeaseLeft)
		e := requireError(t, s.call("c2", "hello"), "lease_expired")
		require.True(t, e.Data.Retryable)
		require.NoError(t, s.call("c1", "hold")) // a repeat is no new work
		require.EqualValues(t, 1, h.started.Load())
		before := time.Now()
		for s.count(protocol.ExecutorRegister.Name) == 1 {
			sleep(10 * time.Millisecond)
		}
		require.Less(t, time.Since(before), 46*time.Second) // with the heartbeat that was due
		require.EqualValues(t, 0, h.ended.Load())
		synctest.Wait()
		require.NoError(t, s.call("c2", "hello"))
		close(h.release)
		synctest.Wait()
		require.Equal(t, 2, s.count(protocol.ToolResult.Name))
		require.Equal(t, []string{"s1"}, s.so().registers[1].Resume.ActiveSessions)
	})
}

// An executor whose lease ran out registers again without a delay.
func TestLeaseLostIsNoFailure(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.HeartbeatIntervalMS, r.LeaseTTLMS = 60_000, 20_000
				return nil
			}
		})
		w.run(nil)
		sleep(time.Hour)
		require.InDelta(t, 60, len(s.so().dials), 3)
		for _, gap := range s.gaps() {
			require.LessOrEqual(t, gap, 66*time.Second+50*time.Millisecond)
		}
	})
}

// A heartbeat that is refused for now changes nothing; one that is refused for good,
// or not answered, ends the connection.
func TestHeartbeatRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var refuse atomic.Pointer[protocol.Error]
		s := w.script(func(s *script) {
			s.heartbeat = func(_ int, r *protocol.HeartbeatResult) error {
				r.LeaseTTLMS = 60_000
				if e := refuse.Load(); e != nil {
					refuse.CompareAndSwap(protocol.ErrConflict, nil) // only once
					return e
				}
				return nil
			}
		})
		w.run(nil)
		sleep(time.Minute)
		refuse.Store(protocol.ErrResourceUnavailable)
		sleep(15 * time.Second)
		require.Len(t, s.so().dials, 1)
		require.Less(t, w.Status().LeaseLeft, 50*time.Second) // it renews nothing
		refuse.Store(nil)
		sleep(12 * time.Second)
		require.Greater(t, w.Status().LeaseLeft, 45*time.Second)
		require.Len(t, s.so().dials, 1)
		refuse.Store(protocol.ErrConflict) // not this connection's id
		sleep(12 * time.Second)
		require.Len(t, s.so().dials, 2)
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)

		w.faults.Add(rpctest.Rule{Method: protocol.ExecutorHeartbeat.Name, Answer: true, Do: rpctest.Drop})
		n := len(s.so().dials)
		sleep(43 * time.Second)
		require.Len(t, s.so().dials, n+1)
		require.Contains(t, w.Status().LastError, "heartbeat")
	})
}

// A connection on which nothing comes in any more is noticed and made anew.
func TestHalfOpenConnection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(func(o *Options) { o.Dial = w.plainDial })
		sleep(time.Minute)
		w.net.Stall(true)
		sleep(31 * time.Second)
		require.NotEqual(t, StateReady, w.Status().State)
		w.net.Stall(false)
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		require.GreaterOrEqual(t, len(s.so().registers), 2)
	})
}

func TestDrainInHeartbeat(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.heartbeat = func(n int, r *protocol.HeartbeatResult) error {
				r.Drain = n == 3
				return nil
			}
		})
		w.run(nil)
		require.NoError(t, w.stopped())
		require.Len(t, s.so().beats, 3)
		require.Equal(t, 1, s.count(protocol.ExecutorClose.Name))
		var closed *rpc.CloseError
		require.ErrorAs(t, s.conn().Err(), &closed)
		require.Equal(t, protocol.CloseGoingAway, closed.Code)
	})
	in(t, func(t *testing.T, w *world) {
		w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.Drain = true
				return nil
			}
		})
		w.run(nil)
		require.NoError(t, w.stopped())
	})
}

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lease
		require.False(t, l.valid())
		l.renew(l.now(), time.Minute)
		require.InDelta(t, 60, l.left().Seconds(), 0.1)
		time.Sleep(50 * time.Second)
		require.True(t, l.valid())
		l.renew(l.now().Add(-40*time.Second), time.Minute) // an answer that took long
		require.InDelta(t, 20, l.left().Seconds(), 0.1)
		time.Sleep(21 * time.Second)
		require.False(t, l.valid())
	})
	require.Equal(t, protocol.DefaultLeaseTTL, leaseTTL(0))
	require.Equal(t, protocol.DefaultLeaseTTL, leaseTTL(-1))
	require.Equal(t, 5*time.Second, leaseTTL(5000))
	require.Less(t, suspended(), 100*365*24*time.Hour)
	require.GreaterOrEqual(t, suspended(), -time.Second)
}
