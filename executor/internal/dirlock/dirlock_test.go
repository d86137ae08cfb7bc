package dirlock

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	held, err := Lock(dir)
	require.NoError(t, err)
	_, err = Lock(dir)
	var inUse *HeldError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, HeldError{Dir: dir, PID: os.Getpid()}, *inUse)
	require.ErrorContains(t, err, fmt.Sprint(os.Getpid()))
	require.NoError(t, held.Close())
	held, err = Lock(dir) // the file of the one before is there still
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(dir, "lock"), 0)) // as while it starts, or on a full disk
	_, err = Lock(dir)
	require.ErrorAs(t, err, &inUse)
	require.Zero(t, inUse.PID)
	require.NoError(t, held.Close())
}

// A directory that is removed, or made anew, is noticed.
func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	held, err := Lock(dir)
	require.NoError(t, err)
	require.NoError(t, held.Check())
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorIs(t, held.Check(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	another, err := Lock(dir)
	require.NoError(t, err)
	require.ErrorContains(t, held.Check(), "was replaced")
	require.NoError(t, another.Check())
	require.NoError(t, another.Close())
	require.NoError(t, held.Close())
}

func TestLockOfNoFile(t *testing.T) {
	_, err := Lock(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	_, err = Lock(dir)
	require.ErrorContains(t, err, "remove it")
}

// It can be asked who has a directory, without taking it.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	look := func(pid int, held bool) {
		t.Helper()
		p, h, err := Holder(dir)
		require.NoError(t, err)
		require.Equal(t, pid, p)
		require.Equal(t, held, h)
	}
	look(0, false)
	require.NoFileExists(t, filepath.Join(dir, "lock"), "nothing is made")
	held, err := Lock(dir)
	require.NoError(t, err)
	look(os.Getpid(), true)
	require.NoError(t, held.Close())
	look(0, false)
	held, err = Lock(dir)
	require.NoError(t, err)
	require.NoError(t, held.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "lock")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	_, _, err = Holder(dir)
	require.ErrorContains(t, err, "remove it")
}
