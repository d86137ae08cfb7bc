package search

import (
	"context"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
)

// Mode says what Grep returns.
type Mode string

const (
	ModeContent Mode = "content" // the lines
	ModeFiles   Mode = "files"   // the files that have one
	ModeCount   Mode = "count"   // how many lines each file has
)

// GrepOptions say what Grep looks for.
type GrepOptions struct {
	Pattern    string // a regular expression as RE2 reads them
	Path       string // a file or a directory; "" = the workspace's directory
	Glob       string // only files it matches; without a slash it is for names. With ! at its front it leaves out what it matches, directories with all in them
	Mode       Mode   // "" = content
	Context    int    // lines before and after each that is shown
	IgnoreCase bool
	Multiline  bool // a match may be longer than a line; ^ and $ are at every line's ends
	Hidden     bool // also names with a dot at the front
	NoIgnore   bool // what .gitignore says does not matter

	Limit   int // matching lines that are returned, or files in the other modes; 0 = all
	MaxLine int // bytes of a line that are returned; 0 = 400
	MaxText int // bytes of text and paths after which no more is returned, give or take a match; 0 = any number
}

// Lines is what Grep found.
type Lines struct {
	Files   []File // in order of their paths
	Shown   int    // matches in Files: lines, or files in the other modes
	Matches int    // matching lines in all files
	Matched int    // files with a match
	// Searched is how many files were read to their end and are text.
	Searched int
	Cut      int // rows that are cut
	Long     int // lines of more than 2 MiB, which were searched in pieces
	Skipped  Skipped
}

// File is a file with a match.
type File struct {
	Path    string // quoted by capabilities.QuoteName, relative to the workspace's directory when in it
	Matches int    // matching lines in all of the file, unless the mode is files
	Rows    []Row
}

// Row is a line of a file, or the lines of one match when it is longer.
type Row struct {
	Line   int    // from 1
	Column int    // byte of the line at which the match begins, from 1; 0 = a line around a match
	Text   string // without the line's end; with … where it is cut
	Cut    bool
}

const defaultMaxLine = 400

// Grep finds the lines that match a pattern. A multiline match counts as one. The error is
// a *protocol.Error or that of ctx.
func Grep(ctx context.Context, w *capabilities.Workspace, o GrepOptions) (Lines, error) {
	m, err := compile(o.Pattern, o.IgnoreCase, o.Multiline)
	if err != nil {
		return Lines{}, err
	}
	f, err := parseFilter(o.Glob)
	if err != nil {
		return Lines{}, err
	}
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	if o.Path == "" {
		o.Path = "."
	}
	s, err := open(w, o.Path, o.NoIgnore)
	if err != nil {
		return Lines{}, err
	}
	defer s.close()

	var all []*grepper
	visitors := func() visitor {
		g := newGrepper(ctx, s, m, f, o)
		all = append(all, g)
		return g
	}
	defer func() {
		for _, g := range all {
			g.release()
		}
	}()
	var skipped Skipped
	if s.file != "" {
		g := visitors().(*grepper)
		file, err := s.dir.file(s.file)
		if err != nil {
			return Lines{}, capabilities.FileError(err, quoted(s.shown))
		}
		g.file(file, "")
	} else {
		skipped = walk(ctx, s, walkOptions{hidden: o.Hidden, noIgnore: o.NoIgnore, dotted: f.dotted(), enter: f.enter()}, visitors)
	}
	if err := ctx.Err(); err != nil {
		return Lines{}, err
	}
	return collect(all, skipped), nil
}

// filter is the glob of a search for content.
type filter struct {
	globs globs
	not   bool
}

func parseFilter(pattern string) (filter, error) {
	if pattern == "" {
		return filter{}, nil
	}
	pattern, not := strings.CutPrefix(pattern, "!")
	if !strings.Contains(strings.TrimSuffix(pattern, "/"), "/") {
		pattern = "**/" + pattern
	}
	pattern = strings.TrimPrefix(pattern, "./")
	pattern = strings.TrimPrefix(pattern, "/")
	if strings.HasSuffix(pattern, "/") && !not { // else the directory is not entered
		pattern += "**"
	}
	g, err := parseGlob("glob", pattern)
	return filter{g, not}, err
}

func (f filter) match(dir string, e entry) bool {
	return f.globs == nil || f.globs.match(dir, e.name, e.kind) != f.not
}

func (f filter) dotted() []wild {
	if f.not {
		return nil
	}
	return f.globs.dotted()
}

// enter says into which directories there is any sense in going.
func (f filter) enter() func(string) bool {
	switch {
	case f.globs == nil:
		return nil
	case f.not:
		return func(dir string) bool { return !f.globs.has(strings.TrimSuffix(dir, "/")) }
	}
	return f.globs.mayLead
}

// collect joins what the goroutines of a search found.
func collect(all []*grepper, skipped Skipped) Lines {
	out := Lines{Files: []File{}}
	var results results
	for _, g := range all {
		results.limit, results.bytes, results.context = g.opts.Limit, g.opts.MaxText, g.opts.Context
		results.files = append(results.files, g.results.files...)
		out.Matches += g.matches
		out.Matched += g.matched
		out.Searched += g.searched
		out.Long += g.long
		skipped.add(&g.skipped)
	}
	start := all[0].start
	results.cut()
	for _, r := range results.files {
		for _, row := range r.rows {
			if row.Cut {
				out.Cut++
			}
		}
		out.Shown += r.weight
		out.Files = append(out.Files, File{Path: quoted(start.show(r.path)), Matches: r.matches, Rows: r.rows})
	}
	out.Skipped = skipped
	out.Skipped.sort()
	return out
}

// result is a file with a match.
type result struct {
	path    string // below the start
	matches int
	weight  int // what it counts against the limit: rows that match, or one
	size    int // bytes of the path and the rows
	rows    []Row
}

// results are those of one goroutine: in the end the first ones of its files, by their
// paths, within the limit.
type results struct {
	limit, bytes, context int

	files []result
	total int    // of the weights
	size  int    // of the sizes
	last  string // with limit reached: what comes behind this path is not wanted
	full  bool
}

func (r *results) wants(path string) bool { return !r.full || comparePaths(path, r.last) < 0 }

func (r *results) add(f result) {
	r.files = append(r.files, f)
	r.total += f.weight
	r.size += f.size
	over := func(value, most, slack int) bool {
		return most > 0 && (value > 2*most+slack || !r.full && value >= most)
	}
	if over(r.total, r.limit, 100) || over(r.size, r.bytes, 1<<16) {
		r.cut()
	}
}

// cut sorts and drops what is behind the limits.
func (r *results) cut() {
	slices.SortFunc(r.files, func(a, b result) int { return comparePaths(a.path, b.path) })
	r.total, r.size = 0, 0
	for i := range r.files {
		f := &r.files[i]
		r.total += f.weight
		r.size += f.size
		if (r.limit <= 0 || r.total < r.limit) && (r.bytes <= 0 || r.size < r.bytes) {
			continue
		}
		if r.limit > 0 && r.total > r.limit {
			f.drop(r.total-r.limit, r.context)
			r.total = r.limit
		}
		clear(r.files[i+1:])
		r.files = r.files[:i+1]
		r.last, r.full = f.path, true
		return
	}
}

// drop takes n matches off the end, and the lines that are there because of them.
func (f *result) drop(n, context int) {
	if n == 0 || len(f.rows) == 0 {
		return
	}
	f.weight -= n
	keep, last := f.weight, 0
	for i, row := range f.rows {
		if row.Column > 0 {
			if keep--; keep >= 0 {
				last = row.Line + strings.Count(row.Text, "\n")
				continue
			}
			f.rows = f.rows[:i]
			return
		}
		if keep == 0 && row.Line > last+context {
			f.rows = f.rows[:i]
			return
		}
	}
}
