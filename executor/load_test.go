package executor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain"
)

// The brain is told how busy the machine is, with every heartbeat.
func TestLoad(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		b := w.brain(brain.Options{})
		w.loaded = true
		w.run(nil)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		_, ok := x.Load()
		require.False(t, ok, "no heartbeat yet")
		for range 10_000 { // time does not pass for the processor as it does here
			if sleep(11 * time.Second); x.Connected() {
				if _, ok = x.Load(); ok {
					break
				}
			}
		}
		l, ok := x.Load()
		require.True(t, ok)
		require.True(t, l.CPUPercent >= 0 && l.CPUPercent <= 100, l.CPUPercent)
		require.True(t, l.MemoryPercent > 0 && l.MemoryPercent < 100, l.MemoryPercent)
	})
}
