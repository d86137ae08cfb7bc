package rpc_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// A handler that blocks holds up the messages behind it for a millisecond or two; for twenty
// at most when hundreds before it were quick, and not a second time.
func TestBlockingHandlerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := echoMux(0)
		begun, end := make(chan int), make(chan struct{})
		rpc.HandleNotification(x, note, func(_ context.Context, p echoParams) {
			if p.N > 0 {
				begun <- p.N
				<-end
			}
		})
		l, conns := rpctest.Listen(), make(chan *rpc.Conn, 1)
		srv := &http.Server{Handler: accepting(x, rpc.AcceptOptions{}, conns)}
		go srv.Serve(l)
		defer srv.Close()
		f, err := rpc.Dial(t.Context(), "ws://brain/", l.DialOptions())
		require.NoError(t, err)
		c := rpc.NewConn(f, rpc.NewMux(0), nil)
		c.Start()
		s := <-conns
		heldUp := func(n int) time.Duration {
			require.NoError(t, rpc.Notify(t.Context(), c, note, echoParams{N: n}))
			require.Equal(t, n, <-begun)
			start := time.Now()
			_, err := rpc.Call(t.Context(), c, echo, echoParams{})
			require.NoError(t, err)
			end <- struct{}{}
			return time.Since(start)
		}
		require.LessOrEqual(t, heldUp(1), 2*time.Millisecond)
		for range 300 { // each of them alone, with the clock ticking
			require.NoError(t, rpc.Notify(t.Context(), c, note, echoParams{}))
			synctest.Wait()
			time.Sleep(100 * time.Microsecond)
		}
		require.LessOrEqual(t, heldUp(2), 20*time.Millisecond)
		require.LessOrEqual(t, heldUp(3), 2*time.Millisecond)
		c.Close()
		s.Close()
	})
}
