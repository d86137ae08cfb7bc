package brain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallAndStop(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		_, s := b.session(nil)
		r, err := s.Call(b.ctx, "echo", map[string]int{"n": 1})
		require.NoError(t, err)
		require.Equal(t, `{"n":1}`, text(r))
		require.NoError(t, s.Stop(b.ctx, "done"))
		require.Empty(t, s.Executor().Sessions())
		require.NoError(t, s.Stop(b.ctx, "again"))
	})
}
