package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

func TestStatusOfWork(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.session(brain.Options{}, nil, h)
		began := time.Now()
		for i := range maxCallsRunning + 2 {
			_, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: fmt.Sprintf("c%02d", i), Tool: "hold", Input: json.RawMessage(`{}`)})
			require.NoError(t, err)
		}
		sleep(time.Minute)
		st := w.Status()
		require.Equal(t, StateReady, st.State)
		require.Equal(t, maxCallsRunning+2, st.CallsRunning)
		require.Len(t, st.Sessions, 1)
		require.Equal(t, maxCallsRunning+2, st.Sessions[0].Calls)
		require.Len(t, st.Sessions[0].Running, maxCallsRunning)
		require.Equal(t, CallStatus{ID: "c00", Tool: "hold", Since: began}, st.Sessions[0].Running[0])
		require.False(t, st.Connected.IsZero() || st.Since.IsZero() || st.LastContact.IsZero())
		require.Less(t, time.Since(st.LastContact), 12*time.Second)
		require.Equal(t, st.LeaseLeft.Milliseconds(), st.LeaseLeftMS)
		require.Zero(t, st.Overdue)
		require.NoError(t, w.Drain(context.Background()))
		synctest.Wait()
		st = w.Status()
		require.Equal(t, StateDraining, st.State)
		require.Equal(t, "shutdown", st.DrainReason)
		require.InDelta(t, 30, time.Until(st.DrainUntil).Seconds(), 1)
		raw, err := json.Marshal(st)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "0001-01-01")
	})
}

// Errors are kept, the last few, and those that repeat are counted.
func TestStatusOfErrors(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		times := 0
		w.script(func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
				times = n
				http.Error(rw, fmt.Sprint("attempt ", max(3, n)), http.StatusInternalServerError)
				return true
			}
		})
		w.run(nil)
		sleep(30 * time.Minute)
		st := w.Status()
		require.Contains(t, []State{StateWaiting, StateConnecting}, st.State)
		require.Greater(t, times, 20)
		require.Equal(t, times, st.Attempts)
		require.Equal(t, map[string]int64{reasonHTTP: int64(times)}, st.Reconnects)
		require.Len(t, st.Errors, maxErrors)
		require.Equal(t, st.LastError, st.Errors[maxErrors-1].Text)
		require.Contains(t, st.LastError, fmt.Sprint("attempt ", times))
		require.Less(t, time.Until(st.NextAttempt), 31*time.Second)
	})
	var e Executor
	for range 3 {
		e.note(errors.New("the same"))
	}
	e.note(errors.New("another"))
	require.Equal(t, 3, e.seen.errors[0].Times)
	require.Equal(t, 1, e.seen.errors[1].Times)
}

// An executor whose brain is away, slow or gone is never overdue, whatever it is doing.
func TestNotOverdue(t *testing.T) {
	never := func(t *testing.T, w *world, d time.Duration) {
		t.Helper()
		for range int(d / time.Second) {
			time.Sleep(time.Second)
			require.Zero(t, w.Status().Overdue, "%s", w.Status().State)
		}
	}
	t.Run("away", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.run(func(o *Options) {
				o.Dial = func(context.Context, string) (rpc.Frames, error) { return nil, syscall.ECONNREFUSED }
			})
			never(t, w, 10*time.Minute)
		})
	})
	t.Run("asked to wait for an hour", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.script(func(s *script) {
				s.http = func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
					rw.Header().Set("Retry-After", "3000")
					http.Error(rw, "", http.StatusServiceUnavailable)
					return true
				}
			})
			w.run(nil)
			never(t, w, 2*time.Hour)
		})
	})
	t.Run("answers nothing", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			w.run(nil)
			never(t, w, 10*time.Minute)
		})
	})
	t.Run("stops in the middle", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.script(func(s *script) {
				s.heartbeat = func(n int, _ *protocol.HeartbeatResult) error {
					if n > 3 {
						time.Sleep(5 * time.Minute)
					}
					return nil
				}
			})
			w.run(nil)
			never(t, w, 10*time.Minute)
		})
	})
	t.Run("slow heartbeats", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.session(brain.Options{HeartbeatInterval: 5 * time.Minute, LeaseTTL: time.Hour}, nil)
			never(t, w, time.Hour)
		})
	})
}

// One whose loop waits for something that never comes is.
func TestOverdue(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stuck, free := make(chan struct{}), make(chan struct{})
		w.run(func(o *Options) {
			o.Dial = func(context.Context, string) (rpc.Frames, error) {
				close(stuck)
				<-free // whatever becomes of its context
				return nil, errRefused
			}
		})
		<-stuck
		sleep(2 * time.Minute)
		require.Zero(t, w.Status().Overdue)
		sleep(10 * time.Second)
		require.Positive(t, w.Status().Overdue)
		require.Positive(t, w.Status().OverdueMS)
		w.leave()
		close(free)
		require.NoError(t, w.stopped())
		require.Zero(t, w.Status().Overdue)
	})
}

func TestReconnectReasons(t *testing.T) {
	closed := func(code int) error { return &rpc.CloseError{Code: code} }
	for want, errs := range map[string][]error{
		reasonSuspended:  {fmt.Errorf("%w: %w", errSlept, context.DeadlineExceeded)},
		reasonLease:      {errLeaseLost, closed(protocol.CloseLeaseExpired)},
		reasonGoingAway:  {closed(1001), closed(1012)},
		reasonClosed:     {closed(1011), closed(protocol.CloseReplaced)},
		reasonHTTP:       {&rpc.DialError{Status: 502}},
		reasonProxy:      {&rpc.ProxyError{Status: 403}, &rpc.ProxyError{Status: 407}},
		reasonRegister:   {&errRegister{protocol.Errorf(protocol.CodeExecutorBusy, "")}},
		reasonCredential: {&rpc.DialError{Status: 401}, errCredential{errors.New("no file")}, errCredential{syscall.ECONNREFUSED}, closed(protocol.CloseUnauthorized)},
		reasonName:       {&net.OpError{Err: &net.DNSError{Name: "x"}}},
		reasonRefused:    {&net.OpError{Err: syscall.ECONNREFUSED}},
		reasonTLS:        {tls.RecordHeaderError{}, tls.AlertError(42), x509.UnknownAuthorityError{}, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		reasonTimeout:    {context.DeadlineExceeded, fmt.Errorf("register: %w", context.DeadlineExceeded)},
		reasonNetwork:    {errors.New("anything"), &net.OpError{Err: syscall.ECONNRESET}},
	} {
		for _, err := range errs {
			require.Equal(t, want, reasonOf(fmt.Errorf("around: %w", err)), err)
		}
		require.True(t, slices.Contains(ReconnectReasons(), want))
	}
	require.Len(t, ReconnectReasons(), 13)
}
