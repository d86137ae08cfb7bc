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
	err := unix.Renameat2(from, fromName, to, toName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return renameFree(from, fromName, to, toName) // a file system without that
	}
	return err
}

// syncFileSystem makes durable all that was written to the file system of a
// directory.
func syncFileSystem(fd int) error { return unix.Syncfs(fd) }
