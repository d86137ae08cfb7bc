//go:build unix

package cli

import "golang.org/x/sys/unix"

// mayChange returns an error when this user may not make files in a directory.
func mayChange(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
