//go:build !windows

package search

import "syscall"

// nonblock keeps an open from waiting on a FIFO that took the file's name.
const nonblock = syscall.O_NONBLOCK
