package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/agent-executor/executor/executor"
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

// NoStateDir is the error of a program that was given no state directory.
func NoStateDir(program string) error {
	if DefaultStateDir(program) == "" {
		return Usagef("no state directory: HOME is not set; name one with --state-dir")
	}
	return Usagef("--state-dir is empty; name a directory, or leave it out for %s", DefaultStateDir(program))
}

// StateDirWarning says that others can look into a directory for state, or change what
// is in it, by its mode or since it is theirs; "" when they cannot, or it is not there.
func StateDirWarning(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	var found []string
	if who := foreignOwner(info); who != "" {
		found = append(found, fmt.Sprintf("belongs to %s, who can read and change what is in it; run: chown %d %s", who, os.Geteuid(), dir))
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		can := "look into it"
		if mode&0o022 != 0 {
			can += " and change it"
		}
		found = append(found, fmt.Sprintf("has mode %04o, so that others can %s; run: chmod 700 %s", mode, can, dir))
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("state directory %s %s", dir, strings.Join(found, ", and "))
}

// LockState makes the directory, for its owner only, and takes it for this process,
// until Close or its end. warning is that of StateDirWarning.
func LockState(dir, program string) (lock io.Closer, warning string, err error) {
	if dir == "" {
		return nil, "", NoStateDir(program)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("state directory: %w; name another with --state-dir", err)
	}
	warning = StateDirWarning(dir)
	held, err := executor.LockDir(dir)
	var inUse *executor.HeldError
	if errors.As(err, &inUse) {
		who := program
		if inUse.PID != 0 {
			who = fmt.Sprintf("%s (pid %d)", program, inUse.PID)
		}
		return nil, "", fmt.Errorf("another %s uses the state directory %s; stop it, or give this one its own with --state-dir", who, dir)
	}
	if err != nil {
		return nil, "", fmt.Errorf("state directory: %w; name another with --state-dir", err)
	}
	return held, warning, nil
}
