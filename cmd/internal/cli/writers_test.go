package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChangedByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "f")
	why, _, _ := ChangedByOthers(path)
	assert.Empty(t, why, "it is not there")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	for _, c := range []struct {
		mode, dirMode os.FileMode
		why, remedy   string
		anybody       bool
	}{
		{0o644, 0o755, "", "", false},
		{0o664, 0o755, "has mode 0664, so that its group can change it", "chmod g-w " + path, false},
		{0o606, 0o755, "has mode 0606, so that everybody can change it", "chmod go-w " + path, true},
		{0o600, 0o757, "is in " + dir + ", of mode 0757, where everybody can replace it", "chmod go-w " + dir, true},
		{0o600, 0o777 | os.ModeSticky, "", "", false},
	} {
		require.NoError(t, os.Chmod(path, c.mode))
		require.NoError(t, os.Chmod(dir, c.dirMode))
		why, remedy, anybody := ChangedByOthers(path)
		assert.Equal(t, c.why, why)
		assert.Equal(t, c.remedy, remedy)
		assert.Equal(t, c.anybody, anybody)
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.Chown(path, 12345, -1))
		why, remedy, anybody := ChangedByOthers(path)
		assert.Equal(t, "belongs to user 12345, who can change it", why)
		assert.Equal(t, "chown 0 "+path, remedy)
		assert.True(t, anybody)
	}
}

func TestCheckStateDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.NoError(t, CheckStateDir(dir, "executor"))
	assert.NoError(t, CheckStateDir(filepath.Join(dir, "a", "b"), "executor"))
	assert.NoDirExists(t, filepath.Join(dir, "a"))
	assert.ErrorContains(t, CheckStateDir(file, "executor"), file+" is not a directory; name another with --state-dir")
	assert.ErrorContains(t, CheckStateDir(filepath.Join(file, "a", "b"), "executor"), file+" is not a directory")
	assert.ErrorContains(t, CheckStateDir("", "executor"), "--state-dir")
}
