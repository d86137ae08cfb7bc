package outbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// openAt opens a box on a machine with that start.
func openAt(t *testing.T, dir, boot string) *Box {
	b, err := open(dir, boot)
	require.NoError(t, err)
	return b
}

// imageOf is what another process would find now.
func imageOf(t *testing.T, dir string) string {
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.CopyFS(image, os.DirFS(dir)))
	return image
}

func accept(t *testing.T, b *Box, id string) {
	state, err := b.Accept(call("s", id, ""), false)
	require.NoError(t, err)
	require.Equal(t, Fresh, state)
}

// What was accepted is there after a kill; when the machine has gone down it may not be,
// and then no session is to come back, until that is settled.
func TestWentDown(t *testing.T) {
	for boot, wounded := range map[string]bool{"first": false, "second": true, "": true} {
		t.Run(boot, func(t *testing.T) {
			dir := t.TempDir()
			b := openAt(t, dir, "first")
			accept(t, b, "c")
			image := imageOf(t, dir)
			require.NoError(t, b.Close())

			for range 2 { // a kill hides nothing
				b = openAt(t, image, boot)
				require.Equal(t, wounded, b.Wounded())
				state, err := b.Lookup(call("s", "c", ""))
				require.NoError(t, err)
				require.Equal(t, Done, state, "it is not run again")
				require.NoError(t, b.Close())
			}
			b = openAt(t, image, boot)
			r := peek(t, b)
			require.Equal(t, protocol.OutcomeFailed, r.Outcome)
			b.Heal()
			accept(t, b, "d")
			require.NoError(t, b.Close())
			b = openAt(t, image, "third")
			require.False(t, b.Wounded(), "it was closed")
			require.NoError(t, b.Close())
		})
	}
}

// A process that was killed leaves what the next one has to bring to the disk.
func TestKilledWhileItLagged(t *testing.T) {
	dir := t.TempDir()
	b := openAt(t, dir, "first")
	accept(t, b, "c")
	image := imageOf(t, dir)
	require.NoError(t, b.Close())
	b = openAt(t, image, "first")
	image = imageOf(t, image)
	require.NoError(t, b.Close())
	b = openAt(t, image, "second")
	require.False(t, b.Wounded(), "all is on the disk, and nothing was accepted since")
	require.NoError(t, b.Close())
}

// With nothing accepted for a while a power loss costs no session; read-only calls never do.
func TestCalm(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := openAt(t, dir, "first")
		lags := func() bool {
			other := openAt(t, imageOf(t, dir), "second")
			defer func() { require.NoError(t, other.Close()) }()
			return other.Wounded()
		}
		_, err := b.Accept(call("s", "read", ""), true)
		require.NoError(t, err)
		require.False(t, lags())
		for i := range 3 {
			accept(t, b, fmt.Sprint(i))
			require.True(t, lags())
			time.Sleep(calmAfter * 2 / 3)
		}
		require.True(t, lags())
		time.Sleep(calmAfter)
		require.False(t, lags())
		b.Note("scope", "key", []byte("value"))
		require.True(t, lags())
		time.Sleep(calmAfter + 1)
		require.False(t, lags())
		accept(t, b, "later")
		require.True(t, lags())
		require.NoError(t, b.Close())
	})
}

// Where a start of the machine has no name, an acceptance is on the disk when it returns.
func TestNoBoot(t *testing.T) {
	dir := t.TempDir()
	b := openAt(t, dir, "")
	accept(t, b, "c")
	b.mu.Lock()
	require.Empty(t, b.late)
	b.mu.Unlock()
	image := imageOf(t, dir)
	require.NoError(t, b.Close())
	b = openAt(t, image, "")
	require.False(t, b.Wounded())
	require.NoError(t, b.Close())
}
