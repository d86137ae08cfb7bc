package cli

import (
	"fmt"
	"os"
	"syscall"
)

// isJournal reports whether a file is the one that JOURNAL_STREAM names: device:inode.
// The variable alone says nothing, since it is inherited by what redirects its output.
func isJournal(f *os.File, stream string) bool {
	info, err := f.Stat()
	if err != nil || stream == "" {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
