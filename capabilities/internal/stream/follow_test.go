package stream

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who follows a ring is told of each write by the writer, also before that waits.
func TestFollow(t *testing.T) {
	r := NewRing(10)
	r.Block()
	var ends []int64
	follow := func() {
		end := r.End()
		ends = append(ends, end)
		r.Pass(end) // so that the writer goes on
	}
	r.Follow(follow)
	_, _ = r.Write([]byte("four"))
	require.Equal(t, []int64{4}, ends)
	_, _ = r.Write([]byte("twenty-one characters"))
	require.Equal(t, []int64{4, 14, 24, 25}, ends)
	r.CloseWrite()
	r.CloseWrite()
	require.Equal(t, []int64{4, 14, 24, 25, 25}, ends)
	require.NoError(t, r.Wait(context.Background(), 25, nil))

	r = NewRing(10)
	ends = nil
	r.Follow(follow)
	r.Follow(nil)
	_, _ = r.Write([]byte("four"))
	r.CloseWrite()
	require.Empty(t, ends)
}
