//go:build linux && !race

package rpc

import (
	"syscall"
	"unsafe"
)

// canReadNow: readNow is quicker than the connection's own Read.
const canReadNow = true

// Reading and writing what is there takes microseconds and never waits. The scheduler is
// not told of it: it would take such a call for one that waits as soon as it lasts 20 µs,
// as those with much output do, and wake a thread for what is left to run, and that for
// each of them. (Under the race detector it is told, which follows what one end writes
// and the other reads.)

func readNow(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(syscall.SYS_READ, fd, p) }

func write(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(syscall.SYS_WRITE, fd, p) }

// transfer is read(2) or write(2) on a descriptor that does not block. p is not empty.
func transfer(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if err != syscall.EINTR {
			return int(n), err
		}
	}
}

// setLowWater says how many bytes are to be there before a reader is woken.
func setLowWater(fd uintptr, n int) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n)
}
