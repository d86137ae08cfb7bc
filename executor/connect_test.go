package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// What the brain answers executor.register with decides whether the executor goes on.
func TestRegisterRefused(t *testing.T) {
	for _, c := range []struct {
		answer error
		end    error // of Run; nil: it goes on
	}{
		{protocol.ErrResourceUnavailable, nil},
		{protocol.ErrForbidden.WithRetryable(true), nil},
		{protocol.ErrConflict, nil}, // it still holds the last connection
		{protocol.ErrUnauthorized, ErrCredentialRejected},
		{protocol.ErrForbidden, ErrRegistrationRefused},
		{protocol.ErrInvalidParams, ErrRegistrationRefused},
		{protocol.Errorf(protocol.CodeInternalError, "?"), ErrRegistrationRefused},
		{protocol.ErrUnsupportedProtocol, ErrUnsupportedProtocol},
	} {
		t.Run(c.answer.Error(), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s := w.script(func(s *script) {
					s.register = func(n int, _ protocol.RegisterParams, _ *protocol.RegisterResult) error {
						if n < 3 {
							return c.answer
						}
						return nil
					}
				})
				w.run(nil)
				if c.end != nil {
					require.ErrorIs(t, w.stopped(), c.end)
					require.ErrorIs(t, w.err, c.answer)
					require.Len(t, s.so().dials, 1)
					require.Equal(t, StateStopped, w.Status().State)
					require.Equal(t, w.err.Error(), w.Status().LastError)
					return
				}
				sleep(time.Minute)
				require.Len(t, s.so().registers, 3)
				require.Equal(t, StateReady, w.Status().State)
			})
		})
	}
}

// An error that is none decides nothing: it is a malformed answer, as a result that cannot
// be read is, and the executor comes back.
func TestRegisterAnsweredWithNoError(t *testing.T) {
	for _, answer := range []string{`"error":"bad"`, `"error":{"code":"x"}`, `"result":"bad"`} {
		in(t, func(t *testing.T, w *world) {
			s := w.script(func(s *script) {
				s.http = func(n int, rw http.ResponseWriter, r *http.Request) bool {
					if n > 2 {
						return false
					}
					f, err := rpc.Accept(rw, r, rpc.AcceptOptions{})
					if err != nil {
						return true
					}
					frame, _ := f.ReadFrame(r.Context())
					var request struct{ ID json.RawMessage }
					_ = json.Unmarshal(frame, &request)
					_ = f.WriteFrame(r.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, answer))
					_, _ = f.ReadFrame(r.Context()) // until the executor closes
					_ = f.Close(protocol.CloseNormal, "")
					return true
				}
			})
			w.run(nil)
			sleep(time.Minute)
			require.Len(t, s.so().dials, 3)
			require.Equal(t, StateReady, w.Status().State)
		})
	}
}

// A brain of another version in the answer, or in the handshake, is told from a
// network that fails.
func TestUnsupportedProtocol(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.Protocol = "executor.v9"
				return nil
			}
		})
		w.run(nil)
		require.ErrorIs(t, w.stopped(), ErrUnsupportedProtocol)
		require.EqualError(t, w.err, `unsupported protocol: asked for executor.v1, the brain answered "executor.v9"; update the executor or the brain`)
	})
	in(t, func(t *testing.T, w *world) {
		w.handle(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = rpc.Accept(rw, r, rpc.AcceptOptions{Subprotocols: []string{"executor.v9"}})
		}))
		w.run(nil)
		require.ErrorIs(t, w.stopped(), ErrUnsupportedProtocol)
		require.Equal(t, 1, strings.Count(w.err.Error(), "unsupported"), w.err)
	})
	for said, want := range map[string]string{ // by a brain that wants no such executor
		"only executor.v9 is served":                       "unsupported protocol: register: only executor.v9 is served; update the executor or the brain",
		"unsupported protocol: only executor.v9 is served": "unsupported protocol: register: only executor.v9 is served; update the executor or the brain",
		"unsupported protocol":                             "unsupported protocol: register: refused; update the executor or the brain",
	} {
		in(t, func(t *testing.T, w *world) {
			w.script(func(s *script) {
				s.register = func(int, protocol.RegisterParams, *protocol.RegisterResult) error {
					return protocol.Errorf(protocol.CodeUnsupportedProtocol, "%s", said)
				}
			})
			w.run(nil)
			require.EqualError(t, w.stopped(), want)
			require.ErrorIs(t, w.err, ErrUnsupportedProtocol)
			require.ErrorIs(t, w.err, protocol.ErrUnsupportedProtocol)
		})
	}
}

// The close codes of a registered connection, and of one that is not.
func TestCloseCodes(t *testing.T) {
	for _, c := range []struct {
		code int
		end  error
	}{
		{protocol.CloseUnauthorized, ErrCredentialRejected},
		{protocol.CloseUnsupportedProtocol, ErrUnsupportedProtocol},
		{protocol.CloseRegistrationRefused, ErrRegistrationRefused},
		{protocol.CloseReplaced, ErrReplaced},
		{protocol.CloseNormal, nil},
		{protocol.CloseGoingAway, nil},
		{protocol.CloseProtocolError, nil},
		{protocol.ClosePolicy, nil},
		{protocol.CloseTooBig, nil},
		{protocol.CloseInternal, nil},
		{protocol.CloseServiceRestart, nil},
		{protocol.CloseLeaseExpired, nil},
		{4999, nil},
	} {
		for _, early := range []bool{false, true} {
			in(t, func(t *testing.T, w *world) {
				s := w.script(func(s *script) {
					s.behind = func(n int, c0 *rpc.Conn) {
						if n == 1 && !early {
							time.AfterFunc(5*time.Second, func() { c0.Shutdown(c.code, "by the test") })
						}
					}
					s.http = func(n int, rw http.ResponseWriter, r *http.Request) bool {
						if n > 1 || !early {
							return false
						}
						f, err := rpc.Accept(rw, r, rpc.AcceptOptions{})
						if err != nil {
							return true
						}
						x := rpc.NewMux(0)
						rpc.Handle(x, protocol.ExecutorRegister, func(ctx context.Context, _ protocol.RegisterParams) (protocol.RegisterResult, error) {
							go rpc.FromContext(ctx).Shutdown(c.code, "by the test")
							<-ctx.Done()
							return protocol.RegisterResult{}, ctx.Err()
						})
						rpc.NewConn(f, x, nil).Start()
						return true
					}
				})
				w.run(nil)
				if c.end != nil {
					require.ErrorIs(t, w.stopped(), c.end)
					var closed *rpc.CloseError
					require.ErrorAs(t, w.err, &closed)
					require.Equal(t, c.code, closed.Code)
					require.Len(t, s.so().dials, 1)
					return
				}
				sleep(7 * time.Second)
				require.Len(t, s.so().dials, 2)
				require.Equal(t, StateReady, w.Status().State)
			})
		}
	}
}

// A rejected credential is asked for once more, and used when it is another one.
func TestToken(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []string // what the source returns, one after another; the last stays
		good   string
		how    string // how a bad one is refused
		dialed []string
		end    error
	}{
		{"good", []string{"a"}, "a", "401", []string{"a"}, nil},
		{"static", []string{"a"}, "b", "401", []string{"a"}, ErrCredentialRejected},
		{"static 403", []string{"a"}, "b", "403", []string{"a"}, ErrCredentialRejected},
		{"changed", []string{"a", "b"}, "b", "401", []string{"a", "b"}, nil},
		{"changed 403", []string{"a", "b"}, "b", "403", []string{"a", "b"}, nil},
		{"always another", []string{"a", "b", "c", "d"}, "z", "401", []string{"a", "b"}, ErrCredentialRejected},
		{"changed, close 4001", []string{"a", "b"}, "b", "close", []string{"a", "b"}, nil},
		{"static, close 4001", []string{"a"}, "b", "close", []string{"a"}, ErrCredentialRejected},
		{"changed, register", []string{"a", "b"}, "b", "register", []string{"a", "b"}, nil},
		{"always another, register", []string{"a", "b", "c"}, "z", "register", []string{"a", "b"}, ErrCredentialRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var s *script
				bad := func(n int) bool { return s.so().tokens[n-1] != c.good }
				s = w.script(func(s *script) {
					s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
						status := map[string]int{"401": http.StatusUnauthorized, "403": http.StatusForbidden}[c.how]
						if status == 0 || !bad(n) {
							return false
						}
						http.Error(rw, "who are you?", status)
						return true
					}
					s.register = func(n int, _ protocol.RegisterParams, _ *protocol.RegisterResult) error {
						if c.how == "register" && bad(n) {
							return protocol.ErrUnauthorized
						}
						return nil
					}
					s.behind = func(n int, conn *rpc.Conn) {
						if c.how == "close" && bad(n) {
							conn.Shutdown(protocol.CloseUnauthorized, "the token has run out")
						}
					}
				})
				asked := 0
				w.run(func(o *Options) {
					o.Token = func(context.Context) (string, error) {
						asked++
						return c.tokens[min(asked, len(c.tokens))-1], nil
					}
				})
				sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, c.dialed, s.so().tokens)
				if c.end != nil {
					require.ErrorIs(t, w.stopped(), c.end)
					require.Contains(t, w.err.Error(), "check the token")
				} else {
					require.Equal(t, StateReady, w.Status().State)
				}
			})
		})
	}
}

// A token that expires while the connection lives is replaced each time.
func TestTokenRotates(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.behind = func(_ int, c *rpc.Conn) {
				time.AfterFunc(10*time.Minute, func() { c.Shutdown(protocol.CloseUnauthorized, "the token has run out") })
			}
		})
		w.run(func(o *Options) {
			o.Token = func(context.Context) (string, error) { return time.Now().Format("15:04"), nil }
		})
		sleep(101 * time.Minute)
		require.Len(t, s.so().dials, 11)
		require.Equal(t, StateReady, w.Status().State)
	})
}

// A token source that fails is tried again like a network that does.
func TestTokenSourceFails(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		asked := 0
		w.run(func(o *Options) {
			o.Token = func(context.Context) (string, error) {
				if asked++; asked < 4 {
					return "", errors.New("the key store is away")
				}
				return "a", nil
			}
		})
		sleep(time.Minute)
		require.Equal(t, []string{"a"}, s.so().tokens)
		require.Contains(t, w.Status().LastError, "the key store is away")
	})
}

// Other answers than 101, 401 and 403 are waited out, at least as long as they say.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		status int
		header string
		least  time.Duration
	}{
		{http.StatusTooManyRequests, "40", 40 * time.Second},
		{http.StatusServiceUnavailable, "7", 7 * time.Second},
		{http.StatusBadGateway, "", 0},
		{http.StatusNotFound, "", 0},
		{http.StatusOK, "", 0},
	} {
		in(t, func(t *testing.T, w *world) {
			s := w.script(func(s *script) {
				s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
					if n > 1 {
						return false
					}
					if c.header != "" {
						rw.Header().Set("Retry-After", c.header)
					}
					http.Error(rw, "not now\nmore", c.status)
					return true
				}
			})
			w.run(nil)
			sleep(time.Minute)
			require.Len(t, s.so().dials, 2)
			require.GreaterOrEqual(t, s.gaps()[0], c.least)
			require.LessOrEqual(t, s.gaps()[0], max(c.least, 500*time.Millisecond)+100*time.Millisecond)
			require.Contains(t, w.Status().LastError, "not now")
		})
	}
}

// The reason of a close may say how long to wait.
func TestRetryAfterClose(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.behind = func(n int, c *rpc.Conn) {
				switch n {
				case 1:
					c.Shutdown(protocol.CloseServiceRestart, "retry-after=20 back soon")
				case 2:
					c.Shutdown(protocol.CloseGoingAway, "retry-after=-5")
				}
			}
		})
		w.run(nil)
		sleep(30 * time.Second)
		require.Len(t, s.so().dials, 3)
		require.GreaterOrEqual(t, s.gaps()[0], 20*time.Second)
		require.Less(t, s.gaps()[0], 21*time.Second)
		require.Less(t, s.gaps()[1], 2*time.Second)
	})
}

// Delays are drawn from zero to a cap that doubles up to a limit.
func TestDelays(t *testing.T) {
	d := newDelays(500*time.Millisecond, 30*time.Second)
	limits := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second}
	sums := make([]time.Duration, len(limits))
	low := make([]bool, len(limits))
	const rounds = 2000
	for range rounds {
		d.reset()
		for i, limit := range limits {
			delay := d.next(errRefused)
			require.GreaterOrEqual(t, delay, time.Duration(0))
			require.LessOrEqual(t, delay, limit)
			low[i] = low[i] || delay < limit/20
			sums[i] += delay
		}
	}
	for i, limit := range limits { // spread over all of it, with its middle in the middle
		require.True(t, low[i])
		require.InDelta(t, 0.5, float64(sums[i])/rounds/float64(limit), 0.05)
	}
	require.Equal(t, 90*time.Second, d.next(&rpc.DialError{Status: 503, RetryAfter: 90 * time.Second}))
	for range 10000 { // never shorter and never a gap: the wait goes on for days
		require.LessOrEqual(t, d.next(errRefused), 30*time.Second)
	}
}

// Nobody listens: asked often enough that a brain which is back is found soon.
func TestNobodyListens(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		dials := 0
		w.run(func(o *Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
				if dials++; dials <= 200 {
					return nil, &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
				}
				return dial(ctx, token)
			}
		})
		sleep(2 * time.Hour)
		require.Len(t, s.so().registers, 1)
	})
	require.True(t, refusedOutright(&os.PathError{Op: "dial", Path: "sock", Err: syscall.ECONNREFUSED}))
	require.False(t, refusedOutright(errRefused))
	d := newDelays(500*time.Millisecond, 30*time.Second)
	var longest time.Duration
	for n := range 1000 {
		delay := d.next(syscall.ECONNREFUSED)
		longest = max(longest, delay)
		require.LessOrEqual(t, delay, maxRefusedLong)
		if n < refusedOften {
			require.LessOrEqual(t, delay, maxRefusedBackoff)
		}
	}
	require.Greater(t, longest, maxRefusedBackoff)
}

// A brain that accepts and closes at once, or right behind register, is asked ever
// more rarely: only a connection that was of use starts the delays anew.
func TestDecayingRate(t *testing.T) {
	for name, change := range map[string]func(*script){
		"at the door": func(s *script) {
			s.http = func(_ int, rw http.ResponseWriter, r *http.Request) bool {
				if f, err := rpc.Accept(rw, r, rpc.AcceptOptions{}); err == nil {
					x := rpc.NewMux(0)
					rpc.Handle(x, protocol.ExecutorRegister, func(ctx context.Context, _ protocol.RegisterParams) (protocol.RegisterResult, error) {
						<-ctx.Done()
						return protocol.RegisterResult{}, ctx.Err()
					})
					c := rpc.NewConn(f, x, nil)
					c.Start()
					c.Shutdown(protocol.CloseInternal, "oh no")
				}
				return true
			}
		},
		"behind register": func(s *script) {
			s.behind = func(_ int, c *rpc.Conn) { c.Shutdown(protocol.CloseInternal, "oh no") }
		},
		"after 25 s": func(s *script) { // one heartbeat or two, but not long enough
			s.behind = func(_ int, c *rpc.Conn) {
				time.AfterFunc(25*time.Second, func() { c.Shutdown(protocol.CloseInternal, "oh no") })
			}
		},
		"without a heartbeat": func(s *script) { // long enough, but nothing was answered
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.HeartbeatIntervalMS, r.LeaseTTLMS = 120_000, 300_000
				return nil
			}
			s.behind = func(_ int, c *rpc.Conn) {
				time.AfterFunc(40*time.Second, func() { c.Shutdown(protocol.CloseInternal, "oh no") })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s := w.script(change)
				w.run(nil)
				life := map[string]time.Duration{"after 25 s": 25 * time.Second, "without a heartbeat": 40 * time.Second}[name]
				if life == 0 {
					sleep(30 * time.Minute)
				} else {
					sleep(time.Hour)
				}
				gaps := s.gaps()
				var sum time.Duration
				require.Greater(t, len(gaps), 20)
				for i, gap := range gaps {
					require.LessOrEqual(t, gap, life+min(500*time.Millisecond<<min(i, 10), 30*time.Second)+3*time.Second)
					if i >= 10 {
						sum += gap - life
					}
				}
				require.Greater(t, sum/time.Duration(len(gaps)-10), 10*time.Second) // about 15 s
			})
		})
	}
	t.Run("of use", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			s := w.script(func(s *script) {
				s.behind = func(_ int, c *rpc.Conn) {
					time.AfterFunc(31*time.Second, func() { c.Shutdown(protocol.CloseInternal, "oh no") })
				}
			})
			w.run(nil)
			sleep(time.Hour)
			for _, gap := range s.gaps() {
				require.Less(t, gap, 33*time.Second)
			}
		})
	})
}

// An executor that is replaced ends all it had.
func TestReplaced(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		s := w.session(brain.Options{Authenticate: func(*http.Request) (brain.Principal, error) {
			return brain.Principal{Name: "n", ExecutorID: "exe"}, nil
		}}, nil, h, k)
		_, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)

		other, err := New(w.options(nil))
		require.NoError(t, err)
		ctx, leave := context.WithCancel(w.ctx)
		ran := make(chan error)
		go func() { ran <- other.Run(ctx) }()
		require.ErrorIs(t, w.stopped(), ErrReplaced)
		require.EqualValues(t, 1, h.ended.Load())
		require.Equal(t, []string{"start", "end"}, k.wrote())
		require.Equal(t, StateReady, other.Status().State)
		leave()
		require.NoError(t, <-ran)
	})
}

// The states are told in order, the last before Run returns; Status agrees.
func TestStates(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.script(func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
				if n == 1 {
					http.Error(rw, "", http.StatusBadGateway)
				}
				return n == 1
			}
		})
		var mu sync.Mutex
		var states []State
		e := w.run(func(o *Options) {
			o.URL = "wss://brain.example/x"
			o.OnState = func(s State) {
				time.Sleep(time.Minute) // holds up nothing
				mu.Lock()
				defer mu.Unlock()
				states = append(states, s)
			}
		})
		sleep(10 * time.Second)
		st := e.Status()
		require.Equal(t, StateReady, st.State)
		require.Equal(t, "exe_1", st.ExecutorID)
		require.Equal(t, "con_2", st.ConnectionID)
		require.Equal(t, "wss://brain.example/x", st.Brain)
		require.Greater(t, st.LeaseLeft, 15*time.Second)
		require.Empty(t, st.Sessions)
		require.NotNil(t, st.Sessions)
		w.net.Cut()
		synctest.Wait()
		require.Empty(t, e.Status().ConnectionID)
		require.Equal(t, StateWaiting, e.Status().State)
		sleep(10 * time.Second)
		require.NoError(t, e.Drain(w.ctx))
		require.NoError(t, w.stopped())
		require.Equal(t, []State{StateConnecting, StateWaiting, StateConnecting, StateReady, StateWaiting, StateConnecting,
			StateReady, StateDraining, StateStopped}, states)
	})
}

func TestRunTwice(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.script(nil)
		e := w.run(nil)
		synctest.Wait()
		require.ErrorContains(t, e.Run(w.ctx), "runs once")
		require.Equal(t, StateReady, e.Status().State)
	})
}

// The identity is kept in the state directory; without a whole copy it is a new one.
func TestIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	file := filepath.Join(dir, "state.json")
	var came []*protocol.Resume
	run := func() {
		in(t, func(t *testing.T, w *world) {
			s := w.script(func(s *script) {
				s.register = func(n int, p protocol.RegisterParams, r *protocol.RegisterResult) error {
					r.ExecutorID = "exe_7"
					return nil
				}
			})
			w.run(func(o *Options) { o.StateDir = dir })
			synctest.Wait()
			came = append(came, s.so().registers[0].Resume)
			require.Equal(t, "exe_7", w.Status().ExecutorID)
		})
	}
	run()
	run()
	require.Nil(t, came[0])
	require.Equal(t, "exe_7", came[1].ExecutorID)
	require.Equal(t, "con_1", came[1].LastConnectionID)
	require.Empty(t, came[1].ActiveSessions)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, damage := range []string{"", "{", "[]", "\x00\x00", `{"executor_id":7}`, `{}`} {
		require.NoError(t, os.WriteFile(file, []byte(damage), 0o600))
		run()
		require.NotNil(t, came[len(came)-1], damage) // from the copy
		require.NoError(t, os.WriteFile(file, []byte(damage), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "state.copy.json"), []byte(damage), 0o600))
		run()
		require.Nil(t, came[len(came)-1], damage)
		run()
		require.NotNil(t, came[len(came)-1])
	}
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	run()
	require.NotNil(t, came[len(came)-1], "from the copy")
	_, err = New(Options{URL: "wss://x", StateDir: filepath.Join(file, "..", "..", "..", "deep", "state", "x\x00")})
	require.ErrorContains(t, err, "state directory")
}

// What register carries.
func TestRegisterParams(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(func(o *Options) { o.EnvironmentID, o.Version = "env", "1.2.3" }, hello())
		synctest.Wait()
		p := s.so().registers[0]
		require.Equal(t, protocol.Version1, p.Protocol)
		require.Equal(t, "env", p.EnvironmentID)
		require.Equal(t, "test", p.Executor.Name)
		require.Equal(t, "1.2.3", p.Executor.Version)
		require.NotEmpty(t, p.Executor.OS)
		require.NotEmpty(t, p.Executor.Arch)
		require.True(t, p.Capabilities.Has(protocol.CapabilityBinaryFrames))
		tools, err := p.Capabilities.Tools()
		require.NoError(t, err)
		require.Len(t, tools, 1)
		require.Equal(t, "hello", tools[0].Name)
	})
}

func TestOptions(t *testing.T) {
	for url, says := range map[string]string{
		"":                             "is missing",
		"http://x":                     "scheme must be",
		"ws://example.com/x":           "clear text",
		"ws://u:secret@example.com/":   "clear text",
		"ws://%zz":                     "brain URL",
		"ws://127.0.0.1.example.com/x": "clear text",
		"ws://localhost:1/":            "", "ws://127.0.0.1:1/": "", "ws://[::1]:1/": "", "wss://example.com": "", "unix:///run/x": "",
	} {
		_, err := New(Options{URL: url})
		if says == "" {
			require.NoError(t, err, url)
			continue
		}
		require.ErrorContains(t, err, says, url)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := New(Options{URL: "ws://example.com", Insecure: true})
	require.NoError(t, err)
	e, err := New(Options{URL: "wss://x"})
	require.NoError(t, err)
	require.NotEmpty(t, e.opts.Name)
	require.NotEmpty(t, e.opts.Version)
	require.Len(t, e.opts.Workspace.Roots, 1)
	require.Equal(t, 16, e.opts.MaxSessions)
	require.Equal(t, protocol.DefaultMaxInFlight, e.opts.MaxInFlight)
	require.Equal(t, protocol.DefaultInlineResult, e.opts.InlineResultBytes)
	_, err = New(Options{URL: "wss://x", Workspace: Workspace{PerSession: true, Roots: readOnly()}})
	require.ErrorContains(t, err, "read-only")
	err = e.Register(hello(), failing{})
	require.ErrorContains(t, err, "capability failing")
	require.Panics(t, func() { _ = e.Register(hello()) })
}

func readOnly() []capabilities.Root { return []capabilities.Root{{Path: os.TempDir(), ReadOnly: true}} }

type failing struct{}

func (failing) Name() string                          { return "failing" }
func (failing) Install(*capabilities.Registrar) error { return errRefused }

// A second executor on the same network, to see that many share a brain.
func TestManyExecutors(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		b := w.brain(brain.Options{})
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(w.ctx)
		var good atomic.Int32
		for range 20 {
			e, err := New(w.options(nil))
			require.NoError(t, err)
			require.NoError(t, e.Register(hello()))
			all.Go(func() {
				if e.Run(ctx) == nil {
					good.Add(1)
				}
			})
		}
		sleep(time.Minute)
		require.Len(t, b.Executors(), 20)
		for _, x := range b.Executors() {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
			require.NoError(t, err)
			_, err = s.Call(w.ctx, "hello", nil)
			require.NoError(t, err)
		}
		leave()
		all.Wait()
		require.EqualValues(t, 20, good.Load())
	})
}
