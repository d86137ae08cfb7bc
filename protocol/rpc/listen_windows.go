package rpc

import (
	"errors"
	"os"
	"syscall"
)

// lockDirOf does nothing: a socket is made in a directory that is the user's own.
func lockDirOf(string) (unlock func(), err error) { return func() {}, nil }

const wsaECONNREFUSED = syscall.Errno(10061)

// refused reports whether nobody listens at a socket that is there.
func refused(err error) bool {
	return errors.Is(err, wsaECONNREFUSED) || errors.Is(err, os.ErrNotExist)
}
