//go:build unix

package audit

import "syscall"

// noStrangers keeps an open from following a link, and from waiting for the other end of a FIFO.
const noStrangers = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
