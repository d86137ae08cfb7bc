//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadTokenDoesNotWaitForAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := ReadToken(path)
	assert.ErrorContains(t, err, "is a FIFO, not a file")
}

// Who can write a token file decides who the executor is.
func TestReadTokenThatEverybodyCanWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600))
	require.NoError(t, os.Chmod(path, 0o602))
	_, err := ReadToken(path)
	assert.ErrorContains(t, err, "has mode 0602")
	assert.ErrorContains(t, err, "chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o644)) // a warning; see TokenFileWarning
	_, err = ReadToken(path)
	assert.NoError(t, err)
}
