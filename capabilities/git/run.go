package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

type input struct {
	Subcommand string   `json:"subcommand" jsonschema:"what to do: status, log, diff, show, blame, branches, changed_files, commit, or what the configuration adds"`
	Args       []string `json:"args,omitempty" jsonschema:"git's options and arguments for it, one an element; paths after --"`
}

// result is the structured result of a subcommand of git's own.
type result struct {
	program.Report
	Commit string `json:"commit,omitempty"` // what HEAD is after a commit
}

func (g *Git) call(ctx context.Context, call *capabilities.Call, in input) (protocol.ToolOutput, error) {
	out, err := g.run(ctx, call, in)
	var said gitError
	if errors.As(err, &said) {
		err = said.said
	}
	return out, err
}

func (g *Git) run(ctx context.Context, call *capabilities.Call, in input) (protocol.ToolOutput, error) {
	c, err := g.find(in.Subcommand)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	args, err := take(c, in.Args)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	group, ok := call.Session().Value(groupKey{}).(*spawn.Group)
	if !ok {
		return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeSessionNotActive, "the session runs no commands")
	}
	r, err := g.open(ctx, call.Session(), group, c.writes)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	if !c.writes { // see prepareWrite
		if err := r.checkSubmodules(ctx); err != nil {
			return protocol.ToolOutput{}, err
		}
	}
	r.readNames(args)
	if err := r.checkPaths(args); err != nil {
		return protocol.ToolOutput{}, err
	}
	if err := r.literally(ctx, args); err != nil {
		return protocol.ToolOutput{}, err
	}
	switch c.name {
	case "branches":
		return r.branches(ctx, args)
	case "changed_files":
		return r.changedFiles(ctx, args)
	}
	if c.writes {
		release, err := g.writer(ctx, r)
		if err != nil {
			return protocol.ToolOutput{}, err
		}
		defer release()
		if err := r.prepareWrite(ctx, args); err != nil {
			return protocol.ToolOutput{}, err
		}
	}
	return r.run(ctx, call, args)
}

// writer waits until no other call writes to the repository: two commits at once would build on the same one.
func (g *Git) writer(ctx context.Context, r *repository) (release func(), err error) {
	g.mu.Lock()
	turn, ok := g.writers[r.common]
	if !ok {
		turn = make(chan struct{}, 1)
		g.writers[r.common] = turn
	}
	g.mu.Unlock()
	timer := time.NewTimer(time.Until(r.deadline))
	defer timer.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, protocol.Errorf(protocol.CodeConflict, "another call is writing to the repository; it did not end within %v", g.options.Timeout).WithRetryable(true)
	}
}

// find is the subcommand of that name.
func (g *Git) find(name string) (*command, error) {
	c := g.commands[name]
	switch {
	case c == nil && (strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n")):
		return nil, invalid("subcommand: %s is none: one word is wanted, with nothing in front of it, and its options in args. There are %s", capabilities.QuoteName(name), strings.Join(g.allowed(), ", "))
	case c == nil:
		hint := ""
		if near := capabilities.Nearest(name, g.allowed()); near != "" {
			hint = " Did you mean " + near + "?"
		}
		return nil, invalid("subcommand: there is no %s here.%s There are %s", capabilities.QuoteName(name), hint, strings.Join(g.allowed(), ", "))
	case c.extra:
		return nil, protocol.Errorf(protocol.CodeForbidden, "subcommand: the executor's configuration does not allow %s. Allowed are %s", name, strings.Join(g.allowed(), ", "))
	}
	return c, nil
}

// checkPaths refuses what is outside the work tree, also where git would not look at it: given two such
// paths, diff compares files that are in no repository.
func (r *repository) checkPaths(args *arguments) error {
	for _, list := range [][]string{args.plain, args.paths, args.leading} {
		for _, path := range list {
			if err := r.checkPath(path); err != nil {
				return err
			}
			if rest := withoutMagic(path); rest != path {
				if err := r.checkPath(rest); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withoutMagic is the path of a pathspec that begins with a colon.
func withoutMagic(path string) string {
	rest, ok := strings.CutPrefix(path, ":")
	if !ok {
		return path
	}
	if _, after, ok := strings.Cut(rest, ")"); ok && rest[0] == '(' {
		return after
	}
	rest = strings.TrimLeft(rest, "!^:")
	if strings.HasPrefix(path, ":/") { // from the top, or a commit by its message
		rest = rest[1:]
	}
	return rest
}

func (r *repository) checkPath(path string) error {
	if path == "" {
		return nil
	}
	p, err := r.workspace.ResolveLink(capabilities.QuoteName(path))
	switch {
	case errors.Is(err, protocol.ErrForbidden):
		return err
	case err != nil:
		return nil // a part of it is no directory now; it may have been
	}
	top := r.top
	if top == "" {
		return nil
	}
	// git takes ".." away before it looks for links, or not, as it happens.
	asText := filepath.Join(r.dir, path)
	if filepath.IsAbs(path) {
		asText = ""
		if p, err := r.workspace.ResolveLink(capabilities.QuoteName(filepath.Clean(path))); err == nil {
			asText = p.Abs
		}
	}
	if !below(top, p.Abs) || !below(top, asText) {
		return protocol.Errorf(protocol.CodeForbidden, "%s is outside the work tree %s of the repository", capabilities.QuoteName(path), capabilities.QuoteName(top)).
			WithReason(protocol.ReasonWorkspaceBoundary)
	}
	return nil
}

func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// prepareWrite looks at what git would start because it writes.
func (r *repository) prepareWrite(ctx context.Context, args *arguments) error {
	if err := r.coverSubmodules(ctx); err != nil {
		return err
	}
	paths := append(append([]string{}, args.plain...), args.paths...)
	if len(paths) == 0 && (args.has("all") || args.has("update")) {
		paths = []string{":/"}
	}
	if len(paths) == 0 {
		return nil
	}
	others := args.command.name == "add" && !args.has("update")
	if others {
		if err := r.checkNested(ctx, paths); err != nil {
			return err
		}
	}
	return r.refuseFiltered(ctx, others, paths)
}

var lockHeld = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Unable to create '(.+\.lock)': File exists`)
})

// run runs git once, or as often as it takes for a lock to become free.
func (r *repository) run(ctx context.Context, call *capabilities.Call, args *arguments) (protocol.ToolOutput, error) {
	argv := args.argv()
	if r.config.noIgnoreRevs && args.command.name == "blame" {
		argv = slices.Insert(argv, 1, "--no-ignore-revs-file")
	}
	again := !args.command.writes // to show names otherwise
	until := time.Now().Add(r.git.options.LockWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		run, err := program.Start(ctx, call, r.group, r.command(argv...), r.limits())
		if err != nil {
			return protocol.ToolOutput{}, r.ended(err)
		}
		report := run.Report(r.config.hide)
		report.Stderr = hideURLs(report.Stderr)
		if again && report.InvalidBytes > 0 && run.Err() == nil && !report.Failed() && args.unreadable(report.Stdout) {
			// Once more, with such names in a form that can be read back.
			argv, again = slices.Concat([]string{"-c", "core.quotePath=true"}, argv), false
			continue
		}
		if show := args.shows(); show != nil {
			report.Stdout = show(report.Stdout)
		}
		if m := lockHeld().FindStringSubmatch(report.Stderr); m != nil && report.Failed() {
			if time.Now().Before(until) && wait(ctx, pause) {
				continue
			}
			return r.output(report, r.held(m[1]))
		}
		if err := run.Err(); err != nil {
			r.noteLocks(&report, run)
			return r.output(report, r.ended(err))
		}
		if report.Failed() {
			return r.output(report, failure(report.Stderr, report.Stdout, run.Exit.Code))
		}
		if args.command.name != "commit" {
			return r.output(report, nil)
		}
		if r.config.signs {
			report.Note("commit.gpgSign is configured, but nothing is signed here: the commit has no signature")
		}
		out, _ := r.output(report, nil)
		// It is there whatever becomes of the question.
		head, _ := r.ask(ctx, 4<<10, "rev-parse", "--verify", "--quiet", "HEAD")
		out.Structured = result{report, strings.TrimSpace(string(head))}
		return out, nil
	}
}

// output is the result. What git said on standard error is in the error, when there is one.
func (r *repository) output(report program.Report, err error) (protocol.ToolOutput, error) {
	out := protocol.ToolOutput{Structured: result{Report: report}}
	if words := report.Words(); err == nil || report.Stdout != "" || !errors.Is(err, errGit) {
		out.Content = protocol.Text(words).Content
	}
	return out, err
}

// wait says whether the time has passed, and not the call ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// held says who has a lock, as far as that is known.
func (r *repository) held(lock string) error {
	shown, age := capabilities.QuoteName(lock), ""
	if p, err := r.workspace.ResolveLink(capabilities.QuoteName(r.absolute(lock))); err == nil {
		shown = p.Display
		if info, err := os.Lstat(p.Abs); err == nil {
			age = "; it was made " + time.Since(info.ModTime()).Round(time.Second).String() + " ago"
		}
	}
	return protocol.Errorf(protocol.CodeConflict, "the repository is locked: %s was there for %v%s. Another git is at work: try again. If none is, one was killed, and the file has to be removed",
		shown, r.git.options.LockWait, age).WithRetryable(true)
}

// noteLocks says what a git that had to be killed has left.
func (r *repository) noteLocks(report *program.Report, run *program.Run) {
	began := time.Now().Add(-run.Duration - time.Second)
	for _, name := range []string{"index.lock", "HEAD.lock"} {
		path := filepath.Join(r.gitDir, name)
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(began) {
			report.Note("%s is there still; if no other git is at work it has to be removed", capabilities.QuoteName(path))
		}
	}
}
