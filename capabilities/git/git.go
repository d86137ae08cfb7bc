// Package git is the capability that looks at the repository of a session's workspace, and commits to it: the
// tool git.
//
//	ex.Register(git.New(git.Options{}))
//
// The repository is taken for a hostile one: nothing that it says is run. Not its hooks, filters, external
// diffs, text conversions, merge drivers, signing programs, pagers, editors or file system monitors, whatever
// their names, and not those of its submodules; nothing is fetched. And nothing of it may be outside the roots
// of the workspace: not its directory, its work tree, its objects or what its links lead to.
//
// A call goes this way:
//
//   - arguments.go takes the arguments apart by a list of what is allowed (commands.go), and writes them anew, so
//     that git reads them as they were read here;
//   - repository.go finds the repository, as far up as the roots reach. What git reads before it can be asked is
//     looked at in front of that (first.go), what its links lead to (links.go, alternates.go) and what git
//     would wait for (pipes.go) behind it;
//   - config.go reads the configuration that git would use, and makes of it what must be said otherwise. That
//     is given in the environment (environment.go), which is stronger than any file;
//   - names.go reads names as git writes them, takes for a file what is one and no pattern, and writes what git
//     prints as the other tools do;
//   - submodule.go and filter.go look at what git would start a program for when something is written;
//   - run.go runs git; failure.go says what its failure means; branches.go and changed.go are for the
//     two subcommands that are not git's own.
package git

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Options configures the capability. Zero fields are the defaults.
type Options struct {
	Timeout  time.Duration // of a call; 30 s
	Grace    time.Duration // between SIGTERM, at which git removes its locks, and SIGKILL; 5 s
	LockWait time.Duration // how long a lock that another git holds is waited for; 5 s

	InlineBytes int   // of text in a result; 32 KiB, at least 4 KiB
	SpillBytes  int64 // of raw output kept in a file when it is more than that; 64 MiB

	// Subcommands are allowed beside those that always are; Extra lists them.
	Subcommands []string
	// AllowHooks lets commit run the hooks of the repository and of the user's configuration.
	AllowHooks bool
	// AllowFilters lets git run the clean and smudge filters that are configured, git-lfs for example.
	AllowFilters bool

	// Secrets are credentials of the executor: a variable that contains one is never passed.
	Secrets []string
	// Children keeps hold of the processes that git starts; nil does not.
	Children *spawn.Keeper
	// LoginEnv is the environment of the user's login shell; nil asks the shell, once.
	LoginEnv map[string]string
}

func (o *Options) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.Grace, 5*time.Second)
	set(&o.LockWait, 5*time.Second)
}

// Git is the capability. One value serves all sessions at once.
type Git struct {
	options  Options
	commands map[string]*command

	mu      sync.Mutex
	version string // "" before git was asked for it
	// writers are the repositories that were written to, each with the turn to write.
	writers map[string]chan struct{}
}

// New makes the capability. It starts nothing.
func New(o Options) *Git {
	o.defaults()
	return &Git{options: o, commands: commands(), writers: map[string]chan struct{}{}}
}

// Name implements capabilities.Capability.
func (g *Git) Name() string { return "git" }

// Install implements capabilities.Capability. Without a git on this machine nothing is registered. The error
// is a subcommand in Options that there is none of.
func (g *Git) Install(r *capabilities.Registrar) error {
	for _, name := range g.options.Subcommands {
		if c, ok := g.commands[name]; !ok {
			return fmt.Errorf("git subcommand %q cannot be allowed; there are %s", name, strings.Join(Extra(), ", "))
		} else if c.extra {
			allowed := *c
			allowed.extra = false
			g.commands[name] = &allowed
		}
	}
	if _, err := findGit(); err != nil {
		r.Logger().Info("no git on this machine", zap.Error(err))
		return nil
	}
	r.OnSessionStart(g.start)
	r.OnSessionEnd(g.end)
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "git",
		Description: g.description(),
		Annotations: protocol.Annotations{Destructive: false},
	}, g.call)
	return nil
}

// findGit finds git. It is looked for in the executor's own PATH, not in the child's, and never in the
// current directory, so that no repository can bring its own.
func findGit() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

func (g *Git) description() string {
	return fmt.Sprintf("Run git in the repository of the workspace. Subcommands: %s. "+
		"args are git's own options and arguments, one an element, paths after \"--\"; what would read or write elsewhere or start a program is refused. "+
		"branches lists branches (-r, -a, patterns), changed_files lists what differs from HEAD, untracked files too, or between revisions (--staged, A..B). "+
		"There is no pager, editor or network. commit needs -m. A call may take %v.",
		strings.Join(g.allowed(), ", "), g.options.Timeout)
}

// groupKey is where a session keeps the group of its processes.
type groupKey struct{}

func (g *Git) start(_ context.Context, session *capabilities.Session) error {
	g.login() // a slow profile delays the first session, not its first call
	session.SetValue(groupKey{}, g.options.Children.NewGroup())
	return nil
}

// end ends what is left of the session's calls: with hooks allowed, anything.
func (g *Git) end(session *capabilities.Session) {
	if group, ok := session.Value(groupKey{}).(*spawn.Group); ok {
		if survivors := group.Close(g.options.Grace); len(survivors) > 0 {
			session.Logger().Warn("processes of git survived the session", zap.Int("count", len(survivors)))
		}
	}
}

func (g *Git) login() map[string]string {
	if g.options.LoginEnv != nil {
		return g.options.LoginEnv
	}
	return g.options.Children.Login()
}
