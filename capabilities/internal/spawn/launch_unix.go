//go:build unix

package spawn

import (
	"io/fs"
	"os"
	"syscall"
)

// use makes the child run as the user. A nil one is the executor's own.
func (a *otherUser) use(attr *syscall.SysProcAttr) {
	if a == nil || !a.changes() && os.Getuid() != 0 { // it has what it may have
		return
	}
	attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}

func ownerOf(info fs.FileInfo) (uid, gid uint32, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Uid, st.Gid, true
}
