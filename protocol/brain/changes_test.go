package brain

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

func TestChanged(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		changed := func(c <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		c := b.Changed()
		require.False(t, changed(c))
		h, _ := b.executor(nil)
		require.True(t, changed(c), "one has come")
		c = b.Changed()
		require.False(t, changed(c))
		require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.ExecutorCapabilitiesUpdate,
			protocol.CapabilitiesUpdateParams{Capabilities: protocol.Capabilities{}}))
		require.True(t, changed(c), "it can do something else")
		c = b.Changed()
		h.connection().Shutdown(protocol.CloseGoingAway, "test")
		require.True(t, changed(c), "it has gone")
	})
}

func TestFollow(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		var mine, other atomic.Int64
		stop := s.Follow("a", func(p protocol.ToolProgressParams) {
			require.Equal(t, "words", p.Message)
			mine.Add(1)
		})
		defer s.Follow("b", func(protocol.ToolProgressParams) { other.Add(1) })()
		say := func() {
			require.NoError(t, rpc.Notify(b.ctx, h.connection(), protocol.ToolProgress,
				protocol.ToolProgressParams{SessionID: s.ID(), ToolCallID: "a", Message: "words"}))
			synctest.Wait()
		}
		say()
		say()
		stop()
		say()
		require.EqualValues(t, 2, mine.Load())
		require.Zero(t, other.Load())
	})
}
