//go:build unix

package spawn

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drain delivers as many bytes as are in the pipe at this moment. Not more: a descendant may be writing
// without end.
func drain(file *os.File, buf []byte, sink Sink) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), fionread)
		for err == nil && left > 0 {
			var n int
			n, err = unix.Read(int(fd), buf[:min(left, len(buf))])
			if err == unix.EINTR {
				err = nil
				continue
			}
			if n <= 0 {
				return
			}
			sink(buf[:n])
			left -= n
		}
	})
}

// settleWithoutDeadline is not needed: pipes have deadlines here.
func settleWithoutDeadline(*pump, time.Time) {}
