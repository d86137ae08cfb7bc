// Package dirlock holds a directory for one process.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// HeldError is the error of a Lock that another process has, or this one by another
// Lock.
type HeldError struct {
	Dir string
	PID int // of the process; 0 when it is just starting
}

func (e *HeldError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("the process with pid %d", e.PID)
	}
	return fmt.Sprintf("%s is in use by %s; stop it, or use another directory", e.Dir, who)
}

var errLocked = errors.New("locked by another process")

// Held is a directory that is held. It is let go by Close, or by the end of the
// process.
type Held struct{ f *os.File }

// Lock takes a directory, which must be there. It waits a moment for one that is held.
func Lock(dir string) (*Held, error) {
	path := filepath.Join(dir, "lock")
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; remove it", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockSoon(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			return nil, &HeldError{Dir: dir, PID: holder(f)}
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

// patience is how long a lock is waited for. A process that was killed while it started
// a child leaves its lock to that one, which has it until it has become another program.
const patience = time.Second

func lockSoon(f *os.File) error {
	for until := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		err := lockFile(f)
		if !errors.Is(err, errLocked) || time.Now().After(until) {
			return err
		}
	}
}

// Holder looks whether a process holds a directory, which one does from Lock to Close. pid
// is 0 where that is not known. It changes nothing; for a moment nobody else can take the
// directory, which Lock waits for.
func Holder(dir string) (pid int, held bool, err error) {
	path := filepath.Join(dir, "lock")
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; remove it", path)
	}
	if err != nil {
		return 0, false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	switch err := lockShared(f); {
	case errors.Is(err, errLocked):
		return holder(f), true, nil
	default:
		return 0, false, err
	}
}

// holder is the process that holds the lock.
func holder(f *os.File) int {
	raw, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}

// Check returns an error when the directory is not there any more, or is another one:
// then somebody else can take it.
func (h *Held) Check() error {
	ours, err := h.f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(h.f.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(ours, there) {
		return fmt.Errorf("%s was replaced", h.f.Name())
	}
	return nil
}

// Close lets the directory go.
func (h *Held) Close() error { return h.f.Close() }
