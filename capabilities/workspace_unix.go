//go:build !windows

package capabilities

import (
	"errors"
	"syscall"
)

// sameName compares names as the system does. Where a disk ignores case, another
// spelling is found by identity instead.
func sameName(a, b string) bool { return a == b }

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
