//go:build unix

package audit

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever removes the log while it is written does not have what comes then go nowhere, and it shows.
func TestRemovedWhileItIsWritten(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"all":      os.RemoveAll,
		"the file": func(dir string) error { return os.Remove(filepath.Join(dir, fileName(1))) },
		"the head": func(dir string) error { return os.Remove(filepath.Join(dir, headName)) },
		"moved":    func(dir string) error { return os.Rename(dir, dir+"2") },
		"renamed":  func(dir string) error { return os.Rename(filepath.Join(dir, fileName(1)), filepath.Join(dir, "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			l := open(t, Options{Dir: dir})
			write(t, l, 3)
			require.NoError(t, remove(dir))
			write(t, l, 2)
			require.NoError(t, l.Close())
			list := all(t, dir)
			kept := list[len(list)-4:]
			require.Equal(t, EventRemoved, kept[0].Event)
			require.Equal(t, []Event{EventDecided, EventDecided, EventStop}, []Event{kept[1].Event, kept[2].Event, kept[3].Event})
			require.EqualValues(t, 5, kept[0].Seq, "the numbers go on")
			r, err := Verify(dir)
			require.NoError(t, err)
			require.NotEmpty(t, r.Problems)
			require.Contains(t, strings.Join(r.Problems, "\n"), "taken away")
		})
	}
}

// A place where nothing can be made again is a disk that takes no line.
func TestRemovedForGood(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "state", "audit")
	l := open(t, Options{Dir: dir})
	require.NoError(t, os.RemoveAll(filepath.Join(parent, "state")))
	require.NoError(t, os.WriteFile(filepath.Join(parent, "state"), nil, 0o600))
	write(t, l, 2)
	lost, why := l.Lost()
	require.EqualValues(t, 2, lost)
	require.ErrorContains(t, why, "state")
	_ = l.Close()
}

// What somebody else has put under the names of the log neither hangs it nor is written to.
func TestStrangersInTheDirectory(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	for name, put := range map[string]func(path string) error{
		"FIFO": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink(precious, path) },
		"copy": func(path string) error { return os.Link(precious, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
			l := open(t, Options{Dir: dir, MaxBytes: 600})
			require.NoError(t, put(filepath.Join(dir, fileName(2))))
			write(t, l, 10)
			require.NoError(t, os.Remove(filepath.Join(dir, headName)))
			require.NoError(t, put(filepath.Join(dir, headName)))
			write(t, l, 1)
			_, err := Verify(dir)
			require.NoError(t, err)
			lost, _ := l.Lost()
			require.Zero(t, lost)
			require.NoError(t, l.Close())
			l = open(t, Options{Dir: dir})
			write(t, l, 1)
			require.NoError(t, l.Close())
			text, err := os.ReadFile(precious)
			require.NoError(t, err)
			if name != "copy" { // whoever makes a hard link of it to a name of the log has it for the log
				require.Equal(t, "precious", string(text))
			}
		})
	}
}

// Only what the log itself has removed for its age may be missing at the beginning.
func TestOldestAreTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, Options{Dir: dir, MaxBytes: 600, Keep: 4})
	write(t, l, 20)
	require.NoError(t, l.Close())
	require.True(t, good(t, dir).Rotated)
	numbers, err := files(dir)
	require.NoError(t, err)
	require.Len(t, numbers, 4)
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(numbers[0]))))
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(numbers[1]))))
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(numbers[2]))))
	r, err := Verify(dir)
	require.NoError(t, err)
	require.False(t, r.Rotated)
	require.Contains(t, r.Problems[0], "are missing")
}
