package service

import "golang.org/x/sys/unix"

func monotonicNow() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
