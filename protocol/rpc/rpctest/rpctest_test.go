package rpctest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bubble(t *testing.T, test func(t *testing.T)) {
	runtime.GC() // rpc pools channels, which belong to one bubble
	runtime.GC()
	synctest.Test(t, test)
}

func TestNetPipe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := NetPipe()
		n, err := a.Write([]byte("hello"))
		require.NoError(t, err)
		require.Equal(t, 5, n)
		p := make([]byte, 3)
		n, err = b.Read(p)
		require.NoError(t, err)
		require.Equal(t, "hel", string(p[:n]))

		start := time.Now()
		require.NoError(t, a.SetDeadline(start.Add(time.Second)))
		_, err = a.Read(p)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		_, err = a.Write(make([]byte, pipeBuffer))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, a.SetDeadline(time.Time{}))

		go func() { // a full buffer waits for its reader
			_, _ = a.Write(make([]byte, 3*pipeBuffer))
			_ = a.Close()
		}()
		all, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, 2+3*pipeBuffer, len(all))
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = a.Read(p)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write(p)
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, b.Close())
	})
}

func TestNetPipeStallAndCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := NetPipe()
		a.Stall(true)
		_, err := a.Write([]byte("later"))
		require.NoError(t, err)
		got := make(chan string, 1)
		go func() {
			p := make([]byte, 10)
			n, _ := b.Read(p)
			got <- string(p[:n])
		}()
		synctest.Wait()
		require.Empty(t, got)
		a.Stall(false)
		require.Equal(t, "later", <-got)

		_, err = a.Write([]byte("lost"))
		require.NoError(t, err)
		a.Cut()
		_, err = b.Read(make([]byte, 10))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestListener(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Dial(ctx) // nobody accepts
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Close())
		_, err = l.Dial(t.Context())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		require.Empty(t, l.live())
	})
}

var (
	ask  = protocol.Method[params, params]{Spec: protocol.Spec{Name: "x.ask"}}
	tell = protocol.Notification[params]{Spec: protocol.Spec{Name: "x.tell", Notify: true}}
)

type params struct {
	N    int    `json:"n"`
	Data []byte `json:"data,omitempty"`
}

func (p *params) Blob() *[]byte { return &p.Data }

// ends are a server that echoes, and clients over faults.
type ends struct {
	t      *testing.T
	faults *Faults
	dial   func() (rpc.Frames, error)
	asked  atomic.Int32
	told   atomic.Int32

	mu     sync.Mutex
	served []*rpc.Conn
}

func (e *ends) client() *rpc.Conn {
	f, err := e.dial()
	require.NoError(e.t, err)
	c := rpc.NewConn(f, rpc.NewMux(0), nil)
	c.Start()
	return c
}

func (e *ends) ask(c *rpc.Conn) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), 10*time.Second)
	defer cancel()
	_, err := rpc.Call(ctx, c, ask, params{N: 1})
	return err
}

func (e *ends) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.served {
		_ = c.Close()
	}
}

// over runs a test over a pipe and over a WebSocket.
func over(t *testing.T, rules []Rule, test func(t *testing.T, e *ends)) {
	serve := func(t *testing.T, e *ends) func(rpc.Frames) {
		mux := rpc.NewMux(0)
		rpc.Handle(mux, ask, func(_ context.Context, p params) (params, error) { e.asked.Add(1); return p, nil })
		rpc.HandleNotification(mux, tell, func(context.Context, params) { e.told.Add(1) })
		return func(f rpc.Frames) {
			c := rpc.NewConn(f, mux, nil)
			e.mu.Lock()
			e.served = append(e.served, c)
			e.mu.Unlock()
			c.SetBinary(true)
			c.Start()
		}
	}
	t.Run("pipe", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := &ends{t: t, faults: NewFaults(rules...)}
			take := serve(t, e)
			e.dial = func() (rpc.Frames, error) {
				near, far := rpc.Pipe()
				take(far)
				return e.faults.Wrap(near, nil), nil
			}
			defer e.end()
			test(t, e)
		})
	})
	t.Run("websocket", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := &ends{t: t, faults: NewFaults(rules...)}
			take := serve(t, e)
			l := Listen()
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if f, err := rpc.Accept(w, r, rpc.AcceptOptions{}); err == nil {
					take(f)
				}
			})}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(l) })
			defer serving.Wait()
			defer server.Close()
			e.dial = func() (rpc.Frames, error) { return e.faults.Dial(t.Context(), "ws://x/", l.DialOptions()) }
			defer e.end()
			test(t, e)
		})
	})
}

func TestNoFaults(t *testing.T) {
	over(t, nil, func(t *testing.T, e *ends) {
		c := e.client()
		defer c.Close()
		c.SetBinary(true)
		c.SetMaxReceiveBytes(1 << 20)
		require.Equal(t, protocol.Version1, c.Subprotocol())
		for range 100 {
			require.NoError(t, e.ask(c))
		}
		r, err := rpc.Call(t.Context(), c, ask, params{Data: []byte("binary")})
		require.NoError(t, err)
		require.Equal(t, "binary", string(r.Data))
		require.NoError(t, rpc.Notify(t.Context(), c, tell, params{}))
		synctest.Wait()
		require.Equal(t, int32(1), e.told.Load())
		require.NoError(t, c.Close())
		require.Empty(t, e.faults.live)
	})
}

func TestActions(t *testing.T) {
	deadline := context.DeadlineExceeded
	for name, c := range map[string]struct {
		rule  Rule
		err   error // of the first call
		asked int32 // requests that arrived by the first call
		alive bool  // the connection after it
		next  error // of the second call
		after int32 // requests that arrived by both
	}{
		"drop":              {Rule{Method: ask.Name, Do: Drop}, deadline, 0, true, nil, 1},
		"drop answer":       {Rule{Method: ask.Name, Answer: true, Do: Drop}, deadline, 1, true, nil, 2},
		"repeat":            {Rule{Method: ask.Name, Do: Repeat}, nil, 2, true, nil, 3},
		"repeat answer":     {Rule{Method: ask.Name, Answer: true, Do: Repeat}, nil, 1, true, nil, 2},
		"delay":             {Rule{Method: ask.Name, Do: Delay(5 * time.Second)}, nil, 1, true, nil, 2},
		"delay answer":      {Rule{Method: ask.Name, Answer: true, Do: Delay(5 * time.Second)}, nil, 1, true, nil, 2},
		"stall":             {Rule{Method: ask.Name, Do: Stall}, deadline, 0, true, deadline, 0},
		"stall answer":      {Rule{Method: ask.Name, Answer: true, Do: Stall}, deadline, 1, true, deadline, 2},
		"cut before":        {Rule{Method: ask.Name, Do: CutBefore}, rpc.ErrClosed, 0, false, rpc.ErrClosed, 0},
		"cut after":         {Rule{Method: ask.Name, Do: CutAfter}, rpc.ErrClosed, 1, false, rpc.ErrClosed, 1},
		"cut before answer": {Rule{Method: ask.Name, Answer: true, Do: CutBefore}, rpc.ErrClosed, 1, false, rpc.ErrClosed, 1},
		"cut after answer":  {Rule{Method: ask.Name, Answer: true, Do: CutAfter}, nil, 1, false, rpc.ErrClosed, 1},
		"second":            {Rule{Method: ask.Name, Nth: 2, Do: Drop}, nil, 1, true, deadline, 1},
		"every":             {Rule{Method: ask.Name, Nth: -1, Do: Drop}, deadline, 0, true, deadline, 0},
		"any method":        {Rule{Do: Drop}, deadline, 0, true, nil, 1},
		"another method":    {Rule{Method: tell.Name, Nth: -1, Do: Drop}, nil, 1, true, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			over(t, []Rule{c.rule}, func(t *testing.T, e *ends) {
				conn := e.client()
				defer conn.Close()
				require.ErrorIs(t, e.ask(conn), c.err)
				synctest.Wait()
				require.Equal(t, c.asked, e.asked.Load())
				require.Equal(t, c.alive, conn.Context().Err() == nil)
				require.ErrorIs(t, e.ask(conn), c.next)
				synctest.Wait()
				require.Equal(t, c.after, e.asked.Load())
			})
		})
	}
}

// What is watched is every message, also one that a fault then takes away.
func TestWatch(t *testing.T) {
	over(t, []Rule{{Method: ask.Name, Answer: true, Nth: 2, Do: Drop}}, func(t *testing.T, e *ends) {
		var seen []string
		e.faults.Watch(func(method string, answer bool) { seen = append(seen, fmt.Sprint(method, " ", answer)) })
		conn := e.client()
		defer conn.Close()
		require.NoError(t, e.ask(conn))
		require.ErrorIs(t, e.ask(conn), context.DeadlineExceeded)
		e.faults.Watch(nil)
		require.Equal(t, []string{ask.Name + " false", ask.Name + " true", ask.Name + " false", ask.Name + " true"}, seen)
	})
}

// Faults count over connections.
func TestFaultsOverConnections(t *testing.T) {
	over(t, []Rule{{Method: ask.Name, Nth: 3, Do: CutBefore}}, func(t *testing.T, e *ends) {
		for range 2 {
			c := e.client()
			require.NoError(t, e.ask(c))
			require.NoError(t, c.Close())
		}
		c := e.client()
		defer c.Close()
		require.ErrorIs(t, e.ask(c), ErrCut)
	})
}

// A cut is no close: over a network the peer sees no close message.
func TestCutNow(t *testing.T) {
	over(t, nil, func(t *testing.T, e *ends) {
		one, two := e.client(), e.client()
		require.NoError(t, e.ask(one))
		e.faults.CutNow()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, c := range append([]*rpc.Conn{one, two}, e.served...) {
			<-c.Done()
			var ce *rpc.CloseError
			require.ErrorAs(t, errAsClose(c.Err()), &ce)
			require.Equal(t, 1006, ce.Code)
		}
		require.Empty(t, e.faults.live)
	})
}

// errAsClose gives every end that is no close message the code 1006.
func errAsClose(err error) error {
	if ce, ok := err.(*rpc.CloseError); ok {
		return ce
	}
	return &rpc.CloseError{Code: 1006}
}

// Below the WebSocket, keep-alive notices a network that stalls.
func TestStalledNetwork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := Listen()
		got := make(chan *rpc.Conn, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f, err := rpc.Accept(w, r, rpc.AcceptOptions{}); err == nil {
				c := rpc.NewConn(f, rpc.NewMux(0), nil)
				c.Start()
				got <- c
			}
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		defer serving.Wait()
		defer server.Close()
		f, err := rpc.Dial(t.Context(), "ws://x/", l.DialOptions())
		require.NoError(t, err)
		near := rpc.NewConn(f, rpc.NewMux(0), nil)
		near.Start()
		far := <-got
		time.Sleep(10 * time.Minute)
		require.NoError(t, near.Err())
		l.Stall(true)
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, near.Err(), rpc.ErrSilent)
		require.ErrorIs(t, far.Err(), rpc.ErrSilent)
		l.Stall(false)
		<-near.Done()
		<-far.Done()
	})
}
