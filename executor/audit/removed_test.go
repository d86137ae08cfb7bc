//go:build unix

package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever removes the log while it is written does not have what comes then go nowhere, and it shows.
func TestRemovedWhileItIsWritten(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"all":      os.RemoveAll,
		"the file": func(dir string) error { return os.Remove(filepath.Join(dir, fileName(1))) },
		"the head": func(dir string) error { return os.Remove(filepath.Join(dir, headName)) },
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
			require.Contains(t, r.Problems[0], "removed")
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
