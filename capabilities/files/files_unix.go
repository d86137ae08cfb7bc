//go:build !windows

package files

import (
	"fmt"
	"io/fs"
	"syscall"
)

// nonblock keeps an open from waiting on a FIFO that took the file's name.
const nonblock = syscall.O_NONBLOCK

// identity names what info is of among all files there are, "" where that is not
// known.
func identity(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
	}
	return ""
}

// inodeKey is the lock of a file with several names, "" for any other.
func inodeKey(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return "inode " + identity(info)
	}
	return ""
}

// device is the file system that info is of.
func device(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Dev)
	}
	return 0
}
