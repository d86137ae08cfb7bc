package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLockState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	lock, warning, err := LockState(dir, "executor")
	require.NoError(t, err)
	assert.Empty(t, warning)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}

	_, _, err = LockState(dir, "executor")
	assert.ErrorContains(t, err, fmt.Sprintf("another executor (pid %d) uses the state directory %s", os.Getpid(), dir))
	assert.ErrorContains(t, err, "--state-dir")
	assert.Equal(t, ExitFailed, Code(err))

	require.NoError(t, lock.Close())
	again, _, err := LockState(dir, "executor")
	require.NoError(t, err, "free again")
	require.NoError(t, again.Close())
}

// A lock that is let go in a moment, as by what a killed process leaves behind, is waited
// for.
func TestLockStateWaitsAMoment(t *testing.T) {
	dir := t.TempDir()
	lock, _, err := LockState(dir, "executor")
	require.NoError(t, err)
	freed := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { freed <- lock.Close() })
	again, _, err := LockState(dir, "executor")
	require.NoError(t, err)
	require.NoError(t, <-freed)
	require.NoError(t, again.Close())
}

func TestLockStateSaysWhatIsWrong(t *testing.T) {
	home := t.TempDir()
	for given, says := range map[string]string{home: "--state-dir is empty; name a directory, or leave it out for " + home, "": "HOME is not set"} {
		t.Setenv("STATE_DIRECTORY", "")
		t.Setenv("XDG_STATE_HOME", "")
		t.Setenv("HOME", given)
		t.Setenv("USERPROFILE", given)
		_, _, err := LockState("", "executor")
		assert.ErrorContains(t, err, says)
		assert.Equal(t, ExitUsage, Code(err))
	}

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, _, err := LockState(filepath.Join(file, "state"), "executor")
	assert.ErrorContains(t, err, "name another with --state-dir")

	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o755))
	lock, warning, err := LockState(open, "executor")
	require.NoError(t, err)
	defer lock.Close()
	if runtime.GOOS != "windows" {
		assert.Contains(t, warning, "has mode 0755")
		assert.Contains(t, warning, "chmod 700 "+open)
	}
}

func TestDefaultDirectories(t *testing.T) {
	t.Setenv("HOME", "/home/who")
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	assert.Equal(t, "/home/who/.local/state/executor", filepath.ToSlash(DefaultStateDir("executor")))
	assert.Equal(t, "/home/who/.config/executor/config.yaml", filepath.ToSlash(DefaultConfigFile("executor")))
	t.Setenv("XDG_STATE_HOME", "relative")
	assert.Equal(t, "/home/who/.local/state/executor", filepath.ToSlash(DefaultStateDir("executor")), "a relative one is ignored")
	t.Setenv("XDG_STATE_HOME", "/xdg")
	t.Setenv("XDG_CONFIG_HOME", "/conf")
	assert.Equal(t, "/xdg/executor", filepath.ToSlash(DefaultStateDir("executor")))
	assert.Equal(t, "/conf/executor/config.yaml", filepath.ToSlash(DefaultConfigFile("executor")))
	t.Setenv("STATE_DIRECTORY", "/var/lib/executor"+string(filepath.ListSeparator)+"/var/lib/other")
	assert.Equal(t, "/var/lib/executor", DefaultStateDir("executor"))
}
