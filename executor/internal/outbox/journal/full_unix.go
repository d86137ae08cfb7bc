//go:build unix

package journal

import (
	"errors"
	"syscall"
)

// isFull reports whether an error says that there is no room on the disk.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
