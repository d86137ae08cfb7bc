package brain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

func TestRegister(t *testing.T) {
	var mu sync.Mutex
	var told []string
	o := Options{Limits: protocol.Limits{MaxProcessesPerSession: 3}, OnExecutor: func(x *Executor, connected bool) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(x.ID() != "", connected))
	}}
	in(t, o, func(t *testing.T, b *bench) {
		h, x := b.executor(func(h *hand) {
			h.tweak = func(p *protocol.RegisterParams) {
				p.Capabilities = protocol.Capabilities{}
				_ = p.Capabilities.Set(protocol.CapabilityShell, protocol.ShellDetails{Enabled: true})
			}
		})
		r := h.registered()
		require.Equal(t, x.ID(), r.ExecutorID)
		require.Equal(t, int64(30_000), r.LeaseTTLMS)
		require.Equal(t, int64(10_000), r.HeartbeatIntervalMS)
		require.Equal(t, 3, r.Limits.MaxProcessesPerSession)
		require.Equal(t, protocol.DefaultMaxInFlight, r.Limits.MaxInflightRequests)
		require.Equal(t, protocol.DefaultMaxControlFrame, r.MaxControlFrameBytes)
		require.True(t, r.BinaryFrames)
		require.Empty(t, *r.Sessions)
		require.Equal(t, "hand", x.Info().Name)
		require.True(t, x.Capabilities().Has(protocol.CapabilityShell))

		require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.ExecutorCapabilitiesUpdate,
			protocol.CapabilitiesUpdateParams{Capabilities: protocol.Capabilities{"x": []byte("true")}}))
		require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.ExecutorClose, protocol.CloseParams{Reason: "r"}))
		synctest.Wait()
		require.False(t, x.Capabilities().Has(protocol.CapabilityShell))
		require.True(t, x.Capabilities().Has("x"))

		b.net.Cut()
		synctest.Wait()
		require.False(t, x.Connected())
		time.Sleep(time.Second)
		require.True(t, x.Connected())
		require.Equal(t, []*Executor{x}, b.Executors())
		require.NotEqual(t, r.ConnectionID, h.registered().ConnectionID)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"true true", "true false", "true true"}, told)
	})
}

func TestRegisterTwiceOnOneConnection(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		b.faults.Add(rpctest.Rule{Method: protocol.ExecutorRegister.Name, Do: rpctest.Repeat})
		h, x := b.executor(nil)
		time.Sleep(time.Minute)
		require.Len(t, b.Executors(), 1)
		require.Equal(t, x.ID(), h.identity())
		require.True(t, x.Connected())
	})
}

// raw is a connection without a hand.
func (b *bench) raw(mux *rpc.Mux) *rpc.Conn {
	f, err := b.dial(b.ctx)
	require.NoError(b.t, err)
	if mux == nil {
		mux = rpc.NewMux(0)
	}
	c := rpc.NewConn(f, mux, nil)
	c.Start()
	b.hands.Go(func() { <-c.Done() })
	return c
}

func closeCode(c *rpc.Conn) int {
	var ce *rpc.CloseError
	if errors.As(c.Err(), &ce) && !ce.Local {
		return ce.Code
	}
	return 0
}

func TestRegisterRefused(t *testing.T) {
	o := Options{Authenticate: func(*http.Request) (Principal, error) { return Principal{EnvironmentID: "mine"}, nil }}
	in(t, o, func(t *testing.T, b *bench) {
		c := b.raw(nil)
		_, err := rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: "executor.v9"})
		require.ErrorIs(t, err, protocol.ErrUnsupportedProtocol)
		<-c.Done()
		require.Equal(t, protocol.CloseUnsupportedProtocol, closeCode(c))

		c = b.raw(nil)
		_, err = rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1, EnvironmentID: "other"})
		require.ErrorIs(t, err, protocol.ErrForbidden)
		<-c.Done()
		require.Equal(t, protocol.CloseRegistrationRefused, closeCode(c))
		require.Empty(t, b.Executors())
	})
}

// Nothing but a registration is answered first, and that has to come soon.
func TestRegisterComesFirst(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		c := b.raw(nil)
		start := time.Now()
		_, err := rpc.Call(b.ctx, c, protocol.ToolResult, protocol.ToolResultParams{SessionID: "s", ToolCallID: "c", Outcome: "succeeded"})
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, protocol.CodeUnauthorized, e.Code)
		require.True(t, e.Data.Retryable)
		for _, n := range []protocol.Spec{protocol.ExecutorCapabilitiesUpdate.Spec, protocol.SessionStatus.Spec,
			protocol.ToolProgress.Spec, protocol.ExecutorClose.Spec} {
			require.NoError(t, c.NotifyRaw(b.ctx, n, map[string]any{"session_id": "s", "status": "idle", "tool_call_id": "c", "capabilities": map[string]any{}}))
		}
		<-c.Done()
		require.Equal(t, protocol.ClosePolicy, closeCode(c))
		require.Equal(t, registerTimeout, time.Since(start).Truncate(time.Second))
	})
}

func TestHeartbeat(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, x := b.executor(nil)
		_, ok := x.Load()
		require.False(t, ok)
		c := h.connection()
		r, err := rpc.Call(b.ctx, c, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{
			ConnectionID: h.registered().ConnectionID, Load: &protocol.Load{CPUPercent: 5}})
		require.NoError(t, err)
		require.Equal(t, int64(30_000), r.LeaseTTLMS)
		load, ok := x.Load()
		require.True(t, ok)
		require.Equal(t, 5.0, load.CPUPercent)
		_, err = rpc.Call(b.ctx, c, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: "old"})
		require.ErrorIs(t, err, protocol.ErrConflict)

		time.Sleep(10 * time.Minute) // the hand goes on with its own
		require.True(t, x.Connected())
		require.Same(t, c, h.connection())
		require.Less(t, time.Since(x.LastSeen()), 20*time.Second)
	})
}

// A lease that ran out closes the connection and keeps the sessions.
func TestLeaseExpires(t *testing.T) {
	in(t, Options{LeaseTTL: 3 * time.Second, HeartbeatInterval: time.Second}, func(t *testing.T, b *bench) {
		h, s := b.session(func(h *hand) { h.noBeat = true })
		start := time.Now()
		c := h.connection()
		<-c.Done()
		require.Equal(t, protocol.CloseLeaseExpired, closeCode(c))
		require.Equal(t, 3*time.Second, time.Since(start).Round(time.Second))
		_, err := s.Call(b.ctx, "echo", nil) // it has come back with its session
		require.NoError(t, err)
		require.Equal(t, []string{s.ID()}, *h.registered().Sessions)
	})
}

func TestReplaced(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		old := h.connection()
		_, err := s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)

		twin := newHand(b.dial)
		twin.id, twin.active = h.identity(), []string{s.ID()}
		b.hands.Go(func() { _ = twin.live(b.ctx); twin.work.Wait() })
		<-old.Done()
		require.Equal(t, protocol.CloseReplaced, closeCode(old))
		require.True(t, s.Executor().Connected())
		_, err = s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)
		require.Len(t, twin.callCounts(), 1)
		time.Sleep(time.Minute)
		require.Same(t, old, h.connection()) // the hand gave up
		require.Len(t, b.Executors(), 1)
	})
}

func TestTwoExecutors(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h1, s1 := b.session(nil)
		h2, s2 := b.session(nil)
		require.NotEqual(t, h1.identity(), h2.identity())
		for range 3 {
			_, err := s1.Call(b.ctx, "echo", nil)
			require.NoError(t, err)
		}
		c, err := s2.Start(b.ctx, protocol.ToolCallParams{ToolCallID: "c2", Tool: "echo"})
		require.NoError(t, err)
		_, err = c.Result(b.ctx)
		require.NoError(t, err)
		require.Len(t, h1.callCounts(), 3)
		require.Len(t, h2.callCounts(), 1)

		// One cannot speak for the other.
		h2.mu.Lock()
		h2.run = block
		h2.mu.Unlock()
		c, err = s2.Start(b.ctx, protocol.ToolCallParams{ToolCallID: "c3", Tool: "sleep"})
		require.NoError(t, err)
		_, err = rpc.Call(b.ctx, h1.connection(), protocol.ToolResult,
			protocol.ToolResultParams{SessionID: s2.ID(), ToolCallID: "c3", Outcome: protocol.OutcomeFailed})
		require.ErrorIs(t, err, protocol.ErrForbidden)
		_, err = rpc.Call(b.ctx, h1.connection(), protocol.SessionEnded, protocol.SessionEndedParams{SessionID: s2.ID(), Reason: "no"})
		require.NoError(t, err)
		require.NoError(t, s2.Err())
		r, err := c.Result(b.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome)
	})
}

func TestIdentity(t *testing.T) {
	who := Principal{Name: "one"}
	o := Options{Authenticate: func(*http.Request) (Principal, error) { return who, nil }}
	in(t, o, func(t *testing.T, b *bench) {
		register := func(p Principal, id string) string {
			who = p
			c := b.raw(nil)
			defer c.Close()
			r, err := rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{
				Protocol: protocol.Version1, Resume: &protocol.Resume{ExecutorID: id}})
			require.NoError(t, err)
			return r.ExecutorID
		}
		require.Equal(t, "free", register(Principal{Name: "one"}, "free"))
		require.Equal(t, "free", register(Principal{Name: "one"}, "free"))
		require.NotEqual(t, "free", register(Principal{Name: "two"}, "free"))
		require.Equal(t, "given", register(Principal{Name: "two", ExecutorID: "given"}, "free"))
		require.NotEqual(t, "given", register(Principal{Name: "two"}, "given"))
		require.NotEqual(t, "a\nb", register(Principal{Name: "one"}, "a\nb"))
		require.NotEmpty(t, register(Principal{Name: "one"}, ""))
	})
}

func TestServeHTTPRefuses(t *testing.T) {
	var err error
	o := Options{Authenticate: func(r *http.Request) (Principal, error) {
		if r.Header.Get("Authorization") == "Bearer good" {
			return Principal{}, nil
		}
		return Principal{}, err
	}}
	in(t, o, func(t *testing.T, b *bench) {
		dial := func(url, token string) (rpc.Frames, int) {
			o := b.net.DialOptions()
			o.Token = token
			f, err := rpc.Dial(b.ctx, url, o)
			var de *rpc.DialError
			if errors.As(err, &de) {
				return nil, de.Status
			}
			require.NoError(t, err)
			return f, http.StatusSwitchingProtocols
		}
		for _, c := range []struct {
			err    error
			status int
		}{
			{protocol.ErrUnauthorized, 401}, {fmt.Errorf("token: %w", protocol.ErrForbidden), 403},
			{errors.New("database down"), 503}, {protocol.ErrExecutorBusy, 503},
		} {
			err = c.err
			_, status := dial("ws://brain/", "bad")
			require.Equal(t, c.status, status)
		}
		_, status := dial("ws://brain/?channel=terminal&terminal_id=t", "good")
		require.Equal(t, 404, status)

		f, status := dial("ws://brain/?probe=1&channel=control", "good")
		require.Equal(t, 101, status)
		_, readErr := f.ReadFrame(b.ctx)
		require.Equal(t, &rpc.CloseError{Code: protocol.CloseNormal, Reason: "probe ok"}, readErr)
		require.NoError(t, f.Close(1000, ""))
		require.Empty(t, b.Executors())

		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer good")
		b.ServeHTTP(w, r)
		require.Equal(t, 400, w.Code)
		require.NoError(t, b.Close("bye"))
		_, status = dial("ws://brain/", "good")
		require.Equal(t, 503, status)
	})
}

func TestNoSubprotocolInCommon(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		o := b.net.DialOptions()
		o.Subprotocols = []string{"executor.v9"}
		_, err := rpc.Dial(b.ctx, "ws://brain/", o)
		require.ErrorIs(t, err, protocol.ErrUnsupportedProtocol)
	})
}

func TestTokenRefresh(t *testing.T) {
	o := Options{Authenticate: func(r *http.Request) (Principal, error) {
		switch r.Header.Get("Authorization") {
		case "Bearer one", "Bearer two":
			return Principal{Name: "me"}, nil
		case "Bearer other":
			return Principal{Name: "other"}, nil
		}
		return Principal{}, protocol.ErrUnauthorized
	}}
	in(t, o, func(t *testing.T, b *bench) {
		h, _ := b.executor(func(h *hand) {
			h.dial = func(ctx context.Context) (rpc.Frames, error) {
				o := b.net.DialOptions()
				o.Token = "one"
				return rpc.Dial(ctx, "ws://brain/", o)
			}
		})
		refresh := func(token string) error {
			_, err := rpc.Call(b.ctx, h.connection(), protocol.ExecutorTokenRefresh, protocol.TokenRefreshParams{Token: token})
			return err
		}
		require.NoError(t, refresh("two"))
		require.ErrorIs(t, refresh("other"), protocol.ErrForbidden)
		require.ErrorIs(t, refresh("bad"), protocol.ErrUnauthorized)
	})
}

func TestProgress(t *testing.T) {
	got := make(chan protocol.ToolProgressParams, 2)
	in(t, Options{OnProgress: func(p protocol.ToolProgressParams) { got <- p }}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		for _, session := range []string{"not mine", s.ID()} {
			require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.ToolProgress,
				protocol.ToolProgressParams{SessionID: session, ToolCallID: "c", Message: "m"}))
		}
		synctest.Wait()
		require.Len(t, got, 1)
		require.Equal(t, s.ID(), (<-got).SessionID)
	})
}

var greet = protocol.Method[map[string]string, map[string]string]{Spec: protocol.Spec{Name: "acme.greet", From: protocol.EitherEnd}}

// Both ends may have methods of their own.
func TestOwnMethods(t *testing.T) {
	var b *bench
	hello := func(p map[string]string) map[string]string { return map[string]string{"hi": p["name"]} }
	o := Options{Handle: func(x *rpc.Mux) {
		rpc.Handle(x, greet, func(ctx context.Context, p map[string]string) (map[string]string, error) {
			x, ok := b.From(ctx)
			if !ok {
				return nil, protocol.ErrUnauthorized
			}
			p["name"] += x.Info().Name
			return hello(p), nil
		})
	}}
	in(t, o, func(t *testing.T, bb *bench) {
		b = bb
		c := b.raw(nil)
		_, err := rpc.Call(b.ctx, c, greet, nil)
		require.ErrorIs(t, err, protocol.ErrUnauthorized)
		require.NoError(t, c.Close())

		h, x := b.executor(func(h *hand) {
			h.mux = func(x *rpc.Mux) {
				rpc.Handle(x, greet, func(_ context.Context, p map[string]string) (map[string]string, error) { return hello(p), nil })
			}
		})
		r, err := Do(b.ctx, x, greet, map[string]string{"name": "x"})
		require.NoError(t, err)
		require.Equal(t, "x", r["hi"])
		r, err = rpc.Call(b.ctx, h.connection(), greet, map[string]string{"name": "from "})
		require.NoError(t, err)
		require.Equal(t, "from hand", r["hi"])
		_, err = Do(b.ctx, x, protocol.ProcessList, protocol.ProcessListParams{SessionID: "s"})
		require.ErrorIs(t, err, protocol.ErrMethodNotFound)
	})
}

// Do waits for a connection, is not repeated, and takes a connection on which
// nobody answers for dead.
func TestDo(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		var n atomic.Int32
		_, x := b.executor(func(h *hand) {
			h.mux = func(x *rpc.Mux) {
				rpc.Handle(x, greet, func(ctx context.Context, _ map[string]string) (map[string]string, error) {
					if n.Add(1) == 1 {
						<-ctx.Done()
					}
					return nil, nil
				})
			}
		})
		start := time.Now()
		_, err := Do(context.Background(), x, greet, nil)
		require.ErrorIs(t, err, rpc.ErrClosed)
		require.Equal(t, protocol.DefaultRequestTimeout, time.Since(start).Round(time.Second))
		require.Equal(t, int32(1), n.Load())
		_, err = Do(context.Background(), x, greet, nil) // when it is back
		require.NoError(t, err)
		require.Equal(t, int32(2), n.Load())
		require.Equal(t, 5*time.Second, mayWait(&protocol.ProcessReadParams{WaitMS: 5000}))
		require.Equal(t, 5*time.Second, mayWait(&protocol.ProcessStartParams{WaitMS: 5000}))
		require.Equal(t, 5*time.Second, mayWait(&protocol.SessionStopParams{DeadlineMS: 5000}))
	})
}

func TestServeFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		h := newHand(nil)
		served := make(chan error, 10)
		h.dial = func(context.Context) (rpc.Frames, error) {
			near, far := rpc.Pipe()
			go func() { served <- b.ServeFrames(far, Principal{Name: "pipe", ExecutorID: "x1"}) }()
			return near, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		lived := make(chan struct{})
		go func() {
			_ = h.live(ctx)
			h.work.Wait()
			close(lived)
		}()
		x, err := b.WaitExecutor(ctx)
		require.NoError(t, err)
		require.Equal(t, "x1", x.ID())
		s, err := x.Assign(ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		h.connection().Shutdown(protocol.CloseInternal, "trouble")
		require.ErrorContains(t, <-served, "trouble")
		r, err := s.Call(ctx, "echo", "over a pipe")
		require.NoError(t, err)
		require.Equal(t, `"over a pipe"`, text(r))
		synctest.Wait() // nothing is being sent
		cancel()
		require.NoError(t, <-served)
		<-lived
		require.NoError(t, b.Close(""))
		_, far := rpc.Pipe()
		require.ErrorIs(t, b.ServeFrames(far, Principal{}), ErrClosed)
	})
}

// Executors come back after a Shutdown: to the next Brain.
func TestShutdown(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, _ := b.session(nil)
		c := h.connection()
		require.NoError(t, b.Shutdown(b.ctx))
		<-c.Done()
		require.Equal(t, protocol.CloseGoingAway, closeCode(c))
		require.NoError(t, b.Shutdown(b.ctx))

		b.Brain = New(Options{})
		b.next.Store(b.Brain)
		x, err := b.WaitExecutor(b.ctx)
		require.NoError(t, err)
		require.Equal(t, h.identity(), x.ID()) // it keeps its id
		require.Empty(t, *h.registered().Sessions)
		s, err := x.Assign(b.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		_, err = s.Call(b.ctx, "echo", nil)
		require.NoError(t, err)
	})
}

func TestShutdownIsBounded(t *testing.T) {
	stuck := make(chan struct{})
	o := Options{Handle: func(x *rpc.Mux) {
		rpc.Handle(x, greet, func(context.Context, map[string]string) (map[string]string, error) {
			<-stuck
			return nil, nil
		})
	}}
	synctest.Test(t, func(t *testing.T) {
		stuck = make(chan struct{})
		b := newBench(t, o)
		h, _ := b.executor(nil)
		go func() { _, _ = rpc.Call(b.ctx, h.connection(), greet, nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		require.ErrorIs(t, b.Shutdown(ctx), context.DeadlineExceeded)
		close(stuck)
		b.end()
	})
}

// Executors that come once and never again are forgotten at last.
func TestForgetsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		var first *Executor
		for i := range maxAway + 10 {
			c := b.connect(&deadFrames{}, Principal{ExecutorID: fmt.Sprint(i)})
			_, _, err := c.register(protocol.RegisterParams{Protocol: protocol.Version1})
			require.NoError(t, err)
			if i == 0 {
				first, _ = b.Executor("0")
			}
			require.NoError(t, c.rpc.Close())
			time.Sleep(time.Millisecond)
		}
		require.Less(t, len(b.Executors()), maxAway)
		_, ok := b.Executor(fmt.Sprint(maxAway + 9))
		require.True(t, ok)
		_, ok = b.Executor("0")
		require.False(t, ok)
		_, err := first.Assign(t.Context(), protocol.SessionAssignParams{})
		require.ErrorIs(t, err, ErrForgotten)
		_, err = Do(t.Context(), first, greet, nil)
		require.ErrorIs(t, err, ErrForgotten)
		require.NoError(t, b.Close(""))
	})
}

type deadFrames struct{ rpc.Frames }

func (*deadFrames) Close(int, string) error { return nil }
func (*deadFrames) Subprotocol() string     { return protocol.Version1 }

func TestMemoryResults(t *testing.T) {
	put := func(m *MemoryResults, call string, size int) bool {
		fresh, err := m.Put(t.Context(), protocol.ToolResultParams{SessionID: "s", ToolCallID: call,
			Content: []protocol.Content{{Data: make([]byte, size)}}})
		require.NoError(t, err)
		return fresh
	}
	m := NewMemoryResults(10)
	for i := range 100 {
		require.True(t, put(m, fmt.Sprint(i), 1))
		require.False(t, put(m, fmt.Sprint(i), 1))
	}
	require.Len(t, m.kept, 10)
	require.LessOrEqual(t, len(m.order), 22)
	_, ok := m.Get("s", "89")
	require.False(t, ok)
	_, ok = m.Get("s", "90")
	require.True(t, ok)

	m = NewMemoryResults(0)
	for i := range 10 {
		put(m, fmt.Sprint(i), maxKeptBytes/4)
	}
	require.Len(t, m.kept, 3)
	require.True(t, put(m, "huge", 2*maxKeptBytes)) // the newest is kept, whatever its size
	require.Len(t, m.kept, 1)
}

// An executor that speaks a dialect is served in it, when it is understood.
func TestDialect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rpctest.Listen()
		b := New(Options{Dialects: rpc.BMA()})
		srv := &http.Server{Handler: b}
		go srv.Serve(l)
		defer srv.Close()
		o := l.DialOptions()
		o.Subprotocols = []string{protocol.DialectBMA11}
		f, err := rpc.Dial(t.Context(), "ws://brain/", o)
		require.NoError(t, err)
		c := rpc.NewConn(f, rpc.NewMux(0), nil)
		c.Start()
		defer c.Close()
		_, err = rpc.Call(t.Context(), c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
		require.ErrorIs(t, err, protocol.ErrUnsupportedProtocol, "another protocol than the connection's")
		time.Sleep(time.Second)

		f, err = rpc.Dial(t.Context(), "ws://brain/", o)
		require.NoError(t, err)
		c = rpc.NewConn(f, rpc.NewMux(0), nil)
		c.Start()
		r, err := rpc.Call(t.Context(), c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.DialectBMA11})
		require.NoError(t, err)
		require.Equal(t, protocol.DialectBMA11, r.Protocol)
		require.NoError(t, c.Close())
		require.NoError(t, b.Close("done"))
	})
}
