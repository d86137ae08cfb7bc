package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Who waits for it in a stopped process that goes on is told so. That the machine was suspended cannot be tried here.
func TestWoken(t *testing.T) {
	woken, stop := WatchWoken(2)
	defer stop()
	require.Len(t, woken, 2)
	for _, c := range woken {
		require.NotNil(t, c)
		require.Empty(t, c)
	}
	require.NoError(t, unix.Kill(unix.Getpid(), unix.SIGCONT))
	for _, c := range woken {
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was told")
		}
	}
}
