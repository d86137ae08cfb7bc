package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openNameless makes a file in dir that has no name: it is gone when it is closed, or when
// this process is.
func openNameless(dir *os.File, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, uint32(perm.Perm()))
		if err != unix.EINTR {
			return os.NewFile(uintptr(fd), tempPrefix), err
		}
	}
}

// giveName gives a name to a file that has none, if nothing else has it.
func giveName(f, dir *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// renameNew gives a file a name that is still free.
func renameNew(dir *os.Root, handle *os.File, from, to string) error {
	fd := int(handle.Fd())
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return linkNew(dir, from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// reserve takes the space for size bytes without changing what is in the file.
func reserve(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil // else the file system has no such call: the copy has to do
}
