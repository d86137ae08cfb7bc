package search

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
)

// GlobOptions say what Glob looks for.
type GlobOptions struct {
	// Pattern is a shell pattern with ** and braces. It is relative to Path, or absolute; a slash at
	// its end asks for directories. Components without special characters at its front may be
	// links and hidden or ignored names, as Path may.
	Pattern  string
	Path     string // the directory; "" = the workspace's own
	Limit    int    // how many paths are returned at most; 0 = all
	Hidden   bool   // also names with a dot at the front
	NoIgnore bool   // what .gitignore says does not matter
}

// Found is what Glob found.
type Found struct {
	// Matches are the newest ones within the limit, newest first and of the same time by path: quoted
	// by capabilities.QuoteName, relative to the workspace's directory when in it. Workspace.Resolve takes them.
	Matches []string
	Count   int // of all matches
	Skipped Skipped
}

// Glob finds what a pattern matches: files, links and what else there is, or directories
// when the pattern ends with a slash. The error is a *protocol.Error or that of ctx.
func Glob(ctx context.Context, w *capabilities.Workspace, o GlobOptions) (Found, error) {
	pattern := capabilities.UnquoteName(o.Pattern)
	if _, err := parseGlob("pattern", pattern); err != nil {
		return Found{}, err
	}
	prefix, rest := literalPrefix(pattern)
	path := prefix
	if base := capabilities.UnquoteName(o.Path); base != "" && !filepath.IsAbs(prefix) && !strings.HasPrefix(prefix, "/") {
		path = strings.TrimSuffix(filepath.ToSlash(base), "/") + "/" + prefix
	}
	path = cmp.Or(strings.TrimRight(path, "/"), path, ".")
	g, err := parseGlob("pattern", rest)
	if err != nil {
		return Found{}, err
	}
	for _, one := range g {
		if slices.Contains(one.parts, "..") || slices.Contains(one.parts, ".") {
			return Found{}, invalid("pattern", ". and .. are good only in front of everything else; give the directory as path")
		}
	}
	s, err := open(w, quoted(path), o.NoIgnore)
	if err != nil {
		return Found{}, err
	}
	defer s.close()
	if s.file != "" {
		return Found{}, invalid("path", "%s is a file: give its directory", quoted(s.shown))
	}

	var all []*finder
	skipped := walk(ctx, s, walkOptions{hidden: o.Hidden, noIgnore: o.NoIgnore, dotted: g.dotted(), enter: g.mayLead},
		func() visitor {
			f := &finder{start: s, globs: g, limit: o.Limit}
			all = append(all, f)
			return f
		})
	if err := ctx.Err(); err != nil {
		return Found{}, err
	}
	result := finder{limit: o.Limit}
	for _, f := range all {
		result.count += f.count
		result.found = append(result.found, f.found...)
		skipped.add(&f.skipped)
	}
	result.cut()
	out := Found{Matches: []string{}, Count: result.count, Skipped: skipped}
	for _, f := range result.found {
		out.Matches = append(out.Matches, quoted(f.path))
	}
	out.Skipped.sort()
	return out, nil
}

type found struct {
	path    string
	changed time.Time
}

// finder is the visitor of Glob.
type finder struct {
	start   *start
	globs   globs
	limit   int
	found   []found
	count   int
	skipped Skipped
}

func (f *finder) visit(d dir, path string, e entry) {
	if !f.globs.match(path, e.name, e.kind) {
		return
	}
	_, changed, err := d.look(e.name)
	if err != nil {
		f.skipped.unreadable(f.start.show(path+e.name), err)
		return
	}
	f.count++
	f.found = append(f.found, found{f.start.show(path + e.name), changed})
	if f.limit > 0 && len(f.found) > 4*f.limit+1024 {
		f.cut()
	}
}

// cut keeps the newest within the limit.
func (f *finder) cut() {
	slices.SortFunc(f.found, func(a, b found) int {
		if c := b.changed.Compare(a.changed); c != 0 {
			return c
		}
		return comparePaths(a.path, b.path)
	})
	if f.limit > 0 && len(f.found) > f.limit {
		f.found = f.found[:f.limit]
	}
}
