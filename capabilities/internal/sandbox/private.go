package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// private are the directories that commands have instead of the user's. They live as long as the executor.
type private struct {
	dir string // empty before Open
}

// privatePrefix begins the names of such directories.
const privatePrefix = "executor-sandbox-"

func (p private) tmp() string  { return filepath.Join(p.dir, "tmp") }
func (p private) home() string { return filepath.Join(p.dir, "home") }

// Open makes the directories, under a name that no other executor has at this time: what an earlier life
// left there is removed.
func (s *Sandbox) Open(name string) error {
	dir := filepath.Join(os.TempDir(), privatePrefix+name)
	if err := s.makePrivate(dir); err != nil {
		return fmt.Errorf("sandbox: make the commands' own directories: %w", err)
	}
	return nil
}

func (s *Sandbox) makePrivate(dir string) error {
	if info, err := os.Lstat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is there and no directory; remove it", dir)
		}
		if err := removeTree(dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	s.private = private{dir: real}
	for _, sub := range []string{s.private.tmp(), s.private.home()} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
	}
	if !s.home {
		if err := s.linkHome(); err != nil {
			return err
		}
	}
	return s.give(real)
}

// linkHome makes what can be read in the home directory appear in the commands' own.
func (s *Sandbox) linkHome() error {
	for _, place := range s.homePlaces() {
		rel, err := filepath.Rel(s.policy.Home, place)
		if err != nil {
			continue
		}
		link := filepath.Join(s.private.home(), rel)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return err
		}
		if s.policy.Mode == Landlock { // bubblewrap mounts them
			if err := os.Symlink(place, link); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}

// give makes all of it the commands' user's.
func (s *Sandbox) give(dir string) error {
	if !s.policy.Other {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, s.policy.UID, s.policy.GID)
	})
}

// Close removes the directories. The commands have ended.
func (s *Sandbox) Close() error {
	if s.private.dir == "" {
		return nil
	}
	return removeTree(s.private.dir)
}

// removeTree removes a directory also when directories in it may not be written, as Go's module cache has
// them. No link is followed.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err == nil {
		_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = root.Chmod(path, 0o700)
			}
			if err != nil {
				return fs.SkipDir
			}
			return nil
		})
		_ = root.Close()
	}
	return os.RemoveAll(dir)
}

// Scratch is the commands' directory for temporary files, by a path that they and the executor both have;
// empty before Open.
func (s *Sandbox) Scratch() string {
	if s.private.dir == "" {
		return ""
	}
	return s.private.tmp()
}

// environment is a command's environment, in the sandbox.
func (s *Sandbox) environment(env []string) []string {
	home, tmp := s.private.home(), s.private.tmp()
	if s.policy.Mode == Bubblewrap { // there they are in the usual places
		tmp = "/tmp"
		if filepath.IsAbs(s.policy.Home) && s.policy.Home != "/" {
			home = s.policy.Home
		}
	}
	out := make([]string, 0, len(env)+2)
	hasTmp := false
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "HOME" && value == s.policy.Home && !s.home:
			entry = "HOME=" + home
		case name == "TMPDIR" && s.within(value):
			hasTmp = true
		case name == "TMPDIR", name == "TMP", name == "TEMP", name == "XDG_RUNTIME_DIR", name == "SSH_AUTH_SOCK", name == "DBUS_SESSION_BUS_ADDRESS",
			name == "GPG_AGENT_INFO", name == "XAUTHORITY", name == "DOCKER_HOST":
			continue // what they lead to is not there
		}
		out = append(out, entry)
	}
	if !hasTmp {
		out = append(out, "TMPDIR="+tmp)
	}
	return out
}

// within says whether a path is inside of a root.
func (s *Sandbox) within(path string) bool {
	for _, r := range s.policy.Roots {
		if inside(path, r.Path) {
			return true
		}
	}
	return false
}
