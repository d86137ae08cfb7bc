//go:build unix

package cli

import (
	"fmt"
	"os"
	"syscall"
)

// foreignOwner says whose a directory is when it belongs neither to this user nor to
// root, who may do everything anyway; else "".
func foreignOwner(info os.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid == 0 || int(s.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("user %d", s.Uid)
}
