//go:build unix

package audit

import (
	"os"
	"syscall"
)

// removed says that an open file has no name any more.
func removed(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}
