package search

import (
	"path"
	"strings"

	"github.com/agent-executor/executor/capabilities"
)

// Pattern chooses among paths below a directory, by the patterns of Glob. One without a
// slash is about the last name alone, one that ends with a slash is about directories;
// others are about files and directories. The zero value chooses all. It may be used
// concurrently.
type Pattern struct {
	globs globs
	base  bool
}

// ParsePattern reads a pattern; an empty one chooses all. field names the input in the
// error, which is a *protocol.Error.
func ParsePattern(field, text string) (Pattern, error) {
	text = strings.TrimPrefix(capabilities.UnquoteName(text), "./")
	if text == "" {
		return Pattern{}, nil
	}
	g, err := parseGlob(field, text)
	return Pattern{globs: g, base: !strings.Contains(strings.TrimSuffix(text, "/"), "/")}, err
}

// Match reports whether the path, with slashes and relative to the directory, is chosen.
func (p Pattern) Match(rel string, isDir bool) bool {
	if p.base {
		rel = path.Base(rel)
	}
	for i := range p.globs {
		if g := &p.globs[i]; (isDir || !g.dirsOnly) && g.whole.match(rel) {
			return true
		}
	}
	return len(p.globs) == 0
}

// Deep reports that something below the directory's first level can be chosen.
func (p Pattern) Deep() bool { return len(p.globs) > 0 && !p.base }
