package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

// linkNew gives the file from the name to as well, which must be free, and takes
// the old name away.
func linkNew(dir *os.Root, from, to string) error {
	err := dir.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		if err == nil {
			dir.Remove(from)
		}
		return err
	}
	// No hard links on this file system: take the name with an empty file, then
	// put the real one over it.
	f, err := dir.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err := dir.Rename(from, to); err != nil {
		dir.Remove(to)
		return err
	}
	return nil
}
