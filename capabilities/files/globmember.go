package files

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

// chooser is the member glob of a search in a directory. It is relative to that
// directory. An absolute one means what it says when that is below, and else begins at
// the directory, as in .gitignore.
type chooser struct {
	pattern string // relative; "" is all
	top     bool   // it begins at the directory also when it has no slash
	hint    string // for a search that finds nothing, "" for none
}

// globSpecial are the characters that make a pattern of a path.
const globSpecial = `*?[\{}`

// checkGlob refuses a pattern that can match nothing.
func checkGlob(glob string) error {
	parts := strings.FieldsFunc(capabilities.UnquoteName(glob), func(r rune) bool { return strings.ContainsRune("/{},", r) })
	if slices.Contains(parts, "..") {
		return protocol.Errorf(protocol.CodeInvalidParams, "glob: %s: .. leads out of the directory that is looked at; give the directory as path",
			named(glob))
	}
	return nil
}

// newChooser reads the member glob of a search in dir, "" for the workspace.
func newChooser(w *capabilities.Workspace, dir, glob string) (c chooser, err error) {
	if c.pattern = straight(capabilities.UnquoteName(glob)); c.pattern == "" {
		return c, nil
	}
	if dir == "" {
		dir = "."
	}
	start, err := w.Resolve(dir)
	if err != nil {
		return c, err
	}
	if !filepath.IsAbs(c.pattern) && !strings.HasPrefix(c.pattern, "/") {
		if at := filepath.ToSlash(start.Rel) + "/"; start.Rel != "." && strings.HasPrefix(c.pattern, at) {
			c.hint = fmt.Sprintf("[glob is relative to path: without %s at its front it may match]\n", capabilities.QuoteName(at))
		} else if c.hint = severalHint(c.pattern); c.hint == "" && !strings.ContainsAny(c.pattern, globSpecial) {
			if info, err := start.Root.Lstat(filepath.Join(start.Rel, c.pattern)); err == nil && info.IsDir() && !strings.HasSuffix(c.pattern, "/") {
				c.hint = fmt.Sprintf("[%s is a directory: %s/** is what is in it]\n", capabilities.QuoteName(c.pattern), capabilities.QuoteName(c.pattern))
			}
		}
		return c, nil
	}
	c.top = true
	parent, rest := parentOf(c.pattern)
	if at, err := w.Resolve(capabilities.QuoteName(parent)); err == nil {
		rel, err := filepath.Rel(start.Abs, at.Abs)
		if err != nil || !filepath.IsLocal(rel) {
			return c, protocol.Errorf(protocol.CodeInvalidParams, "glob: %s is not below %s; give the directory as path", capabilities.QuoteName(glob), start.Display)
		}
		c.pattern = strings.TrimPrefix(literal(filepath.ToSlash(rel))+"/"+rest, "./")
		return c, nil
	}
	c.pattern = strings.TrimLeft(c.pattern, "/")
	c.hint = fmt.Sprintf("[glob begins at path: %s means %s]\n", capabilities.QuoteName(glob), capabilities.QuoteName(path.Join(capabilities.UnquoteName(start.Display), c.pattern)))
	return c, nil
}

// forLists is the pattern as search.ParsePattern reads it: with a slash in it if it is not
// for a name anywhere.
// One that takes all at any depth has no slash and needs one, or only the first level
// would be looked at.
func (c chooser) forLists() string {
	if bare, dirs := strings.CutSuffix(c.pattern, "/"); takesAll(bare) {
		if dirs {
			return "**/*/"
		}
		return "**/*"
	}
	switch bare, dirs := strings.CutSuffix(c.pattern, "/"); {
	case !c.top || strings.Contains(bare, "/"):
		return c.pattern
	case dirs:
		return bare + "{/,/}"
	}
	return c.pattern + "{,/}"
}

// takesAll reports that a pattern without a slash is ** or has it among its alternatives:
// no other matches a path with one.
func takesAll(bare string) bool {
	if strings.Contains(bare, "/") || !strings.Contains(bare, "**") {
		return false
	}
	p, err := search.ParsePattern("glob", bare+"{,/}") // a slash, so that paths are matched
	return err == nil && p.Match("a/b/c", true)
}

// forGrep is the pattern as search.Grep reads it.
func (c chooser) forGrep() string {
	if c.top {
		return "/" + c.pattern
	}
	return c.pattern
}

// straight takes what goes nowhere out of a pattern: a/./b and a//b.
func straight(pattern string) string {
	for strings.Contains(pattern, "/./") || strings.Contains(pattern, "//") {
		pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "/./", "/"), "//", "/")
	}
	return strings.TrimPrefix(pattern, "./")
}

// parentOf cuts a pattern behind the last slash before which it is a plain path and not at
// its end.
func parentOf(pattern string) (parent, rest string) {
	plain := pattern
	if at := strings.IndexAny(pattern, globSpecial); at >= 0 {
		plain = pattern[:at]
	} else {
		plain = strings.TrimRight(pattern, "/")
	}
	at := strings.LastIndexByte(plain, '/') + 1
	return pattern[:at], pattern[at:]
}

// literal makes a pattern that only the path matches.
func literal(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte(globSpecial, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// severalHint is for a list of patterns where one is asked for, "" for others.
func severalHint(pattern string) string {
	if strings.ContainsAny(pattern, "{}") || !strings.ContainsAny(pattern, "*?") {
		return ""
	}
	parts := strings.FieldsFunc(pattern, func(r rune) bool { return strings.ContainsRune(",;| ", r) })
	if len(parts) < 2 {
		return ""
	}
	return fmt.Sprintf("[this is one pattern; several are written %s]\n", capabilities.QuoteName("{"+strings.Join(parts, ",")+"}"))
}

// fileAt reports that path is a regular file, and where.
func fileAt(w *capabilities.Workspace, path string) (p capabilities.Path, ok bool) {
	if path == "" {
		return p, false
	}
	p, err := w.Resolve(path)
	if err != nil {
		return p, false
	}
	info, err := p.Root.Lstat(p.Rel)
	return p, err == nil && info.Mode()&fs.ModeType == 0
}
