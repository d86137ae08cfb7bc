package spawn

import (
	"os"

	"golang.org/x/sys/unix"
)

// widePipe is the capacity of the pipe of a program that prints much: it is stopped and started less
// often. It is not for all, since the system gives an ordinary user 64 MB for what is above bufferSize,
// and pipes of two pages when those are used up.
const widePipe = 256 << 10

// widen gives a pipe that capacity, if the system allows it.
func widen(file *os.File) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
}
