//go:build linux || darwin

package cli

import (
	"net"

	"golang.org/x/sys/unix"
)

func peerLeft(c *net.UnixConn) (left bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	if raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // its end is told unasked
		n, err := unix.Poll(fds, 0)
		left = err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0
	}) != nil {
		return true // it is closed here
	}
	return left
}
