// Package dirlock holds a directory for one process.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrHeld is wrapped by the error of a Lock that another process has.
var ErrHeld = errors.New("is in use")

var errLocked = errors.New("locked by another process")

// Held is a directory that is held. It is let go by Close, or by the end of the
// process.
type Held struct{ f *os.File }

// Lock takes a directory, which must be there. The error of one that another process,
// or this one, holds already wraps ErrHeld and names the process.
func Lock(dir string) (*Held, error) {
	path := filepath.Join(dir, "lock")
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; remove it", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%s %w%s", dir, ErrHeld, holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// The file stays when the process ends: to remove it would let two in. On a full
	// disk the pid is missing, and nothing else.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Held{f}, nil
}

// holder says who holds the lock.
func holder(f *os.File) string {
	raw, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return "" // it is just starting
	}
	return fmt.Sprintf(" by the process with pid %d", pid)
}

// Close lets the directory go.
func (h *Held) Close() error { return h.f.Close() }
