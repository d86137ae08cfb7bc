//go:build !windows

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps an open from waiting on a FIFO that took the file's name. It also
// spares Go four calls of the system's to find out that a file is always ready.
const nonblock = syscall.O_NONBLOCK

// attributes are what a new inode needs to stand in for an old one.
type attributes struct {
	info  fs.FileInfo
	links uint64
	uid   int
	gid   int
	extra map[string][]byte // extended attributes, access lists among them
}

func readAttributes(f *os.File, info fs.FileInfo) (*attributes, error) {
	a := &attributes{info: info, links: 1, uid: -1, gid: -1}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		a.links, a.uid, a.gid = uint64(sys.Nlink), int(sys.Uid), int(sys.Gid)
	}
	var err error
	if a.extra, err = readExtra(f); err != nil {
		return nil, fmt.Errorf("read extended attributes: %w", err)
	}
	return a, nil
}

// apply gives f the attributes, the owner before the mode because a change of
// owner clears the set-user-ID bits.
func (a *attributes) apply(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && (int(sys.Uid) != a.uid || int(sys.Gid) != a.gid) {
		if err := f.Chown(a.uid, a.gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(fileMode(a.info)); err != nil {
		return err
	}
	return writeExtra(f, a.extra)
}

func fileMode(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// writable asks without opening the file: an open for writing would be seen by
// those who watch it, and fails for a running program, which may be replaced.
func writable(dir *os.File, name string, _ fs.FileInfo) error {
	err := unix.Faccessat(int(dir.Fd()), name, unix.W_OK, unix.AT_EACCESS)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) {
		return err
	}
	return nil
}

// isMountPoint reports whether a rename failed because the name is a mount point,
// as single files are in containers.
func isMountPoint(err error) bool {
	return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV)
}

// syncDir syncs a directory. Some file systems have nothing to sync there.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
