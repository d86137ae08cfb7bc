package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Modes of a Policy.
const (
	Off        = "off"
	Auto       = "auto" // bubblewrap where it works, else landlock, else an error
	Bubblewrap = "bubblewrap"
	Landlock   = "landlock"
)

// Networks of a Policy.
const (
	Open     = "open"     // as without a sandbox
	Loopback = "loopback" // a network of their own, with nothing but 127.0.0.1 and ::1
	None     = "none"
)

// Modes are all of them, and so are Networks.
func Modes() []string { return []string{Off, Auto, Bubblewrap, Landlock} }

// Networks are all of them.
func Networks() []string { return []string{Open, Loopback, None} }

// Root is a directory commands work in.
type Root struct {
	Path     string // absolute
	ReadOnly bool
}

// Policy is what commands may do. It does not change once it is in use.
type Policy struct {
	Mode    string // empty is Auto
	Network string // empty is Open
	Roots   []Root
	// Read are further files and directories that can be read.
	Read []string
	// Hidden can neither be read nor written, wherever they are: the state directory, token files.
	Hidden []string
	// Home is the home directory of the user whom commands run as; the executor's own when empty. UID and GID
	// are that user's, and Other says that it is not the executor's own.
	Home     string
	UID, GID int
	Other    bool
}

// Sandbox enforces a policy. New makes one; Open and Close are called once each, all else concurrently.
type Sandbox struct {
	policy  Policy
	backend backend
	private private
	home    bool // the home directory is inside of a root, and commands see it as it is

	front, back []string // of bubblewrap, in front of a command and of its directory
	filter      filterProgram
}

// backend is a way to enforce a policy.
type backend interface {
	// check says what is missing.
	check(s *Sandbox) error
	// enter is Sandbox.Enter.
	enter(s *Sandbox) error
	// rewrite is Sandbox.Rewrite for the words.
	rewrite(s *Sandbox, start Start) (Start, error)
	// words say what is enforced.
	words(s *Sandbox) []string
}

// Start is a command that is about to be started.
type Start struct {
	Argv []string
	Dir  string
	Env  []string // NAME=value
	// Files become the descriptors of the command from FileNumber on. The caller closes them.
	Files      []*os.File
	FileNumber int
	// Told, when there is one, is where the process id of the command itself is told, as JSON with "child-pid": it is a
	// child of what is started. The caller closes it.
	Told *os.File
}

// New looks whether the policy can be enforced here. It changes nothing.
func New(p Policy) (*Sandbox, error) {
	s := &Sandbox{policy: p}
	if err := s.tidy(); err != nil {
		return nil, err
	}
	switch s.policy.Mode {
	case Bubblewrap, Landlock:
		s.backend = backendOf(s.policy.Mode)
		if err := s.backend.check(s); err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", s.policy.Mode, err)
		}
		return s, nil
	case Auto:
		var missing []string
		for _, mode := range []string{Bubblewrap, Landlock} {
			s.backend = backendOf(mode)
			err := s.backend.check(s)
			if err == nil {
				s.policy.Mode = mode
				return s, nil
			}
			missing = append(missing, fmt.Sprintf("%s: %v", mode, err))
		}
		return nil, fmt.Errorf("no sandbox works here: %s", strings.Join(missing, "; "))
	}
	return nil, fmt.Errorf("sandbox %q: want one of %s", p.Mode, strings.Join(Modes()[1:], ", "))
}

// tidy fills in what is missing and makes paths plain.
func (s *Sandbox) tidy() error {
	p := &s.policy
	if p.Mode == "" {
		p.Mode = Auto
	}
	if p.Network == "" {
		p.Network = Open
	}
	if !slices.Contains(Networks(), p.Network) {
		return fmt.Errorf("sandbox network %q: want one of %s", p.Network, strings.Join(Networks(), ", "))
	}
	if p.Home == "" {
		p.Home, _ = os.UserHomeDir()
	}
	if len(p.Roots) == 0 {
		return fmt.Errorf("a sandbox without a root leaves commands no place to work in; name one with --root")
	}
	p.Roots = slices.Clone(p.Roots)
	for i := range p.Roots {
		real, err := realPath(p.Roots[i].Path)
		if err != nil {
			return fmt.Errorf("root: %w", err)
		}
		if real == "/" {
			return fmt.Errorf("root /: a sandbox would keep commands out of nothing; name a directory below it")
		}
		p.Roots[i].Path = real
	}
	// What is inside of another follows it.
	slices.SortStableFunc(p.Roots, func(a, b Root) int { return strings.Compare(a.Path, b.Path) })
	read := make([]string, 0, len(p.Read))
	for _, path := range p.Read {
		real, err := realPath(path)
		if err != nil {
			return fmt.Errorf("sandbox_read: %w; correct it, or leave it out", err)
		}
		read = append(read, real)
	}
	p.Read = read
	hidden := make([]string, 0, len(p.Hidden))
	for _, path := range p.Hidden {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
		hidden = append(hidden, abs)
		// The name and what it leads to: it may not be there yet.
		if real, err := realPath(abs); err == nil && real != abs {
			hidden = append(hidden, real)
		} else if dir, err := realPath(filepath.Dir(abs)); err == nil && filepath.Join(dir, filepath.Base(abs)) != abs {
			hidden = append(hidden, filepath.Join(dir, filepath.Base(abs)))
		}
	}
	p.Hidden = hidden
	for _, r := range p.Roots {
		for _, h := range hidden {
			if inside(r.Path, h) {
				return fmt.Errorf("the root %s is inside of %s, which commands are not to see; name another root", r.Path, h)
			}
		}
	}
	if home, err := realPath(p.Home); err == nil {
		for _, r := range p.Roots {
			s.home = s.home || inside(home, r.Path)
		}
	}
	return nil
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// inside says whether path is dir or below it.
func inside(path, dir string) bool {
	if dir == "/" {
		return true
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// Mode is what enforces the policy: Bubblewrap or Landlock.
func (s *Sandbox) Mode() string { return s.policy.Mode }

// Enter gives up, for good, what the thread it is called on does not need to start commands. The thread is
// locked to its goroutine, and is not used for anything else; it is not the first thread of the process, which stands
// for the whole of it. The process as such can be neither traced nor dumped from now on, but by root: the memory
// is that of the thread too.
func (s *Sandbox) Enter() error {
	if err := keepPrivate(); err != nil {
		return fmt.Errorf("enter the sandbox: %w", err)
	}
	if err := s.backend.enter(s); err != nil {
		return fmt.Errorf("enter the sandbox: %w", err)
	}
	return nil
}

// Rewrite changes a command so that it is started in the sandbox.
func (s *Sandbox) Rewrite(start Start) (Start, error) {
	start.Env = s.environment(start.Env)
	return s.backend.rewrite(s, start)
}

// Words say what is enforced, and what is not, for a person.
func (s *Sandbox) Words() []string { return s.backend.words(s) }

// ByThread says that the thread that starts commands is itself confined, so that it cannot place them in
// control groups or write what /proc has of them.
func (s *Sandbox) ByThread() bool { return s.policy.Mode == Landlock }

// rootWords name the roots.
func (s *Sandbox) rootWords() string {
	list := make([]string, len(s.policy.Roots))
	for i, r := range s.policy.Roots {
		list[i] = r.Path
		if r.ReadOnly {
			list[i] += " (read-only)"
		}
	}
	return strings.Join(list, ", ")
}

// Another is a sandbox of the same kind that is not open.
func (s *Sandbox) Another() *Sandbox {
	another := *s
	another.private, another.front = private{}, nil
	return &another
}

func splitWords(s string) []string { return strings.Fields(s) }
