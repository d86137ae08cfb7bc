package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// smallDisk is a disk of 1 MiB.
func smallDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("a file system can only be mounted by root")
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fillDisk leaves no room on a disk.
func fillDisk(t *testing.T, dir string) (path string) {
	path = filepath.Join(dir, "filler")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return path
}

// A disk that becomes full while calls run, and has room again (spec section 14.12).
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	b := openIn(t, dir)
	_, err := b.Accept(call("s", "before", ""), false)
	require.NoError(t, err)
	_, err = b.Accept(call("s", "owed", ""), false)
	require.NoError(t, err)
	require.NoError(t, b.Put(result("s", "owed", "on disk")))
	filler := fillDisk(t, dir)

	// What is set aside takes what small calls need, for a while.
	text := strings.Repeat("x", 2000)
	n := 0
	for ; b.Degraded() == nil; n++ {
		id := fmt.Sprint(n)
		state, err := b.Accept(call("s", id, ""), false)
		require.NoError(t, err)
		require.Equal(t, Fresh, state)
		require.NoError(t, b.Put(result("s", id, text)))
		require.Less(t, n, 1000)
	}
	require.Greater(t, n, 150)
	require.ErrorIs(t, b.Degraded(), syscall.ENOSPC)
	require.NoError(t, b.Put(result("s", "before", "ended on a full disk")))

	// Calls go on in memory, within the limit; a large result is no exception.
	_, err = b.Accept(call("s", "large", ""), false)
	require.NoError(t, err)
	require.NoError(t, b.Put(result("s", "large", strings.Repeat("x", 1<<20))))
	m := 0
	for ; ; m++ {
		_, err := b.Accept(call("s", fmt.Sprint("m", m), ""), false)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrResourceUnavailable)
			require.ErrorContains(t, err, "the state directory cannot be written")
			break
		}
		require.NoError(t, b.Put(result("s", fmt.Sprint("m", m), strings.Repeat("x", 100_000))))
		require.Less(t, m, 100)
	}
	require.Greater(t, m, 50)

	// What is owed is delivered and acknowledged.
	require.Equal(t, "s/owed/on disk", next(t, b))
	require.NoError(t, b.Ack("s", "owed"))
	for b.Owed() > n/2 {
		require.NoError(t, b.Ack("s", peek(t, b).ToolCallID))
	}
	for i := range m {
		require.NoError(t, b.Ack("s", fmt.Sprint("m", i)))
	}
	require.NoError(t, b.Ack("s", "large"))
	_, err = b.Accept(call("s", "after", ""), false)
	require.NoError(t, err)
	require.Error(t, b.Recover(), "there is no room yet")
	left := owedNow(b)

	// There is room again: all that is in memory goes to the disk.
	require.NoError(t, os.Remove(filler))
	time.Sleep(retryFull)
	require.NoError(t, b.Recover())
	require.NoError(t, b.Degraded())
	require.Empty(t, b.unsaved)
	require.NoError(t, b.Close())
	b = openIn(t, dir)
	require.Empty(t, b.Losses())
	require.ElementsMatch(t, append(left, "after"), owedNow(b))
	for _, id := range []string{"m0", "large", "owed", "0"} {
		state, err := b.Lookup(call("s", id, ""))
		require.NoError(t, err)
		require.Equal(t, Done, state, id)
	}
	require.NoError(t, b.Close())
}

// Notes on a disk that is full are in memory, which a kill takes: then it is known that
// something is missing. With room again they are all there.
func TestNotesOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	b := openIn(t, dir)
	b.Note("s", "before", []byte("1"))
	filler := fillDisk(t, dir)
	n := 0
	for ; b.Degraded() == nil; n++ {
		b.Note("s", fmt.Sprint(n), make([]byte, 2000))
		require.Less(t, n, 1000)
	}
	b.Note("s", "before", []byte("2"))
	b.Note("s", "gone", []byte("x"))
	b.ForgetNote("s", "gone")
	require.Len(t, b.Notes("s"), n+1)

	image := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(image, "state"), os.DirFS(dir)))
	killed := openIn(t, filepath.Join(image, "state"))
	require.True(t, killed.Wounded())
	require.NoError(t, killed.Close())

	require.NoError(t, os.Remove(filler))
	time.Sleep(retryFull)
	require.NoError(t, b.Recover())
	require.NoError(t, b.Degraded())
	require.NoError(t, b.Close())
	b = openIn(t, dir)
	require.False(t, b.Wounded())
	require.Len(t, b.Notes("s"), n+1)
	require.Equal(t, "2", string(b.Notes("s")["before"]))
	require.NoError(t, b.Close())
}

// A disk that is full from the start holds up nobody.
func TestFullFromTheStart(t *testing.T) {
	dir := smallDisk(t)
	filler := fillDisk(t, dir)
	b := openIn(t, dir)
	_, err := b.Accept(call("s", "c", ""), false)
	require.NoError(t, err)
	require.NoError(t, b.Put(result("s", "c", "x")))
	require.Error(t, b.Degraded())
	require.Equal(t, "s/c/x", next(t, b))
	require.NoError(t, os.Remove(filler))
	time.Sleep(retryFull)
	_, err = b.Accept(call("s", "d", ""), false) // recovers by itself
	require.NoError(t, err)
	require.NoError(t, b.Degraded())
	require.NoError(t, b.Close())
	b = openIn(t, dir)
	require.Equal(t, []string{"c", "d"}, owedNow(b))
	require.NoError(t, b.Close())
}
