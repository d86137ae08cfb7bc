//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// bubblewrap gives each command a file system that has only what it may see. bwrap stays as the parent of the
// command: signals of a group of processes are not for it, and its exit code is the command's.
type bubblewrap struct{}

// signals are those that end a process by default: bwrap does not take note of them, the command does.
const signals = "HUP INT QUIT TERM USR1 USR2 ALRM VTALRM PROF"

func (bubblewrap) check(s *Sandbox) error {
	if _, _, err := programs(); err != nil {
		return err
	}
	if abi := landlockABI(); abi < abiScope && !s.policy.Other {
		return fmt.Errorf("this kernel's Landlock has version %d, and only version 6 (Linux 6.12) keeps commands from signalling the user's other processes; use a newer kernel, or another user for commands (run_as)", abi)
	}
	return filterWorks()
}

// programs are those that a command is started through.
func programs() (bwrap, env string, err error) {
	if bwrap, err = exec.LookPath("bwrap"); err != nil {
		return "", "", errors.New("the program bwrap is not there; install the package bubblewrap")
	}
	if env, err = exec.LookPath("env"); err != nil {
		return "", "", errors.New("the program env is not there; install coreutils")
	}
	if bwrap, err = filepath.Abs(bwrap); err != nil {
		return "", "", err
	}
	env, err = realPath(env)
	return bwrap, env, err
}

func (bubblewrap) enter(s *Sandbox) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	abi := landlockABI()
	if abi >= abiScope {
		ruleset, err := newRuleset(abi, 0)
		if err != nil {
			return err
		}
		defer unix.Close(ruleset)
		if err := restrict(ruleset); err != nil {
			return err
		}
	}
	bwrap, env, err := programs()
	if err != nil {
		return err
	}
	front := []string{"/bin/sh", "-c", `trap "" ` + signals + `; exec "$@"`, "sh", bwrap}
	s.front = append(front, s.mounts()...)
	back := []string{"--", env}
	for _, name := range splitWords(signals) {
		back = append(back, "--default-signal="+name)
	}
	s.back = back
	s.filter = filter(sockets{inet: s.policy.Network != None, unix: abi >= abiScope}, unix.Gettid())
	return nil
}

// mounts are the arguments of bwrap that say what there is.
func (s *Sandbox) mounts() []string {
	args := []string{"--die-with-parent", "--unshare-ipc", "--cap-drop", "ALL"}
	if s.policy.Network != Open {
		args = append(args, "--unshare-net")
	}
	var seen []string // what is there, by its own path
	add := func(how, from, to string) {
		if how == "--ro-bind-try" && !s.reachable(from) {
			return
		}
		args = append(args, how, from, to)
		seen = append(seen, to)
	}
	for _, place := range systemPlaces {
		info, err := os.Lstat(place)
		if err != nil {
			continue
		}
		if link, err := os.Readlink(place); err == nil && info.Mode()&os.ModeSymlink != 0 {
			args = append(args, "--symlink", link, place)
			continue
		}
		add("--ro-bind-try", place, place)
	}
	for _, place := range kernelPlaces {
		args = append(args, "--ro-bind", place, place)
	}
	args = append(args, "--dev", "/dev", "--dir", "/run", "--dir", "/var", "--symlink", "../run", "/var/run", "--symlink", "../tmp", "/var/tmp",
		"--bind", s.private.tmp(), "/tmp", "--bind", s.private.tmp(), s.private.tmp(), "--bind", s.private.home(), s.private.home())
	if !s.home && s.hasHome() {
		args = append(args, "--bind", s.private.home(), s.policy.Home)
		for _, place := range s.homePlaces() {
			add("--ro-bind-try", place, place)
		}
	}
	for _, place := range s.readable() {
		if !slices.ContainsFunc(seen, func(dir string) bool { return inside(place, dir) }) {
			add("--ro-bind-try", place, place)
		}
	}
	for _, r := range s.policy.Roots {
		how := "--bind"
		if r.ReadOnly {
			how = "--ro-bind"
		}
		add(how, r.Path, r.Path)
	}
	for _, h := range s.hidden() {
		if !slices.ContainsFunc(seen, func(dir string) bool { return inside(h, dir) }) {
			continue // it is not there
		}
		if info, err := os.Stat(h); err == nil && info.IsDir() {
			args = append(args, "--perms", "0000", "--tmpfs", h, "--remount-ro", h)
		} else if err == nil {
			args = append(args, "--ro-bind", "/dev/null", h)
		}
	}
	return args
}

// hasHome says whether the home directory can be shown at its own path.
func (s *Sandbox) hasHome() bool {
	return filepath.IsAbs(s.policy.Home) && filepath.Clean(s.policy.Home) != "/"
}

func (bubblewrap) rewrite(s *Sandbox, start Start) (Start, error) {
	if s.front == nil {
		return start, errors.New("the sandbox is not open")
	}
	program, err := filterFile(s.filter)
	if err != nil {
		return start, fmt.Errorf("hand over the filter: %w", err)
	}
	told, tell, err := os.Pipe()
	if err != nil {
		_ = program.Close()
		return start, err
	}
	argv := slices.Clone(s.front)
	if start.Dir != "" {
		dir := start.Dir
		if real, err := realPath(dir); err == nil {
			dir = real
		}
		argv = append(argv, "--chdir", dir)
	}
	argv = append(argv, "--seccomp", strconv.Itoa(start.FileNumber), "--info-fd", strconv.Itoa(start.FileNumber+1))
	start.Argv = append(append(argv, s.back...), start.Argv...)
	start.Files, start.Told = []*os.File{program, tell}, told
	return start, nil
}

// filterFile is a file that has the filter in it.
func filterFile(p filterProgram) (*os.File, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "filter")
	if _, err = f.Write(bytesOf(p)); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (bubblewrap) words(s *Sandbox) []string {
	list := []string{
		"sandbox: bubblewrap, seccomp and landlock (for signals)",
		"sandbox: only these directories can be written: " + s.rootWords() + ", and a home directory and /tmp of the commands' own",
		"sandbox: beside them only the system's directories and tools in the home directory are there, to be read",
	}
	switch s.policy.Network {
	case Open:
		list = append(list, "sandbox: the network is open; Unix sockets only among commands")
	case Loopback:
		list = append(list, "sandbox: the network of a command has nothing but the loopback device, and is for it and what it starts")
	case None:
		list = append(list, "sandbox: there is no network; sockets are refused, but for Unix sockets among commands")
	}
	return append(list, "sandbox: no new privileges, namespaces, mounts, keys or kernel interfaces; other processes can be neither signalled nor traced, but listed")
}

// reachable says whether the commands' user gets to a path; bwrap, which runs as that user, gives up over one that
// it does not get to.
func (s *Sandbox) reachable(path string) bool {
	if !s.policy.Other || s.policy.UID == 0 {
		return true
	}
	for at := path; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			return false
		}
		bit := uint32(0o001)
		switch {
		case int(st.Uid) == s.policy.UID:
			bit = 0o100
		case int(st.Gid) == s.policy.GID:
			bit = 0o010
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&bit == 0 {
			return false
		}
		if at == "/" {
			return true
		}
	}
}
