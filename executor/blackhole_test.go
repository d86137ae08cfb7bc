package executor

import (
	"context"
	"net"
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

// tap is a network connection that tells how many bytes were written to it.
type tap struct {
	net.Conn
	wrote func(n int)
}

func (t *tap) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	t.wrote(n)
	return n, err
}

// image is a tool whose result is a picture of n bytes.
func image(n int) capabilities.Capability {
	return says("image", func(string) protocol.ToolOutput {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i * 7)
		}
		return protocol.ToolOutput{Content: []protocol.Content{{Type: protocol.ContentImage, MIMEType: "image/png", Data: data}}}
	})
}

// The network swallows everything from the middle of a large result on, and closes
// nothing: both ends notice within 30 s, and the result comes over the next connection,
// once (case 96).
func TestBlackHoleInALargeResult(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		const size = 3 << 20
		var armed atomic.Bool
		var swallowed time.Time
		var left atomic.Int64
		gone := make(chan time.Duration, 10) // how long the brain took
		b := w.brain(brain.Options{MaxControlFrameBytes: 8 << 20,
			OnExecutor: func(_ *brain.Executor, connected bool) {
				if !connected {
					gone <- time.Since(swallowed)
				}
			}})
		var lost time.Time
		w.run(func(o *Options) {
			o.OnState = func(s State) {
				if s == StateWaiting && lost.IsZero() {
					lost = time.Now()
				}
			}
			o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
				d := w.net.DialOptions()
				dial := d.NetDial
				d.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return &tap{c, func(n int) {
						if armed.Load() && left.Add(int64(-n)) < 0 && armed.CompareAndSwap(true, false) {
							swallowed = time.Now()
							w.net.Stall(true)
						}
					}}, nil
				}
				return rpc.Dial(ctx, "ws://brain/", d)
			}
		}, image(size))
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		sleep(time.Minute + 3*time.Second)

		left.Store(1 << 20)
		armed.Store(true)
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "image"})
		require.NoError(t, err)
		synctest.Wait()
		require.False(t, swallowed.IsZero())
		sleep(31 * time.Second) // and a second for the close that nobody hears
		require.NotEqual(t, StateReady, w.Status().State)
		require.Less(t, lost.Sub(swallowed), 30*time.Second+closePatience)
		require.Less(t, <-gone, 30*time.Second+closePatience)
		require.Equal(t, 1, w.Status().ResultsOwed)
		w.net.Stall(false)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Len(t, r.Content[0].Data, size)
		require.Less(t, time.Since(swallowed), time.Minute+15*time.Second)
		sleep(time.Minute)
		require.Zero(t, w.Status().ResultsOwed)
		require.Equal(t, StateReady, w.Status().State)
		t.Logf("the executor noticed after %v", lost.Sub(swallowed))
	})
}
