//go:build !windows

package files

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// renameFree looks before it renames: the best there is on some file systems.
func renameFree(from int, fromName string, to int, toName string) error {
	var st unix.Stat_t
	err := unix.Fstatat(to, toName, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		return unix.EEXIST
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return unix.Renameat(from, fromName, to, toName)
}

// rename gives what is at one place another, and makes that durable.
func rename(from, to place, replace bool) error {
	a, err := from.dir.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.dir.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	if err := renameAt(int(a.Fd()), from.name, int(b.Fd()), to.name, replace); err != nil {
		return err
	}
	_, _ = b.Sync(), a.Sync() // some file systems have nothing to sync there
	return nil
}

func syncRoot(dir *os.Root) error {
	handle, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	return handle.Sync()
}

// syncTree makes durable what was written below dir.
func syncTree(dir *os.Root) error {
	handle, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	return syncFileSystem(int(handle.Fd()))
}

func isOtherDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }
func isBusy(err error) bool        { return errors.Is(err, syscall.EBUSY) }
func isNotEmpty(err error) bool    { return errors.Is(err, syscall.ENOTEMPTY) }
