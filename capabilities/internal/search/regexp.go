package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// escapedCR is a carriage return as a pattern spells it.
var escapedCR = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\\(r|x0[dD]|x\{0*[dD]\}|015)`)
})

// lookAround is how what RE2 does not have begins.
var lookAround = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\(\?(<?[=!]|>)`) })

// matcher is a regular expression and what is known about it. It is immutable.
type matcher struct {
	re     *regexp.Regexp // for one line without its newline, or for a whole text
	tree   *syntax.Regexp
	lines  bool // no match is longer than a line
	keepCR bool // the pattern names the carriage return, which otherwise belongs to the line end
	starts bool // the pattern asks for the start of the text
	// inLine and behind find what else there is where a search goes on behind one rune of the
	// text: in the rest of its line, or anywhere. nil with lines.
	inLine, behind func() *regexp.Regexp

	need  needles // when hasNeed
	has   bool
	prog  *syntax.Prog // nil: no automaton
	abc   *alphabet
	words bool
}

// compile reads a pattern. The error is invalid_params and says what is wrong with the
// pattern and what to do about it.
func compile(pattern string, ignoreCase, multiline bool) (*matcher, error) {
	switch {
	case pattern == "":
		return nil, invalid("pattern", "must not be empty")
	case len(pattern) > maxPattern:
		return nil, invalid("pattern", "is longer than %d bytes", maxPattern)
	}
	flags := syntax.Perl
	if multiline {
		flags &^= syntax.OneLine
	}
	prefix := ""
	if multiline {
		prefix = "(?m)"
	}
	if ignoreCase {
		flags |= syntax.FoldCase
		prefix += "(?i)"
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	m := &matcher{tree: tree}
	m.keepCR = namesCR(pattern)
	m.starts = hasOp(tree, syntax.OpBeginText)
	// With \A and \z the text is all of the file.
	m.lines = !multiline || !crossesLines(tree) && !m.starts && !hasOp(tree, syntax.OpEndText)
	if !multiline && hasNewline(tree) {
		return nil, invalid("pattern", `\n is in no line, and each line is searched on its own: say multiline`)
	}
	if m.re, err = regexp.Compile(prefix + pattern); err != nil {
		return nil, patternError(pattern, err)
	}
	if !m.lines {
		going := func(by string) func() *regexp.Regexp {
			return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)` + by + "(" + prefix + pattern + ")") })
		}
		m.inLine, m.behind = going(`[^\n]*?`), going(`(?s:.*?)`)
	}
	tree = tree.Simplify()
	m.need, m.has = required(tree)
	if prog, err := syntax.Compile(tree); err == nil && len(prog.Inst) <= maxInst {
		m.words = hasWords(prog)
		m.prog, m.abc = prog, newAlphabet(prog, m.words)
	}
	return m, nil
}

// simpler is what to do where RE2 has not what is asked for.
const simpler = ": search for a simpler pattern and look at what it finds"

// patternError words an error of the parser and says what helps.
func patternError(pattern string, err error) error {
	what, why := err.Error(), ""
	var bad *syntax.Error
	if errors.As(err, &bad) {
		what = fmt.Sprintf("%s: `%s`", bad.Code, protocolText(bad.Expr))
		switch bad.Code {
		case syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture:
			switch {
			case lookAround().MatchString(bad.Expr):
				why = "; RE2 has no look-around and no atomic groups" + simpler
			case bad.Expr == "(?P" && strings.Contains(pattern, "(?P="):
				why = "; RE2 has no back-references" + simpler
			case bad.Code == syntax.ErrInvalidNamedCapture:
				why = "; a group with a name is (?P<name>...)"
			default:
				why = "; RE2 knows the flags i, m, s and U, as in (?i) and (?i:...)"
			}
		case syntax.ErrInvalidEscape:
			if len(bad.Expr) == 2 && ('1' <= bad.Expr[1] && bad.Expr[1] <= '9' || bad.Expr[1] == 'k') {
				why = "; RE2 has no back-references" + simpler
			}
		case syntax.ErrInvalidRepeatOp:
			why = "; RE2 has no possessive repetition: one of the signs is enough"
		case syntax.ErrInvalidRepeatSize:
			why = "; RE2 repeats at most 1,000 times"
			if first, second, ok := strings.Cut(strings.Trim(bad.Expr, "{}"), ","); ok {
				from, err1 := strconv.Atoi(first)
				to, err2 := strconv.Atoi(second)
				if err1 == nil && err2 == nil && to < from {
					why = "; the first number is larger than the second"
				}
			}
		case syntax.ErrLarge, syntax.ErrNestingDepth:
			why = "; use a shorter pattern"
		case syntax.ErrInvalidUTF8:
			why = "; a pattern is text in UTF-8"
		}
	}
	if why == "" {
		why = "; for the text itself write `" + protocolText(regexp.QuoteMeta(pattern)) + "`"
	}
	return invalid("pattern", "%s", "not a regular expression (RE2): "+what+why)
}

// protocolText makes text of what an error quotes.
func protocolText(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// namesCR says whether the text of a pattern asks for the carriage return: [^\r\n] does not.
func namesCR(pattern string) bool {
	not := false // in a class of what is not wanted
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch c := pattern[i]; {
		case c == ']':
			not = false
		case strings.HasPrefix(rest, "[^"):
			not = true
		case not && c != '\\':
		case c == '\r':
			return true
		case c == '\\':
			if !not && escapedCR().MatchString(rest) {
				return true
			}
			i++
		}
	}
	return false
}

// hasNewline says whether a literal of the pattern has the newline, or a class has it alone.
func hasNewline(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return true
		}
	case syntax.OpCharClass:
		if len(re.Rune) == 2 && re.Rune[0] == '\n' && re.Rune[1] == '\n' {
			return true
		}
	}
	return slices.ContainsFunc(re.Sub, hasNewline)
}

// crossesLines says whether something in the pattern can match a newline.
func crossesLines(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i] <= '\n' && '\n' <= re.Rune[i+1] {
				return true
			}
		}
	}
	return slices.ContainsFunc(re.Sub, crossesLines)
}

func hasOp(re *syntax.Regexp, op syntax.Op) bool {
	if re.Op == op {
		return true
	}
	for _, sub := range re.Sub {
		if hasOp(sub, op) {
			return true
		}
	}
	return false
}

// lineFinder finds the lines of a block that may match. It belongs to one goroutine.
type lineFinder struct {
	*matcher
	ctx     context.Context
	cursors []cursor
	bytes   bool // the needles find all that there is in this block
	dfa     *dfa // nil before it is needed
	useless bool // the automaton was
}

func (m *matcher) finder(ctx context.Context) *lineFinder {
	return &lineFinder{matcher: m, ctx: ctx, cursors: make([]cursor, len(m.need.all))}
}

// block is called before the first next for a block.
func (f *lineFinder) block(b []byte) {
	clear(f.cursors)
	for i := range f.cursors {
		f.cursors[i] = cursor{-1, -1, -1}
	}
	f.bytes = f.has
	if f.has && f.need.foreign && (bytes.Contains(b, []byte("\u212a")) || bytes.Contains(b, []byte("\u017f"))) {
		f.bytes = false
	}
}

// next returns a place in the first line of the block b, at from or behind, that may match, or
// -1. from is the start of a line. sure: the line does match, provided that it has no
// carriage return but at its end.
func (f *lineFinder) next(b []byte, from int) (at int, sure bool) {
	if f.bytes {
		best := len(b)
		for i := range f.cursors {
			best = min(best, f.cursors[i].next(&f.need.all[i], b, from))
		}
		if best == len(b) {
			return -1, false
		}
		return best, f.need.exact
	}
	if !f.automaton() {
		return from, false
	}
	at = f.dfa.scan(b, from)
	return at, !f.dfa.hopeless()
}

// automaton says whether there is one that is of use, and makes it.
func (f *lineFinder) automaton() bool {
	if f.prog == nil || f.useless {
		return false
	}
	if f.dfa == nil {
		f.dfa = newDFA(f.prog, f.abc, f.words, !f.keepCR)
	}
	if f.dfa.hopeless() {
		f.useless, f.dfa = true, nil
	}
	return !f.useless
}

// matches says whether a line without its end matches.
func (f *lineFinder) matches(line []byte) bool {
	if (f.keepCR || bytes.IndexByte(line, '\r') < 0) && f.automaton() {
		if at := f.dfa.scan(line, 0); !f.dfa.hopeless() {
			return at >= 0
		}
	}
	return f.find(line) != nil
}

// longText is how much text the standard library may search at a time without being
// asked whether the search has been canceled.
const longText = 64 << 10

// find is where the standard library finds the pattern first. After a cancel it may miss it.
func (f *lineFinder) find(b []byte) []int {
	if len(b) <= longText {
		return f.re.FindIndex(b)
	}
	return f.re.FindReaderIndex(&cancelableRunes{ctx: f.ctx, b: b})
}

// cancelableRunes ends early when ctx does.
type cancelableRunes struct {
	ctx   context.Context
	b     []byte
	at, n int
}

func (r *cancelableRunes) ReadRune() (rune, int, error) {
	if r.n++; r.n%4096 == 0 && r.ctx.Err() != nil || r.at == len(r.b) {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRune(r.b[r.at:])
	r.at += size
	return c, size, nil
}
