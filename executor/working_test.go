package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// What runs for a session without being a call is waited for by a drain, up to the
// deadline, and makes the session a running one.
func TestDrainWaitsForWork(t *testing.T) {
	for name, c := range map[string]struct{ works, waits time.Duration }{
		"to its end":      {20 * time.Second, 20 * time.Second},
		"to the deadline": {2 * time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var left *time.Timer
				s := w.script(nil)
				w.run(nil, tool("start", func(_ context.Context, call *capabilities.Call) (protocol.ToolOutput, error) {
					done := call.Session().Working()
					left = time.AfterFunc(c.works, func() {
						done()
						done() // only once
					})
					return protocol.Text("started"), nil
				}))
				synctest.Wait()
				s.assign(1)
				require.NoError(t, s.call("c1", "start"))
				sleep(time.Second)
				began := time.Now()
				_, err := rpc.Call(w.ctx, s.conn(), protocol.ExecutorDrain, protocol.DrainParams{DeadlineMS: 60_000})
				require.NoError(t, err)
				require.NoError(t, w.stopped())
				require.InDelta(t, c.waits.Seconds(), time.Since(began).Seconds(), 1.1)
				left.Stop()
			})
		})
	}
}
