package files

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when the inode was changed last, which no program can set.
func changeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctimespec.Unix())
	}
	return info.ModTime()
}
