//go:build !linux

package cli

import "net"

// maxUnixPath is how many bytes of a path a socket's address has room for.
const maxUnixPath = 103

// shortPath is the path, or an error when a socket's address has no room for it.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) > maxUnixPath {
		return "", nil, Usagef("the path %s is longer than the %d bytes a socket's may have; name a shorter --state-dir", path, maxUnixPath)
	}
	return path, func() {}, nil
}

func listenAt(path string) (*net.UnixListener, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
}
