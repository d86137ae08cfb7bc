package spawn

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen gives a pipe the capacity of a wide one; false when the system does not allow it.
func widen(file *os.File) (wide bool) {
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.Control(func(fd uintptr) {
		_, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe)
		wide = err == nil
	})
	return wide
}
