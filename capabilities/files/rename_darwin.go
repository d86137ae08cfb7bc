package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameAt is rename between two directories that are open. Without replace there
// must be nothing under the new name, which is decided at the moment it is taken.
func renameAt(from int, fromName string, to int, toName string, replace bool) error {
	if replace {
		return unix.Renameat(from, fromName, to, toName)
	}
	err := unix.RenameatxNp(from, fromName, to, toName, unix.RENAME_EXCL)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return renameFree(from, fromName, to, toName) // a file system without that
	}
	return err
}

func syncFileSystem(int) error { return unix.Sync() }
