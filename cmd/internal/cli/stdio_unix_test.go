//go:build unix

package cli

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	assert.False(t, ReaderGone(w))
	require.NoError(t, r.Close())
	assert.True(t, ReaderGone(w))
	assert.False(t, ReaderGone(&bytes.Buffer{}))
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	assert.False(t, ReaderGone(null))
	require.NoError(t, null.Close())
	assert.False(t, ReaderGone(null))
}

func TestUntilSignal(t *testing.T) {
	ctx, stop := UntilSignal(t.Context())
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGPIPE))
	require.NoError(t, ctx.Err())
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
}
