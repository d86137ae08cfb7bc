package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxUnixPath is how many bytes of a path a socket's address has room for.
const maxUnixPath = 107

// shortPath is another path to the same file that a socket's address has room for: by a
// descriptor of its directory, which done closes.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxUnixPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	done = func() { _ = unix.Close(fd) }
	short = fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(short)); err != nil {
		done()
		return "", nil, Usagef("the path %s is longer than the %d bytes a socket's may have, and there is no /proc to make it shorter; name a shorter --state-dir", path, maxUnixPath)
	}
	return short, done, nil
}

func listenAt(path string) (*net.UnixListener, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
}
