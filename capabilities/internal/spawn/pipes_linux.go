package spawn

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// outputPipe is a pipe whose writing end is a child's. os.Pipe would watch both ends and make both of them
// non-blocking, and take that back for the child's: half of a start's system calls, and the watched end
// wakes a thread for nothing.
func outputPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_, err = unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_NONBLOCK) // before NewFile, which asks
	if err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// nullDevice opens it for a child, without an attempt to watch it.
func nullDevice() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
