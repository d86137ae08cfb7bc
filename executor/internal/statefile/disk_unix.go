//go:build !windows

package statefile

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) { // some file systems cannot
		return err
	}
	return nil
}
