//go:build unix

package config

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFIFOIsNotWaitedFor(t *testing.T) {
	isolate(t)
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	assert.ErrorContains(t, resolveArgs(t, "--config", path).Err(), "is not a file; name one with --config")
}
