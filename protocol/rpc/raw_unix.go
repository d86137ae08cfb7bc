//go:build unix && (!linux || race)

package rpc

import (
	"errors"
	"syscall"
)

// canReadNow: the connection's own Read does as well.
const canReadNow = false

func readNow(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func setLowWater(uintptr, int) {}

func write(fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := syscall.Write(int(fd), p)
		var errno syscall.Errno
		if errors.As(err, &errno); errno != syscall.EINTR {
			return n, errno
		}
	}
}
