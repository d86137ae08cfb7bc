package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

func TestMain(m *testing.M) {
	if os.Getenv("RPC_BENCH_SERVER") != "" {
		benchServer()
	}
	goleak.VerifyTestMain(m)
}

type echoParams struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

type echoResult struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

var (
	echo  = protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "test.echo"}}
	laned = protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "test.laned"},
		Lane: func(p echoParams) string { return p.Text }}
	block = protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "test.block"}}
	note  = protocol.Notification[echoParams]{Spec: protocol.Spec{Name: "test.note", Notify: true}}
)

func echoMux(limit int) *rpc.Mux {
	x := rpc.NewMux(limit)
	rpc.Handle(x, echo, func(_ context.Context, p echoParams) (echoResult, error) { return echoResult(p), nil })
	rpc.Handle(x, block, func(ctx context.Context, p echoParams) (echoResult, error) {
		<-ctx.Done()
		return echoResult{}, ctx.Err()
	})
	return x
}

// pair connects two ends in memory.
func pair(t *testing.T, server *rpc.Mux, opts *rpc.Options) (client, srv *rpc.Conn) {
	a, b := rpc.Pipe()
	client, srv = rpc.NewConn(a, rpc.NewMux(0), nil), rpc.NewConn(b, server, opts)
	client.Start()
	srv.Start()
	t.Cleanup(func() { client.Close(); srv.Close() })
	return client, srv
}

func TestCallAndNotify(t *testing.T) {
	x := echoMux(0)
	got := make(chan echoParams, 10)
	rpc.HandleNotification(x, note, func(_ context.Context, p echoParams) { got <- p })
	c, _ := pair(t, x, nil)
	r, err := rpc.Call(t.Context(), c, echo, echoParams{"hi <&> \u2028", 3})
	require.NoError(t, err)
	require.Equal(t, echoResult{"hi <&> \u2028", 3}, r)
	for i := range 3 {
		require.NoError(t, rpc.Notify(t.Context(), c, note, echoParams{N: i}))
	}
	for i := range 3 {
		require.Equal(t, i, (<-got).N)
	}
}

func TestManyAtOnce(t *testing.T) {
	c, _ := pair(t, echoMux(1000), nil)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for j := range 20 {
				text := strings.Repeat("x", (i*j)%9000)
				r, err := rpc.Call(t.Context(), c, echo, echoParams{text, i})
				if err != nil || r.N != i || r.Text != text {
					t.Errorf("call %d/%d: %v %v", i, j, r.N, err)
				}
			}
		})
	}
	wg.Wait()
}

// Ids are echoed as they came; malformed frames are answered with id null and end
// nothing (case X1).
func TestRawFrames(t *testing.T) {
	a, b := rpc.Pipe()
	srv := rpc.NewConn(b, echoMux(0), nil)
	srv.Start()
	t.Cleanup(func() { srv.Close() })
	ask := func(frame string) string {
		require.NoError(t, a.WriteFrame(t.Context(), []byte(frame)))
		f, err := a.ReadFrame(t.Context())
		require.NoError(t, err)
		return string(f)
	}
	for _, id := range []string{`"a\"b"`, `-1`, `0`, `9007199254740993`, `""`} {
		require.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"text":"","n":4}}`,
			ask(`{"jsonrpc":"2.0","id":`+id+`,"method":"test.echo","params":{"n":4}}`))
	}
	for frame, code := range map[string]int{`{"jsonrpc":"2.0","id":"1"`: -32700, `[]`: -32600, `null`: -32600,
		`{"jsonrpc":"2.0","method":5,"id":"1"}`: -32600, `{"jsonrpc":"2.0","method":"a","id":{}}`: -32600} {
		require.Contains(t, ask(frame), fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,`, code), frame)
	}
	require.Contains(t, ask(`{"jsonrpc":"2.0","id":"1","method":"no.such"}`), `"id":"1","error":{"code":-32601`)
	require.Contains(t, ask(`{"jsonrpc":"2.0","id":"1","method":"test.echo","params":{"n":"x"}}`), `"code":-32602,"message":"n: want an integer, got`)
	require.Contains(t, ask(`{"jsonrpc":"2.0","id":"1","method":"test.echo","params":[]}`), `"id":"1","error":{"code":-32602`)
	// An answer nobody waits for is ignored, whatever its id is.
	for _, id := range []string{`"1"`, `1`, `null`, `"x"`} {
		require.NoError(t, a.WriteFrame(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)))
		require.NoError(t, a.WriteFrame(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+id+`,"error":{"code":1,"message":"x"}}`)))
	}
	require.Contains(t, ask(`{"jsonrpc":"2.0","id":"9","method":"test.echo"}`), `"id":"9","result"`)
}

// One more than the limit is refused at once, and the slot comes back.
func TestInFlightLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, echoMux(2), nil)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { _, _ = rpc.Call(ctx, c, block, echoParams{}) }()
		}
		synctest.Wait()
		_, err := rpc.Call(t.Context(), c, echo, echoParams{})
		require.ErrorIs(t, err, protocol.ErrExecutorBusy)
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.Data.Retryable)
		cancel()
		synctest.Wait()
	})
}

// A peer that keeps exactly its limit in flight is never refused.
func TestLimitIsReachable(t *testing.T) {
	c, _ := pair(t, echoMux(4), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if _, err := rpc.Call(t.Context(), c, echo, echoParams{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Requests of one lane run in order of arrival, one at a time; those of others beside
// them.
func TestLanes(t *testing.T) {
	x := rpc.NewMux(1000)
	var mu sync.Mutex
	seen := map[string][]int{}
	var inLane atomic.Int32
	rpc.Handle(x, laned, func(_ context.Context, p echoParams) (echoResult, error) {
		if p.Text == "a" {
			if inLane.Add(1) > 1 {
				t.Error("two at once in one lane")
			}
			defer inLane.Add(-1)
		}
		mu.Lock()
		seen[p.Text] = append(seen[p.Text], p.N)
		mu.Unlock()
		return echoResult{}, nil
	})
	a, b := rpc.Pipe()
	srv := rpc.NewConn(b, x, nil)
	srv.Start()
	t.Cleanup(func() { srv.Close() })
	go func() {
		for i := range 300 {
			for _, lane := range []string{"a", "b", ""} {
				_ = a.WriteFrame(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"test.laned","params":{"text":%q,"n":%d}}`, i, lane, i))
			}
		}
	}()
	for range 900 {
		_, err := a.ReadFrame(t.Context())
		require.NoError(t, err)
	}
	for _, lane := range []string{"a", "b"} {
		for i, n := range seen[lane] {
			require.Equal(t, i, n, lane)
		}
	}
	require.Len(t, seen[""], 300)
}

// A panic harms only its own request; its text stays here.
func TestPanicAndPlainError(t *testing.T) {
	x := echoMux(0)
	boom := protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "test.boom"}}
	rpc.Handle(x, boom, func(_ context.Context, p echoParams) (echoResult, error) {
		if p.N == 1 {
			panic("secret panic")
		}
		return echoResult{}, errors.New("secret error")
	})
	type told struct {
		text  string
		stack bool
	}
	logged := make(chan told, 2)
	c, _ := pair(t, x, &rpc.Options{OnInternalError: func(_ string, err error, stack []byte) {
		logged <- told{err.Error(), len(stack) > 0}
	}})
	for n, want := range []told{{"secret error", false}, {"panic: secret panic", true}} {
		_, err := rpc.Call(t.Context(), c, boom, echoParams{N: n})
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, protocol.CodeInternalError, e.Code)
		require.NotContains(t, e.Message, "secret")
		require.Equal(t, want, <-logged)
	}
	_, err := rpc.Call(t.Context(), c, echo, echoParams{})
	require.NoError(t, err)
}

func TestCallEndsWithItsContext(t *testing.T) {
	c, _ := pair(t, echoMux(0), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := rpc.Call(ctx, c, block, echoParams{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = rpc.Call(t.Context(), c, echo, echoParams{})
	require.NoError(t, err)
}

// Close frees everybody: calls get ErrClosed, handlers' contexts end, and it waits
// for them.
func TestClose(t *testing.T) {
	x := rpc.NewMux(0)
	var ended atomic.Bool
	rpc.Handle(x, block, func(ctx context.Context, p echoParams) (echoResult, error) {
		<-ctx.Done()
		time.Sleep(time.Second)
		ended.Store(true)
		return echoResult{}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := rpc.Pipe()
		c, srv := rpc.NewConn(a, rpc.NewMux(0), nil), rpc.NewConn(b, x, nil)
		c.Start()
		srv.Start()
		failed := make(chan error)
		go func() {
			_, err := rpc.Call(t.Context(), c, block, echoParams{})
			failed <- err
		}()
		synctest.Wait()
		go srv.Close()
		err := <-failed
		require.ErrorIs(t, err, rpc.ErrClosed)
		var closed *rpc.CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, protocol.CloseNormal, closed.Code)
		require.NoError(t, srv.Close())
		require.True(t, ended.Load(), "Close waits for handlers")
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		_, err = rpc.Call(t.Context(), c, echo, echoParams{})
		require.ErrorIs(t, err, rpc.ErrClosed)
		require.ErrorIs(t, rpc.Notify(t.Context(), c, note, echoParams{}), rpc.ErrClosed)
	})
}

func TestCloseBeforeStart(t *testing.T) {
	a, _ := rpc.Pipe()
	c := rpc.NewConn(a, rpc.NewMux(0), nil)
	require.NoError(t, c.Close())
	<-c.Done()
}

// What was sent before Shutdown arrives before the close.
func TestShutdownFlushes(t *testing.T) {
	got := make(chan int, 100)
	x := rpc.NewMux(0)
	rpc.HandleNotification(x, note, func(_ context.Context, p echoParams) { got <- p.N })
	c, srv := pair(t, x, nil)
	for i := range 50 {
		require.NoError(t, rpc.Notify(t.Context(), c, note, echoParams{N: i, Text: strings.Repeat("x", 20000)}))
	}
	c.Shutdown(protocol.CloseGoingAway, "bye")
	<-srv.Done()
	require.Len(t, got, 50)
	var closed *rpc.CloseError
	require.ErrorAs(t, srv.Err(), &closed)
	require.Equal(t, "bye", closed.Reason)
}

// Calls both ways at once, from inside handlers too, do not wait for each other
// (case 123).
func TestHandlersCallBack(t *testing.T) {
	a, b := rpc.Pipe()
	mux := func() *rpc.Mux {
		x := echoMux(100)
		rpc.Handle(x, laned, func(ctx context.Context, p echoParams) (echoResult, error) {
			if p.N == 0 {
				return echoResult{N: 42}, nil
			}
			return rpc.Call(ctx, rpc.FromContext(ctx), laned, echoParams{Text: fmt.Sprint(p.N), N: p.N - 1})
		})
		return x
	}
	c, srv := rpc.NewConn(a, mux(), nil), rpc.NewConn(b, mux(), nil)
	c.Start()
	srv.Start()
	t.Cleanup(func() { c.Close(); srv.Close() })
	r, err := rpc.Call(t.Context(), c, laned, echoParams{Text: "x", N: 20})
	require.NoError(t, err)
	require.Equal(t, 42, r.N)
}

// The answer's hook has run before the next message is looked at.
func TestCallInOrder(t *testing.T) {
	a, b := rpc.Pipe()
	x := rpc.NewMux(0)
	var ready atomic.Bool
	wrong := make(chan bool, 1)
	rpc.HandleNotification(x, note, func(context.Context, echoParams) { wrong <- !ready.Load() })
	c := rpc.NewConn(a, x, nil)
	c.Start()
	t.Cleanup(func() { c.Close() })
	for range 100 {
		ready.Store(false)
		go func() {
			var m struct{ ID json.RawMessage }
			f, _ := b.ReadFrame(t.Context())
			_ = json.Unmarshal(f, &m)
			_ = b.WriteFrame(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"n":1}}`, m.ID))
			_ = b.WriteFrame(t.Context(), []byte(`{"jsonrpc":"2.0","method":"test.note","params":{}}`))
		}()
		_, err := rpc.CallInOrder(t.Context(), c, echo, echoParams{}, func(r echoResult) { ready.Store(r.N == 1) })
		require.NoError(t, err)
		require.False(t, <-wrong)
	}
}

func TestTooLargeToSend(t *testing.T) {
	c, srv := pair(t, echoMux(0), nil)
	_, err := rpc.Call(t.Context(), c, echo, echoParams{Text: strings.Repeat("x", 2<<20)})
	require.ErrorIs(t, err, protocol.ErrPayloadTooLarge)
	srv.SetMaxSendBytes(1000)
	_, err = rpc.Call(t.Context(), c, echo, echoParams{Text: strings.Repeat("x", 2000)})
	require.ErrorIs(t, err, protocol.ErrPayloadTooLarge, "an answer that is too large is an error answer")
}

// Notifications that come faster than they are handled are bounded; the newest stay.
func TestNotificationsAreBounded(t *testing.T) {
	x := echoMux(0)
	release := make(chan struct{})
	var last atomic.Int64
	rpc.HandleNotification(x, note, func(_ context.Context, p echoParams) { <-release; last.Store(int64(p.N)) })
	c, srv := pair(t, x, nil)
	for i := range 3000 {
		require.NoError(t, rpc.Notify(t.Context(), c, note, echoParams{N: i}))
	}
	_, err := rpc.Call(t.Context(), c, echo, echoParams{})
	require.NoError(t, err, "a handler that hangs stops nothing else")
	close(release)
	require.Eventually(t, func() bool { return last.Load() == 2999 }, 5*time.Second, time.Millisecond)
	require.Greater(t, srv.Dropped(), int64(1900))
}

func TestMuxMistakes(t *testing.T) {
	x := echoMux(0)
	require.Panics(t, func() {
		rpc.Handle(x, echo, func(context.Context, echoParams) (echoResult, error) { return echoResult{}, nil })
	})
}

// Any bytes: no panic, and well-formed requests between them are answered.
func FuzzConn(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"1","method":"test.echo","params":{"n":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"1","method":"test.laned","params":{"text":"a"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"test.note","params":{"n":"x"}}`))
	f.Add([]byte("\x00\x00\x00\x02{}data"))
	f.Add([]byte(`[`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"0","result":5}`))
	x := echoMux(0)
	rpc.Handle(x, laned, func(_ context.Context, p echoParams) (echoResult, error) { return echoResult(p), nil })
	rpc.HandleNotification(x, note, func(context.Context, echoParams) {})
	f.Fuzz(func(t *testing.T, frame []byte) {
		a, b := rpc.Pipe()
		srv := rpc.NewConn(b, x, nil)
		srv.Start()
		defer srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for range 2 {
			if err := a.WriteFrame(ctx, frame); err != nil {
				t.Fatal(err)
			}
		}
		const ours = `"id":"well-formed"`
		if err := a.WriteFrame(ctx, []byte(`{"jsonrpc":"2.0","id":"well-formed","method":"test.echo"}`)); err != nil {
			t.Fatal(err)
		}
		for {
			answer, err := a.ReadFrame(ctx)
			if err != nil {
				t.Fatalf("connection lost after %q: %v", frame, err)
			}
			if strings.Contains(string(answer), ours) {
				return
			}
		}
	})
}

// Send does not wait: not for the answer, not for a peer that does not read; then is
// called once, also when the connection ends.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, srv := pair(t, echoMux(0), nil)
		got := make(chan error, 2000)
		require.NoError(t, rpc.Send(c, echo, echoParams{N: 7}, func(r echoResult, err error) {
			require.Equal(t, 7, r.N)
			got <- err
		}))
		require.NoError(t, <-got)
		require.NoError(t, rpc.Send(c, protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "no.such"}}, echoParams{}, func(_ echoResult, err error) { got <- err }))
		require.ErrorIs(t, <-got, protocol.ErrMethodNotFound)
		require.ErrorIs(t, rpc.Send(c, echo, echoParams{Text: strings.Repeat("x", 2<<20)}, nil), protocol.ErrPayloadTooLarge)
		require.NoError(t, rpc.Send(c, block, echoParams{}, func(_ echoResult, err error) { got <- err }))
		srv.Shutdown(protocol.CloseGoingAway, "")
		require.ErrorIs(t, <-got, rpc.ErrClosed)
		require.ErrorIs(t, rpc.Send(c, echo, echoParams{}, nil), rpc.ErrClosed)
	})
	synctest.Test(t, func(t *testing.T) {
		a, _ := rpc.Pipe() // nobody reads the other end
		c := rpc.NewConn(a, rpc.NewMux(0), nil)
		c.Start()
		lost, sent := 0, 0
		for {
			err := rpc.Send(c, echo, echoParams{Text: strings.Repeat("x", 100_000)}, func(_ echoResult, err error) {
				require.ErrorIs(t, err, rpc.ErrClosed)
				lost++
			})
			if err != nil {
				require.ErrorIs(t, err, rpc.ErrNoRoom)
				break
			}
			sent++
			synctest.Wait()
		}
		require.Less(t, sent, 100)
		require.NoError(t, c.Close())
		require.Equal(t, sent, lost)
	})
}

// What a handler has follow its answer comes behind it, and comes also when the answer
// cannot be sent any more.
func TestHandleThen(t *testing.T) {
	after := protocol.Method[echoParams, echoResult]{Spec: protocol.Spec{Name: "test.after"}}
	x := rpc.NewMux(0)
	ran := make(chan bool, 1)
	rpc.HandleThen(x, after, func(ctx context.Context, p echoParams) (echoResult, func(), error) {
		return echoResult(p), func() {
			_ = rpc.Send(rpc.FromContext(ctx), echo, p, func(echoResult, error) {})
			ran <- true
		}, nil
	})
	a, b := rpc.Pipe()
	c := rpc.NewConn(b, x, nil)
	c.Start()
	t.Cleanup(func() { c.Close() })
	for range 100 {
		require.NoError(t, a.WriteFrame(t.Context(), []byte(`{"jsonrpc":"2.0","id":"q","method":"test.after","params":{"n":1}}`)))
		for _, want := range []string{`"id":"q","result"`, `"method":"test.echo"`} {
			f, err := a.ReadFrame(t.Context())
			require.NoError(t, err)
			require.Contains(t, string(f), want)
		}
		<-ran
	}
}
