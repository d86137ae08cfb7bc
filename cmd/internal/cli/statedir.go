package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// DefaultStateDir is where a program keeps its state: what systemd says, else below
// the user's state directory. It is "" when the user has no home.
func DefaultStateDir(program string) string {
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		return filepath.SplitList(dirs)[0]
	}
	return xdg("XDG_STATE_HOME", ".local/state", program)
}

// DefaultConfigFile is the user's configuration file of a program; "" when the user
// has no home.
func DefaultConfigFile(program string) string {
	if dir := xdg("XDG_CONFIG_HOME", ".config", program); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return ""
}

func xdg(variable, below, program string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) { // as its specification says
		return filepath.Join(dir, program)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, below, program)
}

// StateLock holds a state directory for one process. It is let go by Close, or by
// the end of the process.
type StateLock struct{ f *os.File }

var errLocked = errors.New("locked by another process")

// LockState makes the directory, for its owner only, and takes it for this process.
// warning says that others can read in it.
func LockState(dir, program string) (lock *StateLock, warning string, err error) {
	if dir == "" {
		return nil, "", Usagef("no state directory: HOME is not set; name one with --state-dir")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("state directory: %w; name another with --state-dir", err)
	}
	if info, err := os.Stat(dir); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("state directory %s has mode %04o, so that others can look into it; run: chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("state directory: %w; name another with --state-dir", err)
	}
	if err := lockSoon(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errLocked) {
			return nil, "", fmt.Errorf("lock state directory %s: %w", dir, err)
		}
		return nil, "", fmt.Errorf("another %s%s uses the state directory %s; stop it, or give this one its own with --state-dir", program, holder(f), dir)
	}
	// The file stays when the process ends: to remove it would let two in.
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	return &StateLock{f}, warning, nil
}

// lockPatience is how long a lock is waited for. A process that was killed while it
// started a child leaves its lock to that one, which has it until it has become another
// program.
const lockPatience = time.Second

func lockSoon(f *os.File) error {
	for until := time.Now().Add(lockPatience); ; <-time.After(10 * time.Millisecond) {
		err := lockFile(f)
		if !errors.Is(err, errLocked) || time.Now().After(until) {
			return err
		}
	}
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
	return fmt.Sprintf(" (pid %d)", pid)
}

// Close lets the directory go.
func (l *StateLock) Close() error { return l.f.Close() }
