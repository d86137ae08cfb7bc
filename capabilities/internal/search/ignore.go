package search

import (
	"io"
	"strings"
)

// maxIgnoreBytes is how much of one file with rules is read.
const maxIgnoreBytes = 1 << 20

// rule is one line of a .gitignore.
type rule struct {
	kind    ruleKind
	text    string // of ruleLiteral and ruleSuffix
	rest    wild   // of ruleWild: what is behind text
	keep    bool   // it begins with !
	dirOnly bool   // it ends with /
	path    bool   // it is matched with the whole path below its directory; else with the name
}

type ruleKind uint8

const (
	ruleLiteral ruleKind = iota // the text itself
	ruleSuffix                  // anything that ends with the text
	ruleWild                    // the text and then a pattern
)

// ruleList is one file of rules. byName are its rules with a literal name: most lists
// have nothing else, and one look answers for all of them.
type ruleList struct {
	rules  []rule
	byName map[string]int // name → index+1 of the last rule that names it
	others []int          // indices of the rules that are not in byName, last first
	paths  bool           // some rules need the path
}

// parseRules reads the lines as git does.
func parseRules(text string) *ruleList {
	l := &ruleList{byName: map[string]int{}}
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if r, ok := parseRule(trimSpaces(line)); ok {
			l.rules = append(l.rules, r)
		}
	}
	for i := len(l.rules) - 1; i >= 0; i-- {
		r := &l.rules[i]
		l.paths = l.paths || r.path
		if r.kind == ruleLiteral && !r.path && !r.dirOnly {
			if l.byName[r.text] == 0 {
				l.byName[r.text] = i + 1
			}
			continue
		}
		l.others = append(l.others, i)
	}
	return l
}

// trimSpaces drops spaces at the end that no backslash protects.
func trimSpaces(line string) string {
	end := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if end < 0 {
				end = i
			}
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = -1
	}
	if end < 0 {
		return line
	}
	return line[:end]
}

func parseRule(line string) (r rule, ok bool) {
	line, r.keep = strings.CutPrefix(line, "!")
	if line == "" {
		return r, false
	}
	full := line
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.path = strings.Contains(line, "/")
	literal := len(line)
	if i := strings.IndexAny(full, `*?[\`); i >= 0 {
		literal = min(i, literal)
	}
	if r.path && strings.HasPrefix(line, "/") {
		line = line[1:]
		literal = max(literal-1, 0)
	}
	switch {
	case literal == len(line):
		r.kind, r.text = ruleLiteral, line
	case !r.path && line[0] == '*' && !strings.ContainsAny(line[1:], `*?[\`):
		r.kind, r.text = ruleSuffix, line[1:]
	case r.path:
		// git compares what is literal first and matches the rest as a pattern of its own.
		r.kind, r.text, r.rest = ruleWild, line[:literal], wild{pattern: line[literal:], path: true}
	default:
		r.kind, r.rest = ruleWild, wild{pattern: line}
	}
	return r, true
}

func (r *rule) match(s string) bool {
	switch r.kind {
	case ruleLiteral:
		return s == r.text
	case ruleSuffix:
		return strings.HasSuffix(s, r.text)
	}
	rest, ok := strings.CutPrefix(s, r.text)
	return ok && r.rest.match(rest)
}

// verdict is what rules say of an entry.
type verdict uint8

const (
	noRule verdict = iota
	ignored
	kept // a rule with ! names it
)

// match lets the last rule that matches decide. path is below the list's directory; it
// is asked for only when a rule needs it.
func (l *ruleList) match(name string, path func() string, isDir bool) verdict {
	best := l.byName[name] - 1
	for _, i := range l.others {
		if i < best {
			break
		}
		r := &l.rules[i]
		if r.dirOnly && !isDir {
			continue
		}
		s := name
		if r.path {
			s = path()
		}
		if r.match(s) {
			best = i
			break
		}
	}
	switch {
	case best < 0:
		return noRule
	case l.rules[best].keep:
		return kept
	}
	return ignored
}

// rules are those of one directory and, through up, of the ones above. Immutable; nil
// is no rules.
type rules struct {
	up   *rules
	base int  // length of the directory's path with its slash
	repo bool // a git repository begins here: what .gitignore says above does not hold below

	ignore, git, exclude *ruleList
}

// match says what the rules make of the entry name in the directory dir (a path with a
// slash at its end, or "" for the top). .ignore is stronger than .gitignore and that than
// .git/info/exclude, whatever their levels; within one kind the deepest directory decides.
func (r *rules) match(dir, name string, isDir bool) verdict {
	var git, exclude verdict
	var full string
	repo := false
	for ; r != nil; r = r.up {
		path := func() string {
			if full == "" {
				full = dir + name
			}
			return full[r.base:]
		}
		if r.ignore != nil {
			if v := r.ignore.match(name, path, isDir); v != noRule {
				return v
			}
		}
		if r.git != nil && git == noRule && !repo {
			git = r.git.match(name, path, isDir)
		}
		if r.exclude != nil && exclude == noRule && !repo {
			exclude = r.exclude.match(name, path, isDir)
		}
		repo = repo || r.repo
	}
	if git != noRule {
		return git
	}
	return exclude
}

// marks says which of the names that matter here a directory has.
type marks struct{ gitignore, ignore, git bool }

// extend returns the rules that hold in the directory d, which is path below the root of s.
func (r *rules) extend(s *start, d dir, m marks, path string) *rules {
	if m == (marks{}) {
		return r
	}
	n := &rules{up: r, base: len(path), repo: m.git}
	if m.gitignore {
		n.git = readRules(d, ".gitignore")
	}
	if m.ignore {
		n.ignore = readRules(d, ".ignore")
	}
	if m.git {
		n.exclude = s.exclude(d, path)
	}
	if n.git == nil && n.ignore == nil && !n.repo {
		return r
	}
	return n
}

// readRules reads a file with rules; one that cannot be read has none.
func readRules(d dir, name string) *ruleList {
	f, err := d.file(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	return listOf(string(text))
}

// listOf reads rules; nil when there are none.
func listOf(text string) *ruleList {
	if l := parseRules(text); len(l.rules) > 0 {
		return l
	}
	return nil
}
