//go:build linux || darwin

package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// notKept are attributes that speak of the old content, or that the kernel takes
// away from a file that is written to.
var notKept = map[string]bool{"security.ima": true, "security.evm": true, "security.capability": true}

// readExtra reads the extended attributes of f.
func readExtra(f *os.File) (map[string][]byte, error) {
	fd := int(f.Fd())
	names, err := sized(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if err != nil {
		return nil, ignoreUnsupported(err)
	}
	extra := map[string][]byte{}
	for name := range strings.SplitSeq(string(names), "\x00") {
		if name == "" || notKept[name] {
			continue
		}
		value, err := sized(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		switch {
		case err == nil:
			extra[name] = value
		case errors.Is(err, unix.ERANGE):
			return nil, err
		}
		// Else: gone meanwhile, or not ours to read and so not to keep either.
	}
	return extra, nil
}

// writeExtra makes the extended attributes of f those in extra. What a directory
// gives to every new file and the old file did not have is taken away.
func writeExtra(f *os.File, extra map[string][]byte) error {
	have, err := readExtra(f)
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	for name, value := range extra {
		if got, ok := have[name]; ok && bytes.Equal(got, value) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, value, 0); err != nil && !system(name) {
			return err
		}
	}
	for name := range have {
		if _, ok := extra[name]; ok {
			continue
		}
		if err := unix.Fremovexattr(fd, name); err != nil && !system(name) {
			return err
		}
	}
	return nil
}

// system: labels that only the system may set; a new file gets its own.
func system(name string) bool {
	return strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "com.apple.")
}

// sized calls read with a buffer that is big enough, also when what is read grows
// between the two calls.
func sized(read func([]byte) (int, error)) ([]byte, error) {
	for range 8 {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buf := make([]byte, size)
		n, err := read(buf)
		if errors.Is(err, unix.ERANGE) {
			continue
		}
		return buf[:max(n, 0)], err
	}
	return nil, unix.ERANGE
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
