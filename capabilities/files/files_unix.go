//go:build !windows

package files

import (
	"fmt"
	"io/fs"
	"syscall"
)

// nonblock keeps an open from waiting on a FIFO that took the file's name.
const nonblock = syscall.O_NONBLOCK

// inodeKey is the lock of a file with several names, "" for any other.
func inodeKey(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return fmt.Sprintf("inode %d:%d", s.Dev, s.Ino)
	}
	return ""
}
