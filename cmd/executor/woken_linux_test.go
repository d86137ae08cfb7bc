package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The agents of a stopped process that goes on are told so. That the machine was suspended cannot be tried here.
func TestWoken(t *testing.T) {
	agents := []*agent{{}, {}}
	defer watchWoken(agents)()
	for _, a := range agents {
		require.NotNil(t, a.options.Woken)
		require.Empty(t, a.options.Woken)
	}
	require.NoError(t, unix.Kill(unix.Getpid(), unix.SIGCONT))
	for _, a := range agents {
		select {
		case <-a.options.Woken:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was told")
		}
	}
}
