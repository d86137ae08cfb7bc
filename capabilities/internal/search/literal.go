package search

import (
	"bytes"
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxNeedles is how many literals are looked for one by one; a pattern that needs
	// one of more is left to the automaton.
	maxNeedles = 12
	// maxExact bounds the set of literals that a part of a pattern stands for, and
	// maxClass the runes of a class that is taken apart into it.
	maxExact = maxNeedles
	maxClass = 6
)

// needles are literals of which every match of a pattern contains at least one.
type needles struct {
	all []needle
	// exact: the pattern matches these and nothing else, so that one that is found is a match.
	exact bool
	// foreign: k or s is in them, regardless of case. U+212A and U+017F are other
	// cases of these, which the search for bytes does not see.
	foreign bool
}

// lone says whether one byte alone is worth looking for: it is in one line of twenty at
// most, of most texts, and what each of these costs is not more than the automaton saves.
func lone(text string) bool {
	return len(text) == 1 && (!strings.Contains(commonBytes, text) || strings.Contains("_-;'jq*<z>+#UG&$", text))
}

// needle is one literal. It is looked for by its rarest byte.
type needle struct {
	text     string // lower case when fold
	fold     bool
	rare     int  // index of the rarest byte
	low, upp byte // that byte in both cases, or twice the same
}

// commonBytes are the bytes of source code and prose, the most common ones first.
const commonBytes = " etaoinsrlcdpum\tfhg.y,b()v_w\"=k:-/;x'0ES1TIACj{}RN[]*LqPDOM2F<z>B+#UG&$"

// rarity is higher for rarer bytes.
func rarity(c byte) int {
	if i := strings.IndexByte(commonBytes, c); i >= 0 {
		return i
	}
	return len(commonBytes)
}

func newNeedle(text string, fold bool) needle {
	n := needle{text: text, fold: fold}
	best := -1
	for i := range len(text) {
		c := text[i]
		r := rarity(c)
		if fold && 'a' <= c && c <= 'z' {
			r = min(r, rarity(c-'a'+'A')) * 2 / 3 // two scans
		}
		if r > best {
			best, n.rare, n.low, n.upp = r, i, c, c
			if fold && 'a' <= c && c <= 'z' {
				n.upp = c - 'a' + 'A'
			}
		}
	}
	return n
}

// lowerASCII leaves alone what is not ASCII: Unicode makes ASCII of some of it.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func (n *needle) at(b []byte) bool {
	if len(b) < len(n.text) {
		return false
	}
	if !n.fold {
		return string(b[:len(n.text)]) == n.text
	}
	for i := range len(n.text) {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != n.text[i] {
			return false
		}
	}
	return true
}

// cursor is how far the search for one needle has come in a block, so that nothing is
// gone over twice.
type cursor struct{ found, low, upp int }

// next finds the needle at from or behind; math.MaxInt when there is none.
func (c *cursor) next(n *needle, b []byte, from int) int {
	if c.found >= from {
		return c.found
	}
	for p := from; ; p++ {
		r := p + n.rare
		if c.low < r {
			c.low = indexFrom(b, n.low, r)
		}
		hit := c.low
		if n.upp != n.low {
			if c.upp < r {
				c.upp = indexFrom(b, n.upp, r)
			}
			hit = min(hit, c.upp)
		}
		if hit == math.MaxInt {
			c.found = hit
			return hit
		}
		p = hit - n.rare
		if n.at(b[p:]) {
			c.found = p
			return p
		}
	}
}

func indexFrom(b []byte, c byte, from int) int {
	if from < len(b) {
		if i := bytes.IndexByte(b[from:], c); i >= 0 {
			return from + i
		}
	}
	return math.MaxInt
}

// required finds the needles of a pattern; ok is false when it has none that are any good.
func required(re *syntax.Regexp) (n needles, ok bool) {
	w := literals{exact: true}
	w.look(re)
	set := w.of(re)
	texts := set.best()
	if len(texts) == 0 || len(texts) > maxNeedles {
		return n, false
	}
	n.exact = w.exact && set.exact != nil && !(w.folded && w.plain)
	for _, text := range texts {
		if strings.ContainsAny(text, "\r\n") {
			n.exact = false // the end of a line is not part of it
		}
		if len(text) < 2 && !(n.exact && len(texts) <= 3) && !(len(texts) == 1 && lone(text)) {
			return n, false
		}
		if w.folded {
			text = lowerASCII(text)
			n.foreign = n.foreign || strings.ContainsAny(text, "ks")
		}
		n.all = append(n.all, newNeedle(text, w.folded))
	}
	return n, true
}

// literals takes the tree of a pattern apart.
type literals struct {
	exact  bool // there are only literals, classes and choices in it
	folded bool // some part ignores case: then all needles do
	plain  bool // some part does not
}

// look goes through the tree once for what holds of all of it.
func (l *literals) look(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		fold := re.Flags&syntax.FoldCase != 0
		for _, r := range re.Rune {
			letter := unicode.SimpleFold(r) != r
			l.folded = l.folded || fold && letter
			l.plain = l.plain || !fold && letter
			if fold && letter && r >= utf8.RuneSelf {
				l.exact = false // matched by the other letters only
			}
		}
	case syntax.OpCharClass:
		l.plain = true
	case syntax.OpConcat, syntax.OpAlternate, syntax.OpCapture, syntax.OpQuest, syntax.OpEmptyMatch:
	default:
		l.exact = false
	}
	for _, sub := range re.Sub {
		l.look(sub)
	}
}

// literalSet is what is known of a part's matches: they are one of exact, when that is
// not nil, and contain one of need, when that is not nil.
type literalSet struct{ exact, need []string }

// best chooses the better one of both.
func (s literalSet) best() []string {
	if better(s.exact, s.need) {
		return s.exact
	}
	return s.need
}

// better prefers long literals and few of them.
func better(a, b []string) bool { return score(a) > score(b) }

func score(set []string) int {
	if len(set) == 0 {
		return 0
	}
	shortest := math.MaxInt
	for _, s := range set {
		shortest = min(shortest, len(s))
	}
	return min(shortest, 20)*100 - min(len(set), 90)
}

func (l *literals) of(re *syntax.Regexp) literalSet {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return literalSet{exact: []string{""}}
	case syntax.OpLiteral:
		return l.literal(re)
	case syntax.OpCharClass:
		var set []string
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if len(set) == maxClass || r == utf8.RuneError || l.folded && r >= utf8.RuneSelf {
					return literalSet{}
				}
				set = append(set, string(r))
			}
		}
		return literalSet{exact: set}
	case syntax.OpCapture:
		return l.of(re.Sub[0])
	case syntax.OpQuest:
		sub := l.of(re.Sub[0])
		if sub.exact == nil || len(sub.exact) == maxExact {
			return literalSet{}
		}
		return literalSet{exact: append(slices.Clone(sub.exact), "")}
	case syntax.OpPlus:
		return literalSet{need: l.of(re.Sub[0]).best()}
	case syntax.OpAlternate:
		return l.alternate(re)
	case syntax.OpConcat:
		return l.concat(re)
	}
	return literalSet{}
}

// literal is the text itself; without case, the longest piece that is ASCII.
func (l *literals) literal(re *syntax.Regexp) literalSet {
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) { // it matches invalid bytes, too
		return literalSet{}
	}
	if !l.folded {
		return literalSet{exact: []string{text}}
	}
	text = lowerASCII(text)
	longest := ""
	for piece := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if len(piece) > len(longest) {
			longest = piece
		}
	}
	switch longest {
	case text:
		return literalSet{exact: []string{text}}
	case "":
		return literalSet{}
	}
	return literalSet{need: []string{longest}}
}

func (l *literals) alternate(re *syntax.Regexp) literalSet {
	out := literalSet{exact: []string{}, need: []string{}}
	for _, sub := range re.Sub {
		s := l.of(sub)
		if s.exact == nil || out.exact == nil || len(out.exact)+len(s.exact) > maxExact {
			out.exact = nil
		} else {
			out.exact = append(out.exact, s.exact...)
		}
		best := s.best()
		if len(best) == 0 || out.need == nil || len(out.need)+len(best) > maxExact || slices.Contains(best, "") {
			out.need = nil
		} else {
			out.need = append(out.need, best...)
		}
	}
	return out
}

// concat joins what stands side by side as long as the sets stay small, and remembers
// the best one of the sets that it had to end.
func (l *literals) concat(re *syntax.Regexp) literalSet {
	run := []string{""}
	all := true // run is everything up to here
	var need []string
	flush := func() {
		if better(run, need) {
			need = run
		}
		run, all = []string{""}, false
	}
	for _, sub := range re.Sub {
		s := l.of(sub)
		if better(s.need, need) {
			need = s.need
		}
		if s.exact == nil {
			flush()
			continue
		}
		if len(run)*len(s.exact) > maxExact {
			flush()
			if len(s.exact) > maxExact {
				continue
			}
		}
		joined := make([]string, 0, len(run)*len(s.exact))
		for _, a := range run {
			for _, b := range s.exact {
				joined = append(joined, a+b)
			}
		}
		run = joined
	}
	if all {
		return literalSet{exact: run, need: need}
	}
	flush()
	return literalSet{need: need}
}
