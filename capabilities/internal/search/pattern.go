package search

import (
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxPattern is how many bytes a glob or a regular expression may have, and
	// maxAlternatives how many patterns its braces may stand for.
	maxPattern      = 16 << 10
	maxAlternatives = 1000
)

// globs is a shell pattern with its braces taken apart: what one of them matches.
type globs []glob

// glob is a pattern for a path below some directory.
type glob struct {
	whole    wild
	parts    []string // components
	dirsOnly bool     // it ends with a slash
	// base is the last component when the rest is **/ only: then the name decides.
	base *rule
}

// parseGlob reads a pattern of components, `*`, `?`, `[a-z]`, `**` and {a,b}; a backslash
// takes the meaning off the next character. field names the input in errors.
func parseGlob(field, pattern string) (globs, error) {
	switch {
	case pattern == "":
		return nil, invalid(field, "must not be empty")
	case len(pattern) > maxPattern:
		return nil, invalid(field, "is longer than %d bytes", maxPattern)
	case strings.IndexByte(pattern, 0) >= 0:
		return nil, invalid(field, "contains a NUL character")
	}
	all, err := expandBraces(field, pattern)
	if err != nil {
		return nil, err
	}
	var g globs
	for _, p := range all {
		p, dirsOnly := strings.CutSuffix(p, "/")
		if err := checkGlob(field, p); err != nil {
			return nil, err
		}
		one := glob{whole: wild{pattern: p, path: true, runes: true}, parts: strings.Split(p, "/"), dirsOnly: dirsOnly}
		if name, ok := strings.CutPrefix(p, "**/"); ok && !strings.Contains(name, "/") {
			one.base = nameRule(name)
		}
		g = append(g, one)
	}
	return g, nil
}

// nameRule makes a rule for a name out of a pattern without a slash.
func nameRule(name string) *rule {
	switch {
	case !strings.ContainsAny(name, special):
		return &rule{kind: ruleLiteral, text: name}
	case name[0] == '*' && !strings.ContainsAny(name[1:], special):
		return &rule{kind: ruleSuffix, text: name[1:]}
	}
	return &rule{kind: ruleWild, rest: wild{pattern: name, path: true, runes: true}}
}

// special are the characters that mean something in a pattern without braces.
const special = `*?[\`

// match says whether one of the patterns matches the entry name in the directory dir ("a/b/" or "").
func (g globs) match(dir, name string, k kind) bool {
	for i := range g {
		p := &g[i]
		switch {
		case p.dirsOnly != (k == kindDir):
		case p.base != nil:
			if p.base.match(name) {
				return true
			}
		case p.whole.match(dir + name):
			return true
		}
	}
	return false
}

// has says whether one of the patterns matches the path of a directory.
func (g globs) has(dir string) bool {
	name := dir[strings.LastIndexByte(dir, '/')+1:]
	return g.match(dir[:len(dir)-len(name)], name, kindDir) || g.match(dir[:len(dir)-len(name)], name, kindFile)
}

// mayLead says whether something below the directory dir ("a/b/") can match.
func (g globs) mayLead(dir string) bool {
	for i := range g {
		if g[i].leads(strings.TrimSuffix(dir, "/")) {
			return true
		}
	}
	return false
}

func (g *glob) leads(dir string) bool {
	i := 0
	for step := range strings.SplitSeq(dir, "/") {
		switch {
		case g.parts[i] == "**":
			return true
		case i == len(g.parts)-1, !(wild{pattern: g.parts[i], path: true, runes: true}).match(step):
			return false
		}
		i++
	}
	return true
}

// dotted are the components that name hidden entries: a pattern with .github in it means those.
func (g globs) dotted() []wild {
	var all []wild
	for _, p := range g {
		for _, part := range p.parts {
			if strings.HasPrefix(part, ".") {
				all = append(all, wild{pattern: part, path: true, runes: true})
			}
		}
	}
	return all
}

// expandBraces makes the alternatives of a{b,c}d; they may be nested.
func expandBraces(field, pattern string) ([]string, error) {
	open, depth := -1, 0
	var commas []int
	bracket := -1 // where an open bracket began: braces in it are characters
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if bracket >= 0 {
			if c == ']' && i > bracket+1 {
				bracket = -1
			}
			continue
		}
		switch {
		case c == '\\':
			i++
		case c == '[' && strings.IndexByte(pattern[i+1:], ']') > 0:
			bracket = i
		case c == '{':
			if depth++; depth == 1 {
				open = i
			}
		case c == ',' && depth == 1:
			commas = append(commas, i)
		case c == '}' && depth == 0:
			return nil, invalid(field, `has a } without a {; \} is the character`)
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			var all []string
			from := open + 1
			for _, to := range append(commas, i) {
				some, err := expandBraces(field, pattern[:open]+pattern[from:to]+pattern[i+1:])
				if err != nil {
					return nil, err
				}
				if all = append(all, some...); len(all) > maxAlternatives {
					return nil, invalid(field, "stands for more than %d patterns; use fewer braces", maxAlternatives)
				}
				from = to + 1
			}
			return all, nil
		}
	}
	if depth > 0 {
		return nil, invalid(field, `has a { without a }; \{ is the character`)
	}
	return []string{pattern}, nil
}

// checkGlob refuses what can match nothing because it is written wrongly.
func checkGlob(field, p string) error {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return invalid(field, `ends with a backslash; \\ is the character`)
			}
		case '[':
			_, next, bad := (wild{pattern: p}).bracket(i, "x", 0)
			if bad || strings.Contains(p[i:next], "/") {
				return invalid(field, `has a [ without a ]; \[ is the character`)
			}
			i = next - 1
		}
	}
	return nil
}

// invalid is the error about an input.
func invalid(field, format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalidParams, field+": "+format, args...)
}

// literalPrefix cuts the components off the front that have no special character: a search
// can begin there. The last component always stays.
func literalPrefix(pattern string) (prefix, rest string) {
	at := strings.IndexAny(pattern, special+"{}")
	if at < 0 {
		at = len(pattern)
	}
	slash := strings.LastIndexByte(pattern[:at], '/')
	if slash >= 0 && strings.Trim(pattern[slash:], "/") == "" { // dir/: the directory is the last component
		slash = strings.LastIndexByte(strings.TrimRight(pattern[:slash], "/"), '/')
	}
	if slash < 0 {
		return "", pattern
	}
	return pattern[:slash+1], strings.TrimLeft(pattern[slash+1:], "/")
}

// quoted is the name of a path as results show it.
func quoted(path string) string { return capabilities.QuoteName(path) }
