package capabilities

import (
	"errors"
	"strings"

	"golang.org/x/sys/windows"
)

func sameName(a, b string) bool { return strings.EqualFold(a, b) }

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
