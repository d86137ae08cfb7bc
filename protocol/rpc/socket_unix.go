//go:build unix

package rpc

import (
	"errors"
	"io"
	"syscall"
)

// canWriteNow: there is a write that does not wait.
const canWriteNow = true

// writeNow is one write(2) that does not wait: it returns how much was taken,
// which may be nothing.
func writeNow(raw syscall.RawConn, p []byte) (n int, err error) {
	ctlErr := raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.Write(int(fd), p)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case ctlErr != nil:
		return 0, ctlErr
	case errors.Is(err, syscall.EAGAIN):
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}
