package executor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/executor/internal/statefile"
)

// A disk that hangs holds up an answer only so long, and a change that was written
// later is kept as any other.
func TestKeeperBehindADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.InfoLevel)
		dir := t.TempDir()
		k, state, err := openKeeper(dir, zap.New(core))
		require.NoError(t, err)
		require.Empty(t, state)
		var snapshots atomic.Int32
		k.snapshot = func() statefile.State {
			snapshots.Add(1)
			return statefile.State{ExecutorID: "exe"}
		}

		began := time.Now()
		for range 3 { // nothing is written: run has not begun
			require.NoError(t, k.wait(t.Context(), k.change(true)))
		}
		require.Equal(t, 3*recordWait, time.Since(began))
		require.Len(t, logged.FilterMessageSnippet("state is not kept").All(), 1)
		require.Error(t, k.degraded())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, k.wait(ctx, k.change(true)), context.DeadlineExceeded)

		go k.run()
		require.NoError(t, k.wait(t.Context(), k.change(true)))
		synctest.Wait()
		require.NoError(t, k.degraded())
		require.Len(t, logged.FilterMessage("state is kept again").All(), 1)
		require.LessOrEqual(t, snapshots.Load(), int32(2))

		last := k.change(false) // nobody waits, and the end does
		k.stop()
		require.NoError(t, k.wait(t.Context(), last))
		require.NoError(t, k.wait(t.Context(), k.change(true))) // too late, and no reason to wait
		require.Equal(t, "exe", keptIn(t, dir).ExecutorID)
	})
}

// Changes that come while one is written cost one write together.
func TestKeeperWritesOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _, err := openKeeper(t.TempDir(), zap.NewNop())
		require.NoError(t, err)
		var snapshots atomic.Int32
		k.snapshot = func() statefile.State {
			snapshots.Add(1)
			return statefile.State{ExecutorID: "exe"}
		}
		var last uint64
		for range 1000 {
			last = k.change(true)
		}
		go k.run()
		require.NoError(t, k.wait(t.Context(), last))
		require.EqualValues(t, 1, snapshots.Load())
		for range 1000 {
			k.change(false)
		}
		time.Sleep(recordLater / 2)
		synctest.Wait()
		require.EqualValues(t, 1, snapshots.Load())
		time.Sleep(recordLater)
		synctest.Wait()
		require.EqualValues(t, 2, snapshots.Load())
		k.stop()
		require.EqualValues(t, 2, snapshots.Load())
	})
}
