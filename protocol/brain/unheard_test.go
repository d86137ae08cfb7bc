package brain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// The answer to the first register was lost: the executor never learns its id, and
// whoever waits for it under that id is told.
func TestExecutorThatNeverLearntItsID(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		c := b.raw(nil)
		_, err := rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
		require.NoError(t, err)
		x, err := b.WaitExecutor(b.ctx)
		require.NoError(t, err)
		require.NoError(t, c.Close())

		began := time.Now()
		_, err = x.Assign(b.ctx, protocol.SessionAssignParams{})
		require.ErrorIs(t, err, ErrForgotten)
		require.LessOrEqual(t, time.Since(began), protocol.DefaultRequestTimeout)
		require.Empty(t, b.Executors())

		_, other := b.executor(nil) // the same one, for all that can be known
		_, err = other.Assign(b.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
	})
}

// One that did read the answer, and comes back with its id, is the same one, however
// little it said before.
func TestExecutorThatComesBackSoonIsTheSame(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		c := b.raw(nil)
		_, err := rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
		require.NoError(t, err)
		x, err := b.WaitExecutor(b.ctx)
		require.NoError(t, err)
		require.NoError(t, c.Close())

		time.Sleep(10 * time.Second)
		h, same := b.executor(func(h *hand) { h.id = x.ID() })
		require.Same(t, x, same)
		require.Equal(t, x.ID(), h.identity())
		time.Sleep(time.Hour / 2)
		require.True(t, x.Connected())
	})
}

// One that was heard of is waited for, for as long as it takes.
func TestExecutorThatWasHeardOfIsWaitedFor(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		c := b.raw(nil)
		r, err := rpc.Call(b.ctx, c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
		require.NoError(t, err)
		_, err = rpc.Call(b.ctx, c, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: r.ConnectionID})
		require.NoError(t, err)
		x, err := b.WaitExecutor(b.ctx)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		time.Sleep(time.Hour / 2)
		require.Equal(t, []*Executor{x}, b.Executors())
	})
}
