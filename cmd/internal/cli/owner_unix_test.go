//go:build unix

package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directory of another user is used, since there may be a reason, but not without a
// word: its owner can read and change what is in it, whatever its mode.
func TestStateDirWarningNamesTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	assert.Empty(t, StateDirWarning(dir))
	require.NoError(t, os.Chown(dir, 12345, -1))
	assert.Equal(t, "state directory "+dir+" belongs to user 12345, who can read and change what is in it; run: chown 0 "+dir, StateDirWarning(dir))
	require.NoError(t, os.Chmod(dir, 0o777))
	w := StateDirWarning(dir)
	assert.Contains(t, w, "belongs to user 12345")
	assert.Contains(t, w, "has mode 0777, so that others can look into it and change it; run: chmod 700 "+dir)

	lock, warning, err := LockState(dir, "executor")
	require.NoError(t, err)
	defer lock.Close()
	assert.Equal(t, w, warning)
}
