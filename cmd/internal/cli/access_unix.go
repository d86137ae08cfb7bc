//go:build unix

package cli

import "golang.org/x/sys/unix"

// MayChange returns an error when this user may not make files in a directory.
func MayChange(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
