package capabilities

import (
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// below opens rel below the directory top, unless there is a symbolic link or another
// file system on the way or rel is a link itself. It is one call of the kernel's, so
// nothing can be put on the way meanwhile. The error is one of the kernel's, also
// when it knows no such call.
func below(top *os.File, rel string, flags uint64) (fd int, err error) {
	raw, err := top.SyscallConn()
	if err != nil {
		return -1, err
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	if e := raw.Control(func(dir uintptr) {
		for {
			if fd, err = unix.Openat2(int(dir), rel, &how); err != unix.EINTR {
				return
			}
		}
	}); e != nil {
		return -1, e
	}
	return fd, err
}

// openRegular looks before it opens, because opening alone makes some devices do
// something. What it opened may be something else by then: the caller looks again.
func openRegular(top *os.File, rel string, others []fs.FileInfo) (*os.File, bool) {
	fd, err := below(top, rel, unix.O_PATH)
	if err != nil {
		return nil, false
	}
	var before unix.Stat_t
	err = unix.Fstat(fd, &before)
	unix.Close(fd)
	if err != nil || before.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, false
	}
	fd, err = below(top, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, false
	}
	if throughRoot(top, rel, others) {
		unix.Close(fd)
		return nil, false
	}
	return os.NewFile(uintptr(fd), rel), true
}

// linkless reports that rel is there below top and that no link is on the way. With
// follow it is none itself either, and neither it nor a directory on the way is one of
// the other roots.
func linkless(top *os.File, rel string, follow bool, others []fs.FileInfo) bool {
	flags := uint64(unix.O_PATH)
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := below(top, rel, flags)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return !throughRoot(top, rel+"/", others)
}

// throughRoot reports that a directory on the way to rel, which is below top, is another
// root: under another name, since under its own the way would begin there. What cannot be
// looked at may be one.
func throughRoot(top *os.File, rel string, others []fs.FileInfo) bool {
	if len(others) == 0 {
		return false
	}
	raw, err := top.SyscallConn()
	if err != nil {
		return true
	}
	through := false
	err = raw.Control(func(dir uintptr) {
		for at := 0; !through; at++ {
			n := strings.IndexByte(rel[at:], '/')
			if n < 0 {
				return
			}
			at += n
			var st unix.Stat_t
			if unix.Fstatat(int(dir), rel[:at], &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				through = true
			}
			for _, info := range others {
				s, ok := info.Sys().(*syscall.Stat_t)
				through = through || !ok || s.Dev == st.Dev && s.Ino == st.Ino
			}
		}
	})
	return through || err != nil
}
