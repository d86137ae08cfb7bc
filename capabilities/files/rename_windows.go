package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// rename gives what is at one place another. Between two roots it can only be done by
// name here.
func rename(from, to place, replace bool) error {
	if !replace {
		if _, err := to.dir.Lstat(to.name); err == nil {
			return fs.ErrExist
		}
	}
	if from.p.Root == to.p.Root {
		return from.p.Root.Rename(from.p.Rel, to.p.Rel)
	}
	return os.Rename(from.p.Abs, to.p.Abs)
}

func syncRoot(*os.Root) error { return nil }
func syncTree(*os.Root) error { return nil }

func isOtherDevice(err error) bool { return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) }
func isBusy(err error) bool        { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }
func isNotEmpty(err error) bool    { return errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) }
