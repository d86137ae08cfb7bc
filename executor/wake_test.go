package executor

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// laptop can be suspended: for an executor on it time has passed on the lease's clock
// alone.
type laptop struct{ asleep atomic.Int64 }

func (m *laptop) suspend(d time.Duration) { m.asleep.Add(int64(d)) }

func (w *world) onLaptop() *laptop {
	m := &laptop{}
	w.before = func(e *Executor) {
		e.lease.asleepFor = func() time.Duration { return time.Duration(m.asleep.Load()) }
	}
	return m
}

// A wait between attempts ends at once when the machine wakes, but never below what
// the brain has asked for.
func TestWakeEndsTheWait(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		var back atomic.Bool
		s := w.script(func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
				if back.Load() {
					return false
				}
				http.Error(rw, "", http.StatusInternalServerError)
				return true
			}
		})
		w.run(func(o *Options) { o.MinBackoff, o.MaxBackoff = 100*time.Hour, 100*time.Hour })
		sleep(time.Second)
		require.Len(t, s.so().dials, 1)
		m.suspend(500 * time.Millisecond) // that is no suspend
		sleep(10 * time.Second)
		require.Len(t, s.so().dials, 1)
		back.Store(true)
		m.suspend(time.Hour)
		sleep(wakeEvery)
		require.Len(t, s.so().dials, 2)
		require.Equal(t, StateReady, w.Status().State)
	})
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		s := w.script(func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
				if n == 1 {
					rw.Header().Set("Retry-After", "600")
					http.Error(rw, "", http.StatusServiceUnavailable)
				}
				return n == 1
			}
		})
		w.run(nil)
		sleep(time.Minute)
		m.suspend(5 * time.Minute)
		sleep(3*time.Minute + 59*time.Second)
		require.Len(t, s.so().dials, 1)
		sleep(2 * time.Second)
		require.Len(t, s.so().dials, 2)
	})
}

// An attempt during which the machine was suspended is given up and made again.
func TestWakeEndsTheDial(t *testing.T) {
	for _, where := range []string{"dial", "register"} {
		t.Run(where, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				m := w.onLaptop()
				dials := 0
				s := w.script(func(s *script) {
					s.register = func(n int, _ protocol.RegisterParams, _ *protocol.RegisterResult) error {
						if n == 1 && where == "register" {
							<-s.conns[0].Context().Done()
						}
						return nil
					}
				})
				w.run(func(o *Options) {
					dial := o.Dial
					o.RequestTimeout = time.Hour
					o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
						if dials++; dials == 1 && where == "dial" {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return dial(ctx, token)
					}
				})
				sleep(time.Minute)
				require.Equal(t, 1, dials)
				m.suspend(time.Hour)
				sleep(wakeEvery + closePatience)
				require.Equal(t, 2, dials)
				require.Equal(t, StateReady, w.Status().State)
				require.Contains(t, w.Status().LastError, errSlept.Error())
				_ = s
			})
		})
	}
}

// closePatience is what the end of a connection may take whose peer does not close.
const closePatience = 2 * time.Second

// A suspend that outlasts the lease: registered anew at once, and what ended meanwhile
// is delivered over the new connection only.
func TestWakeWithoutALease(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		stored, h := newStored(), hold()
		s := w.session(brain.Options{Results: stored}, func(o *Options) { o.Dial = w.plainDial }, h)
		sleep(time.Minute)
		before := w.Status().ConnectionID
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		synctest.Wait()
		m.suspend(time.Minute)
		close(h.release)
		_, err = c.Result(w.ctx)
		require.NoError(t, err)
		sleep(wakeEvery + closePatience)
		require.Equal(t, StateReady, w.Status().State)
		require.NotEqual(t, before, w.Status().ConnectionID)
		require.Len(t, stored.stored(), 1)
		require.Equal(t, 1, stored.times(stored.stored()[0]))
		_, err = s.Call(w.ctx, "hold", nil)
		require.NoError(t, err)
	})
}

// No result and no session.ready is sent under a lease that ran out: the connection
// ends, and the next one says it (case 98).
func TestNothingUnderALostLease(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		h, prep := hold(), &hooks{name: "hooks"}
		var under atomic.Bool
		lost := make(chan string, 10)
		s := w.script(nil)
		note := func(what string) {
			if under.Load() {
				lost <- what
			}
		}
		s.result = func(_ int, p protocol.ToolResultParams) (bool, error) { note(p.ToolCallID); return true, nil }
		s.register = func(int, protocol.RegisterParams, *protocol.RegisterResult) error { under.Store(false); return nil }
		s.ready = func(int, protocol.SessionReadyParams) (bool, error) { note("ready"); return true, nil }
		s.ended = func(int) (bool, error) { note("ended"); return true, nil }
		w.run(nil, h, prep)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c", "hold"))
		sleep(20 * time.Second)
		n := len(s.so().dials)
		sleep(10 * time.Millisecond)
		under.Store(true)
		m.suspend(time.Hour)
		close(h.release)
		sleep(wakeEvery)
		require.Len(t, s.so().results, 1)
		require.Len(t, s.so().registers, n+1)

		sleep(10 * time.Millisecond)
		under.Store(true)
		m.suspend(time.Hour)
		_ = s.tryAssign("s2", "w", 1) // its answer may be lost with the connection
		sleep(wakeEvery)
		require.Len(t, s.so().registers, n+2)
		sleep(10 * time.Millisecond)
		under.Store(true)
		m.suspend(time.Hour)
		_, _ = rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s2"})
		sleep(wakeEvery)
		require.Equal(t, 1, s.count(protocol.SessionEnded.Name))
		close(lost)
		require.Empty(t, <-lost)
	})
}

// A suspend that the lease outlasts: a heartbeat at once. A socket that died meanwhile
// is found out by it, long before it would be by silence.
func TestWakeWithALease(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		s := w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.HeartbeatIntervalMS, r.LeaseTTLMS = 600_000, 3_600_000
				return nil
			}
			s.heartbeat = func(_ int, r *protocol.HeartbeatResult) error {
				r.LeaseTTLMS = 3_600_000
				return nil
			}
		})
		w.run(func(o *Options) { o.Dial = w.plainDial })
		sleep(time.Minute)
		m.suspend(10 * time.Minute)
		sleep(wakeEvery)
		require.Len(t, s.so().beats, 1)
		require.Len(t, s.so().dials, 1)

		sleep(time.Minute)
		m.suspend(10 * time.Minute)
		w.net.Cut()
		sleep(3 * time.Second)
		require.Len(t, s.so().dials, 2)
		sleep(time.Minute)
		w.net.Stall(true)
		m.suspend(10 * time.Minute)
		sleep(wakeEvery + wakeTimeout + closePatience)
		require.NotEqual(t, StateReady, w.Status().State)
		require.Contains(t, w.Status().LastError, "heartbeat")
		w.net.Stall(false)
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)
	})
	// One that is under way when the machine falls asleep is not waited for longer.
	in(t, func(t *testing.T, w *world) {
		m := w.onLaptop()
		s := w.script(func(s *script) {
			s.heartbeat = func(n int, _ *protocol.HeartbeatResult) error {
				if n == 1 {
					<-s.conns[0].Context().Done()
				}
				return nil
			}
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.LeaseTTLMS = 3_600_000
				return nil
			}
		})
		w.run(func(o *Options) { o.RequestTimeout = time.Hour; o.Dial = w.plainDial })
		sleep(12 * time.Second)
		require.Len(t, s.so().beats, 1)
		m.suspend(time.Minute)
		sleep(wakeEvery + wakeTimeout + closePatience)
		require.Len(t, s.so().dials, 2)
	})
}

// The watch tells a suspend from a process that was stopped, and both from nothing.
func TestWakeWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &laptop{}
		l := &lease{asleepFor: func() time.Duration { return time.Duration(m.asleep.Load()) }}
		w := newWakeWatch()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.run(ctx, l, nil) }()
		closed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		slept, away := w.afterSleep(), w.afterAway()
		time.Sleep(time.Hour)
		require.False(t, closed(slept) || closed(away))
		m.suspend(2 * time.Second)
		time.Sleep(wakeEvery)
		synctest.Wait()
		require.Equal(t, knowsSuspended, closed(slept))
		require.Equal(t, knowsSuspended, closed(away))
		slept, away = w.afterSleep(), w.afterAway()
		w.woke(false)
		require.True(t, closed(away) && !closed(slept))
		cancel()
		<-ended
	})
}

// Where the system says it, it is known at once; and soon where it does not say all.
func TestWakeWatchIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &laptop{}
		l := &lease{asleepFor: func() time.Duration { return time.Duration(m.asleep.Load()) }}
		w, told := newWakeWatch(), make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.run(ctx, l, told) }()
		woke := func(c <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		time.Sleep(time.Hour + time.Second)
		slept, away := w.afterSleep(), w.afterAway()
		told <- struct{}{}
		require.False(t, woke(away), "a moment after it was looked")
		m.suspend(time.Minute)
		told <- struct{}{}
		require.Equal(t, knowsSuspended, woke(slept))
		require.Equal(t, knowsSuspended, woke(away))
		time.Sleep(3 * time.Second)
		slept, away = w.afterSleep(), w.afterAway()
		told <- struct{}{}
		require.True(t, woke(away), "it was stopped")
		require.False(t, woke(slept))
		slept = w.afterSleep()
		m.suspend(time.Minute) // and it is not told
		time.Sleep(wakeSeldom)
		require.Equal(t, knowsSuspended, woke(slept))
		cancel()
		<-ended
	})
}

// What the loss of a lease leads to: at once, but not again and again.
func TestDelayAfterALease(t *testing.T) {
	d := newDelays(500*time.Millisecond, 30*time.Second)
	expired := &rpc.CloseError{Code: protocol.CloseLeaseExpired}
	for range 100 {
		require.Zero(t, d.after(attempt{err: errLeaseLost, ready: time.Hour}))
		require.Zero(t, d.after(attempt{err: errSlept}))
		require.LessOrEqual(t, d.after(attempt{err: expired, ready: 30 * time.Second}), 500*time.Millisecond)
	}
	var sum time.Duration
	for _, err := range []error{errLeaseLost, expired} {
		for range 100 {
			sum += d.after(attempt{err: err})
		}
	}
	require.Greater(t, sum, 20*time.Minute)
	require.Equal(t, time.Minute, d.after(attempt{err: &rpc.CloseError{Code: protocol.CloseLeaseExpired, Reason: "retry-after=60"}, ready: time.Hour}))
}

// A brain whose leases nobody can keep is not asked in a hot loop.
func TestLeaseNobodyCanKeep(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.LeaseTTLMS, r.HeartbeatIntervalMS = 1, 100
				return nil
			}
		})
		w.run(nil)
		sleep(10 * time.Minute)
		require.Less(t, len(s.so().dials), 80)
		require.Greater(t, len(s.so().dials), 20)
	})
}

// Attempts are counted since the last healthy connection.
func TestMaxAttempts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
				bad := n == 2 || n == 3 || n > 4 // the first and the fourth are good
				if bad {
					http.Error(rw, "not now", http.StatusBadGateway)
				}
				return bad
			}
			s.behind = func(_ int, c *rpc.Conn) {
				time.AfterFunc(time.Minute, func() { c.Shutdown(protocol.CloseGoingAway, "") })
			}
		})
		w.run(func(o *Options) { o.MaxAttempts = 3 })
		require.ErrorIs(t, w.stopped(), ErrAttemptsExhausted)
		require.Len(t, s.so().dials, 7)
		var dial *rpc.DialError
		require.True(t, errors.As(w.err, &dial) && dial.Status == http.StatusBadGateway)
		require.Equal(t, "attempts to connect exhausted: 3 in a row, the last: the server answered 502 Bad Gateway: not now", w.err.Error())
		require.Equal(t, w.err.Error(), w.Status().LastError)
	})
}

// A registration that was deleted is refused for good (case 106).
func TestGone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.http = func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
				http.Error(rw, "this executor was deleted", http.StatusGone)
				return true
			}
		})
		w.run(nil)
		require.ErrorIs(t, w.stopped(), ErrRegistrationRefused)
		require.ErrorContains(t, w.err, "this executor was deleted")
		require.Len(t, s.so().dials, 1)
	})
}
