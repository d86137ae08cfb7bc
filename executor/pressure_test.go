package executor

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
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

// valve is a connection on which nothing more goes out while it is shut: the window of
// a brain that does not read is full. What comes in does so.
type valve struct {
	net.Conn
	shut  *atomic.Bool
	ended chan struct{}
	once  sync.Once
}

func (v *valve) Write(p []byte) (int, error) {
	for v.shut.Load() {
		select {
		case <-v.ended:
			return 0, net.ErrClosed
		case <-time.After(100 * time.Millisecond):
		}
	}
	return v.Conn.Write(p)
}

func (v *valve) Close() error {
	v.once.Do(func() { close(v.ended) })
	return v.Conn.Close()
}

// A brain that stops reading while many calls finish and say what they do: what
// waits for it is bounded, what is left out is counted, and when it is back every result
// comes, once.
func TestBrainThatStopsReading(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var shut atomic.Bool
		stored := newStored()
		var ran atomic.Int64
		output := bytes.Repeat([]byte("x"), 64<<10)
		chatty := tool("chatty", func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
			ran.Add(1)
			for range 20 {
				c.Output("stdout", output)
			}
			return protocol.Text(strings.Repeat("r", 20<<10)), nil
		})
		s := w.script(func(s *script) {
			s.result = func(_ int, p protocol.ToolResultParams) (bool, error) {
				_, err := stored.Put(w.ctx, p)
				return err == nil, err
			}
		})
		w.run(func(o *Options) {
			o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
				d := w.net.DialOptions()
				dial := d.NetDial
				d.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return &valve{Conn: c, shut: &shut, ended: make(chan struct{})}, nil
				}
				return rpc.Dial(ctx, "ws://brain/", d)
			}
		}, chatty)
		synctest.Wait()
		s.assign(1)
		sleep(31 * time.Second)
		runtime.GC()
		var before, during runtime.MemStats
		runtime.ReadMemStats(&before)
		shut.Store(true)
		const calls = 150
		c := s.conn()
		var asked sync.WaitGroup
		for n := range calls {
			asked.Go(func() {
				time.Sleep(time.Duration(n) * 20 * time.Millisecond) // or most are refused: too many at once
				_, _ = rpc.Call(w.ctx, c, protocol.ToolCall, protocol.ToolCallParams{SessionID: "s1", ToolCallID: fmt.Sprint("c", n), Tool: "chatty"})
			})
		}
		sleep(20 * time.Second)
		runtime.GC()
		runtime.ReadMemStats(&during)
		grown := (int64(during.HeapAlloc) - int64(before.HeapAlloc)) >> 20
		st := w.Status()
		t.Logf("%d calls ran, %d results owed, %d notifications dropped, %d MiB more", ran.Load(), st.ResultsOwed, st.NotificationsDropped, grown)
		require.Less(t, grown, int64(40))
		require.EqualValues(t, calls, ran.Load())
		require.Positive(t, st.NotificationsDropped)

		sleep(30 * time.Second) // then no heartbeat was answered
		require.NotEqual(t, StateReady, w.Status().State)
		shut.Store(false)
		asked.Wait()
		sleep(5 * time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		require.Zero(t, w.Status().ResultsOwed)
		require.EqualValues(t, len(stored.stored()), ran.Load())
		require.Zero(t, w.Status().ResultsLost)
	})
}

// A message limit that is smaller than the brain said ends the connection with 1009,
// once: the result is replaced, whether it goes whole or in parts (case 117).
func TestSmallerLimitThanSaid(t *testing.T) {
	for _, parts := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			s := w.script(func(s *script) {
				s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
					r.MaxControlFrameBytes, r.MessageParts = 4<<20, parts
					return nil
				}
			})
			w.run(func(o *Options) { o.Dial = w.plainDial }, image(1<<20), hello())
			sleep(40 * time.Second)
			s.assign(1)
			require.NoError(t, s.call("big", "image"))
			sleep(20 * time.Second)
			require.NoError(t, s.call("small", "hello"))
			sleep(time.Minute)
			require.Len(t, s.so().dials, 2)
			require.Len(t, s.so().results, 2)
			require.Equal(t, "payload_too_large", s.so().results[0].Error.Reason)
			require.Equal(t, "big", s.so().results[0].ToolCallID)
			require.Equal(t, protocol.OutcomeSucceeded, s.so().results[1].Outcome)
			require.Contains(t, w.Status().LastError, "1009")
		})
	}
}

// real is a brain and an executor over a real network.
type real struct {
	*brain.Brain
	server *httptest.Server
	conns  sync.Map // net.Conn, the executor's
	ping   time.Duration
}

func (r *real) dial(ctx context.Context, token string) (rpc.Frames, error) {
	return rpc.Dial(ctx, strings.Replace(r.server.URL, "http", "ws", 1)+"/", rpc.DialOptions{Token: token, PingInterval: r.ping,
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				r.conns.Store(c, true)
			}
			return c, err
		}})
}

func onNetwork(t *testing.T, o brain.Options) *real {
	r := &real{Brain: brain.New(o)}
	r.server = httptest.NewServer(r.Brain)
	t.Cleanup(func() {
		require.NoError(t, r.Close("test ends"))
		r.server.Close()
	})
	return r
}

// run runs an executor until the test ends.
func (r *real) run(t *testing.T, change func(*Options), caps ...capabilities.Capability) *Executor {
	o := Options{Dial: r.dial, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
		Workspace: Workspace{Roots: []capabilities.Root{{Path: t.TempDir()}}}}
	if change != nil {
		change(&o)
	}
	e, err := New(o)
	require.NoError(t, err)
	require.NoError(t, e.Register(caps...))
	ctx, leave := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	t.Cleanup(func() {
		leave()
		require.NoError(t, <-ran)
	})
	return e
}

// Parallel results of 70 KB, with heartbeats and pings every 10 ms beside them: one at
// a time writes (case 115).
func TestParallelResultsAndHeartbeats(t *testing.T) {
	r := onNetwork(t, brain.Options{})
	r.ping = 10 * time.Millisecond
	e := r.run(t, func(o *Options) { o.InlineResultBytes = 100 << 10 }, says("much", func(string) protocol.ToolOutput {
		return protocol.Text(strings.Repeat("x", 70<<10))
	}))
	x, err := r.WaitExecutor(t.Context())
	require.NoError(t, err)
	s, err := x.Assign(t.Context(), protocol.SessionAssignParams{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() {
		for ctx.Err() == nil {
			c, err := e.waitConn(ctx)
			if err == nil {
				_, _ = rpc.Call(ctx, c.rpc, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: c.id})
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	var calls sync.WaitGroup
	for range 32 {
		calls.Go(func() {
			for range 3 {
				got, err := s.Call(t.Context(), "much", nil)
				require.NoError(t, err)
				require.Len(t, text(got), 70<<10)
			}
		})
	}
	calls.Wait()
	stop()
	beats.Wait()
	require.Empty(t, e.Status().LastError)
}

// Ends of a connection under heavy results, of every kind: no panic, no deadlock, nothing
// lost and nothing twice (case 116). 40 of them, and with EXECUTOR_STRESS 200.
func TestEndsUnderHeavyResults(t *testing.T) {
	stored := newStored()
	r := onNetwork(t, brain.Options{Results: stored, Authenticate: func(*http.Request) (brain.Principal, error) {
		return brain.Principal{Name: "n", ExecutorID: "exe"}, nil
	}})
	var mu sync.Mutex
	ran := map[string]int{}
	e := r.run(t, func(o *Options) { o.InlineResultBytes = 300 << 10 }, tool("much", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
		mu.Lock()
		ran[c.ID()]++
		mu.Unlock()
		return protocol.Text(strings.Repeat("x", 200<<10)), nil
	}))
	x, err := r.WaitExecutor(t.Context())
	require.NoError(t, err)
	s, err := x.Assign(t.Context(), protocol.SessionAssignParams{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		calls.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Call(t.Context(), "much", nil)
				require.NoError(t, err)
				require.Len(t, text(got), 200<<10)
				done.Add(1)
			}
		})
	}
	ends := 40
	if os.Getenv("EXECUTOR_STRESS") != "" {
		ends = 200
	}
	for n := range ends {
		c, err := e.waitConn(t.Context())
		require.NoError(t, err)
		<-time.After(rand.N(15 * time.Millisecond)) // at whatever is going on then
		switch n % 4 {
		case 0: // the network
			r.conns.Range(func(k, _ any) bool {
				_ = k.(net.Conn).Close()
				r.conns.Delete(k)
				return true
			})
		case 1: // this end, in the middle of a write
			c.rpc.Shutdown(protocol.CloseInternal, "by the test")
		case 2: // this end, because the lease is said to be gone
			select {
			case c.failed <- errLeaseLost:
			default:
			}
		case 3: // both
			go c.rpc.Shutdown(protocol.CloseInternal, "by the test")
			_ = c.rpc.Close()
		}
		e.awaitLoss(t.Context(), c)
	}
	stop()
	calls.Wait()
	require.Eventually(t, func() bool { return e.Status().ResultsOwed == 0 }, 20*time.Second, time.Millisecond)
	require.Len(t, stored.stored(), int(done.Load()))
	for id, n := range ran {
		require.Equal(t, 1, n, id)
	}
	t.Logf("%d calls over %d connections", done.Load(), ends)
	require.NoError(t, e.Drain(t.Context()))
}
