//go:build unix

package main

import (
	"net"
	"os"
	"sync"
	"syscall"
)

var umask sync.Mutex

// listenPrivate makes a socket that only its owner can use, from its first moment.
func listenPrivate(path string) (net.Listener, error) {
	umask.Lock()
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	umask.Unlock()
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
