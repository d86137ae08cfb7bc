package files

import (
	"strings"

	"github.com/agent-executor/executor/protocol"
	"github.com/bmatcuk/doublestar/v4"
)

// pattern chooses among paths below a directory: *, ?, [a-z], {a,b}, and ** for any
// number of directories. Without a slash it is about the last name alone.
type pattern struct {
	text string
	base bool
}

// A pattern is bounded: each brace can double what has to be tried for every name.
const (
	maxPattern = 1024 // bytes
	maxBraces  = 8
)

// newPattern reads a pattern; an empty one fits all.
func newPattern(member, text string) (pattern, error) {
	text = strings.TrimPrefix(text, "./")
	if len(text) > maxPattern || strings.Count(text, "{") > maxBraces || strings.Count(text, "**") > maxBraces {
		return pattern{}, protocol.Errorf(protocol.CodeInvalidParams, "%s: at most %s bytes, %d braces and %d times **", member, count(maxPattern), maxBraces, maxBraces)
	}
	if text != "" && !doublestar.ValidatePattern(text) {
		return pattern{}, protocol.Errorf(protocol.CodeInvalidParams, "%s: %q is no pattern: a bracket, a brace or a backslash is not complete", member, text)
	}
	return pattern{text: text, base: !strings.Contains(text, "/")}, nil
}

// fits reports whether rel, with slashes, is chosen.
func (p pattern) fits(rel string) bool {
	if p.text == "" {
		return true
	}
	if p.base {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	return doublestar.MatchUnvalidated(p.text, rel)
}

// deep: something below the first level can be chosen.
func (p pattern) deep() bool { return !p.base }
