package executor

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// slowLink is a connection on which so many bytes a second go out, with a buffer before
// it as kernels have.
type slowLink struct {
	net.Conn
	perSecond int
	buffer    int
	free      time.Time // when all that was written is out
}

func (s *slowLink) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := min(len(p)-n, 4<<10)
		now := time.Now()
		if s.free.Before(now) {
			s.free = now
		}
		s.free = s.free.Add(time.Duration(k) * time.Second / time.Duration(s.perSecond))
		if ahead := s.free.Sub(now) - time.Duration(s.buffer)*time.Second/time.Duration(s.perSecond); ahead > 0 {
			time.Sleep(ahead)
		}
		m, err := s.Conn.Write(p[n : n+k])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (w *world) slowDial(perSecond int) func(context.Context, string) (rpc.Frames, error) {
	return func(ctx context.Context, token string) (rpc.Frames, error) {
		d := w.net.DialOptions()
		dial := d.NetDial
		d.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &slowLink{Conn: c, perSecond: perSecond}, nil
		}
		return rpc.Dial(ctx, "ws://brain/", d)
	}
}

// A large result over a slow way: heartbeats, cancels and what other calls
// say come between its parts, and the lease is kept (case 119).
func TestLargeResultOverASlowWay(t *testing.T) {
	const size = 3 << 19
	in(t, func(t *testing.T, w *world) {
		var dials atomic.Int64
		stored := newStored()
		h := hold()
		s := w.session(brain.Options{MaxControlFrameBytes: 32 << 20, Results: stored}, func(o *Options) {

			dial := w.slowDial(25 << 10)
			o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
				dials.Add(1)
				return dial(ctx, token)
			}
		}, image(size), hello(), h)
		sleep(time.Minute)
		big, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "image"})
		require.NoError(t, err)
		began := time.Now()
		sleep(10 * time.Second)
		held, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 15*time.Second) // the answer did not wait
		before := time.Now()
		_, err = held.Cancel(w.ctx, "enough")
		require.NoError(t, err)
		require.Less(t, time.Since(before), 5*time.Second)
		for time.Since(began) < time.Minute {
			sleep(5 * time.Second)
			require.Greater(t, w.Status().LeaseLeft, 10*time.Second)
			require.Equal(t, StateReady, w.Status().State)
		}
		r, err := big.Result(w.ctx)
		require.NoError(t, err)
		require.Len(t, r.Content[0].Data, size)
		require.EqualValues(t, 1, dials.Load())
		require.Equal(t, 1, stored.times(r.ToolCallID))
		t.Logf("%d bytes in %v", size, time.Since(began).Round(time.Second))
	})
}

// A brain that takes no parts cannot be told anything beside a large message. It gets
// that one all the same, once, and not again and again over ever new connections.
func TestLargeResultOverASlowWayWhole(t *testing.T) {
	const size = 3 << 19
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.MaxControlFrameBytes = 8 << 20
				return nil
			}
			s.behind = func(_ int, c *rpc.Conn) { c.SetMaxReceiveBytes(8 << 20) }
		})
		w.run(func(o *Options) { o.Dial = w.slowDial(25 << 10) }, image(size), hello())
		sleep(40 * time.Second)
		s.assign(1)
		require.NoError(t, s.call("big", "image"))
		sleep(5 * time.Minute)
		require.Len(t, s.so().results, 1)
		require.Len(t, s.so().results[0].Content[0].Data, size)
		require.Zero(t, w.Status().ResultsOwed)
		require.Equal(t, StateReady, w.Status().State)
		require.LessOrEqual(t, len(s.so().dials), 2) // its lease may be lost over it
	})
}
