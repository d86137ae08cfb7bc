package executor

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
