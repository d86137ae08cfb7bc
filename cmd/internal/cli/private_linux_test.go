package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestKeepPrivate(t *testing.T) {
	require.NoError(t, KeepPrivate())
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	require.Zero(t, dumpable)
}
