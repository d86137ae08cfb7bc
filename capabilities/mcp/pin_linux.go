package mcp

import (
	"os"
	"syscall"
)

// changed is when the file or its names were last changed, which nobody can set back.
func changed(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctim.Nano()
	}
	return 0
}
