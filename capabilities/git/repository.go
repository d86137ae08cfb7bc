package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// minVersion is the first that takes its configuration from the environment, and absolute paths from rev-parse.
var minVersion = [2]int{2, 31}

// repository is that of a session's workspace, or a submodule of it, for one call.
type repository struct {
	git       *Git
	session   *capabilities.Session
	workspace *capabilities.Workspace
	group     *spawn.Group
	binary    string
	deadline  time.Time // of the call
	writes    bool

	dir     string // where git runs
	ceiling string // up to which a repository is not looked for

	gitDir, common string // real paths
	top            string // of the work tree, real; "" for none
	config         *config
	included       map[string]bool // files of the configuration whose includes were looked at
}

// open finds the repository of the session's workspace and looks at it. Nothing of it is used when there is an
// error, which is a *protocol.Error.
func (g *Git) open(ctx context.Context, session *capabilities.Session, group *spawn.Group, writes bool) (*repository, error) {
	workspace := session.Workspace()
	if workspace == nil {
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").WithReason(protocol.ReasonWorkspaceUnavailable)
	}
	dir, err := workspace.ResolveDir(".")
	if err != nil {
		return nil, err
	}
	binary, err := findGit()
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "git: %v", err).WithReason(protocol.ReasonSpawnFailed).WithRetryable(false)
	}
	r := &repository{
		git: g, session: session, workspace: workspace, group: group, binary: binary, writes: writes,
		deadline: time.Now().Add(g.options.Timeout), dir: dir, ceiling: filepath.Dir(outermost(workspace, dir)),
	}
	if err := g.checkVersion(ctx, r); err != nil {
		return nil, err
	}
	return r, r.inspect(ctx)
}

// outermost is the root that dir is in; of nested ones the outer.
func outermost(w *capabilities.Workspace, dir string) string {
	top := dir
	for _, root := range w.Roots() {
		real, err := filepath.EvalSymlinks(root.Path)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(real, dir); err == nil && filepath.IsLocal(rel) && len(real) < len(top) {
			top = real
		}
	}
	return top
}

// inspect finds out where the repository is and what it is configured to do.
func (r *repository) inspect(ctx context.Context) error {
	if err := r.checkFirst(ctx); err != nil {
		return err
	}
	// The last fails where there is no work tree, with the others printed.
	a, err := program.Capture(ctx, r.group, r.command("rev-parse", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir", "--show-toplevel"), 64<<10, r.limits())
	if err != nil {
		return r.ended(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(a.Stdout), "\n"), "\n")
	noTree := a.Exit.Code != 0 && len(lines) == 2 && strings.Contains(string(a.Stderr), "must be run in a work tree")
	switch {
	case a.Exit.Code != 0 && !noTree:
		return r.notFound(failure(string(a.Stderr), "", a.Exit.Code))
	case !noTree && len(lines) != 3:
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: there is a line end in the name of its directory")
	}
	if r.gitDir, err = r.real("its directory", lines[0]); err != nil {
		return err
	}
	if r.common, err = r.real("the repository that this work tree belongs to", lines[1]); err != nil {
		return err
	}
	if !noTree {
		if r.top, err = r.real("its work tree", lines[2]); err != nil {
			return err
		}
	}
	if err := r.checkParts(ctx); err != nil {
		return err
	}
	if err := r.checkTree(); err != nil {
		return err
	}
	if r.writes {
		for _, dir := range []string{r.gitDir, r.common, r.top} {
			if dir == "" {
				continue
			}
			if _, err := r.workspace.ResolveWrite(capabilities.QuoteName(dir)); err != nil {
				return err
			}
		}
	}
	r.config, err = r.readConfig(ctx)
	return err
}

// real is a path of git's without links, inside the roots.
func (r *repository) real(what, path string) (string, error) {
	p, err := r.workspace.Resolve(capabilities.QuoteName(filepath.FromSlash(path)))
	switch {
	case errors.Is(err, protocol.ErrForbidden):
		return "", r.outside(what, path)
	case err != nil:
		return "", err
	}
	return p.Abs, nil
}

// absolute is a path as git writes it: from the top of the work tree, or from the repository if there is none.
func (r *repository) absolute(path string) string {
	if r.top != "" {
		return beside(r.top, path)
	}
	return beside(r.gitDir, path)
}

// notFound says where a repository was looked for.
func (r *repository) notFound(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && errors.Is(err, errGit) && strings.Contains(e.Message, "not a git repository") {
		return protocol.Errorf(protocol.CodeNotFound, "the workspace %s is in no git repository; it was looked for there and above, inside the roots. git says: %s",
			capabilities.QuoteName(r.dir), e.Message)
	}
	return err
}

// command is a git that is about to be started.
func (r *repository) command(args ...string) spawn.Command {
	var more []setting
	if r.config != nil {
		more = r.config.settings
	}
	return spawn.Command{
		Argv: append([]string{r.binary, "--no-pager"}, args...),
		Dir:  r.dir,
		Env:  r.git.environment(r.session, r.ceiling, r.writes, more),
	}
}

func (r *repository) limits() program.Limits {
	return program.Limits{
		// Zero would be the default.
		Timeout: max(time.Until(r.deadline), time.Millisecond), Grace: r.git.options.Grace,
		InlineBytes: r.git.options.InlineBytes, SpillBytes: r.git.options.SpillBytes,
	}
}

// ask runs git for what it prints, at most most bytes. A failure of git's matches errGit.
func (r *repository) ask(ctx context.Context, most int, args ...string) ([]byte, error) {
	a, err := program.Capture(ctx, r.group, r.command(args...), most, r.limits())
	if err != nil {
		return nil, r.ended(err)
	}
	if a.Exit.Code != 0 {
		return nil, failure(r.hide(string(a.Stderr)), "", a.Exit.Code)
	}
	return a.Stdout, nil
}

// each runs git and calls f for every piece of what it prints that ends with a NUL.
func (r *repository) each(ctx context.Context, f func(item string), args ...string) error {
	var rest []byte
	c := r.command(args...)
	c.Stdout = func(p []byte) {
		for _, b := range p {
			if b != 0 {
				rest = append(rest, b)
				continue
			}
			f(string(rest))
			rest = rest[:0]
		}
	}
	a, err := program.Capture(ctx, r.group, c, 0, r.limits())
	switch {
	case err != nil:
		return r.ended(err)
	case a.Exit.Code != 0:
		return failure(r.hide(string(a.Stderr)), "", a.Exit.Code)
	}
	return nil
}

func (r *repository) hide(text string) string {
	if r.config == nil {
		return text
	}
	return r.config.hide(text)
}

// ended words the end of a git that did not end by itself.
func (r *repository) ended(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && e.Code == protocol.CodeTimeout && !time.Now().Before(r.deadline) {
		hint := ""
		if pipe := r.waitedFor(); pipe != "" {
			hint = ". It may have waited for " + capabilities.QuoteName(pipe) + ", which is a named pipe or a device"
		}
		return protocol.Errorf(protocol.CodeTimeout, "git did not end within %v and was ended%s", r.git.options.Timeout, hint).WithRetryable(false)
	}
	return err
}

var versionText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^git version (\d+)\.(\d+)`)
})

// checkVersion asks git for its version, once.
func (g *Git) checkVersion(ctx context.Context, r *repository) error {
	g.mu.Lock()
	known := g.version != ""
	g.mu.Unlock()
	if known {
		return nil
	}
	text, err := r.ask(ctx, 4<<10, "version")
	if err != nil {
		return err
	}
	m := versionText().FindStringSubmatch(string(text))
	if m == nil {
		return protocol.Errorf(protocol.CodeResourceUnavailable, "git does not say its version, but %.60q", text).WithRetryable(false)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < minVersion[0] || major == minVersion[0] && minor < minVersion[1] {
		return protocol.Errorf(protocol.CodeResourceUnavailable, "git %d.%d is too old to be kept from running what a repository says; %d.%d is needed",
			major, minor, minVersion[0], minVersion[1]).WithRetryable(false)
	}
	g.mu.Lock()
	g.version = m[0]
	g.mu.Unlock()
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
