//go:build unix

package rpc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPatience is for how long another process may hold the lock, which it needs for
// less than two seconds.
const lockPatience = 5 * time.Second

// lockDirOf keeps other processes out that make a socket in the same directory: two
// that find the same dead one would else remove each other's.
func lockDirOf(path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockPatience)
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = dir.Close() }, nil
		case err == syscall.EINTR:
			continue
		case err != syscall.EWOULDBLOCK: // a file system without locks
			_ = dir.Close()
			return func() {}, nil
		case time.Now().After(deadline):
			_ = dir.Close()
			return nil, fmt.Errorf("%s is locked by another process; end it, or use another directory", filepath.Dir(path))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// refused reports whether nobody listens at a socket that is there.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
