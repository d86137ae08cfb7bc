package search

import (
	"strings"
	"unicode/utf8"
)

// wild matches a text against one shell pattern as git does it, byte for byte also in
// what is odd: `**` crosses directories only as a whole component, a bracket that is not
// closed matches nothing.
type wild struct {
	pattern string
	path    bool // * and ? and brackets stop at a slash
	runes   bool // ? and brackets take a whole character; git takes a byte
}

type wildResult uint8

const (
	wildMatch wildResult = iota
	wildNo
	wildAbortAll        // the text is too short for what is left of the pattern
	wildAbortToStarStar // only a ** further left can help
)

// wildSteps bounds the work on one hostile pattern; what is not decided then does not match.
const wildSteps = 100_000

func (w wild) match(text string) bool {
	steps := wildSteps
	return w.run(0, 0, text, &steps) == wildMatch
}

// char is the next thing that ? takes: a byte, or a character.
func (w wild) char(s string, i int) (rune, int) {
	if c := s[i]; c < utf8.RuneSelf || !w.runes {
		return rune(c), 1
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && size == 1 {
		return rune(s[i]) | 1<<24, 1 // an invalid byte is itself only
	}
	return r, size
}

func (w wild) at(i int) byte {
	if i < len(w.pattern) {
		return w.pattern[i]
	}
	return 0
}

// run matches the pattern from byte p on with text from byte t on.
func (w wild) run(p, t int, text string, steps *int) wildResult {
	for p < len(w.pattern) {
		if *steps--; *steps < 0 {
			return wildAbortAll
		}
		c := w.pattern[p]
		if t >= len(text) && c != '*' {
			return wildAbortAll
		}
		switch c {
		case '?':
			if w.path && text[t] == '/' {
				return wildNo
			}
			_, size := w.char(text, t)
			t += size
			p++
		case '[':
			ok, next, bad := w.bracket(p, text, t)
			switch {
			case bad:
				return wildAbortAll
			case !ok || w.path && text[t] == '/':
				return wildNo
			}
			_, size := w.char(text, t)
			t += size
			p = next
		case '*':
			cross, next := w.stars(p)
			if cross && w.path && w.at(next) == '/' && w.run(next+1, t, text, steps) == wildMatch {
				return wildMatch // **/ is nothing at all, too
			}
			if next < len(w.pattern) && w.pattern[next] == '/' && !cross {
				// One star and a slash: the rest of this component, whatever it is.
				slash := strings.IndexByte(text[t:], '/')
				if slash < 0 {
					return wildNo
				}
				p, t = next+1, t+slash+1
				continue
			}
			return w.rest(next, t, text, cross, steps)
		case '\\':
			p++
			fallthrough
		default:
			if p >= len(w.pattern) || text[t] != w.pattern[p] {
				return wildNo
			}
			p++
			t++
		}
	}
	if t < len(text) {
		return wildNo
	}
	return wildMatch
}

// stars reads the stars at p and says whether they match slashes, too.
func (w wild) stars(p int) (cross bool, next int) {
	next = p + 1
	for w.at(next) == '*' {
		next++
	}
	switch {
	case !w.path:
		return true, next
	case next == p+1:
		return false, next
	}
	first := p == 0 || w.pattern[p-1] == '/'
	last := next == len(w.pattern) || w.at(next) == '/' || w.at(next) == '\\' && w.at(next+1) == '/'
	return first && last, next
}

// rest tries what is behind stars at every place they can reach to.
func (w wild) rest(p, t int, text string, cross bool, steps *int) wildResult {
	if p == len(w.pattern) {
		if !cross && strings.IndexByte(text[t:], '/') >= 0 {
			return wildNo
		}
		return wildMatch
	}
	for t < len(text) {
		if c := w.pattern[p]; c != '*' && c != '?' && c != '[' && c != '\\' {
			for t < len(text) && text[t] != c && (cross || text[t] != '/') {
				t++
			}
			if t == len(text) || text[t] != c {
				return wildNo
			}
		}
		result := w.run(p, t, text, steps)
		if result != wildNo {
			if !cross || result != wildAbortToStarStar {
				return result
			}
		} else if !cross && text[t] == '/' {
			return wildAbortToStarStar
		}
		if *steps < 0 {
			return wildAbortAll
		}
		_, size := w.char(text, t)
		t += size
	}
	return wildAbortAll
}

// bracket matches one character against the set at p. bad: the set has no end.
func (w wild) bracket(p int, text string, t int) (ok bool, next int, bad bool) {
	c, _ := w.char(text, t)
	p++
	negated := w.at(p) == '!' || w.at(p) == '^'
	if negated {
		p++
	}
	var prev rune
	for first := true; first || w.at(p) != ']'; first = false {
		if p >= len(w.pattern) {
			return false, 0, true
		}
		r, size := w.char(w.pattern, p)
		switch {
		case r == '\\':
			if p++; p >= len(w.pattern) {
				return false, 0, true
			}
			r, size = w.char(w.pattern, p)
			ok = ok || r == c
			prev = r
		case r == '-' && prev != 0 && p+1 < len(w.pattern) && w.pattern[p+1] != ']':
			p++
			if w.pattern[p] == '\\' {
				if p++; p >= len(w.pattern) {
					return false, 0, true
				}
			}
			r, size = w.char(w.pattern, p)
			ok = ok || prev <= c && c <= r
			prev = 0
		case r == '[' && w.at(p+1) == ':':
			end := strings.IndexByte(w.pattern[p+2:], ']')
			if end < 0 {
				return false, 0, true
			}
			name := w.pattern[p+2 : p+2+end]
			if !strings.HasSuffix(name, ":") {
				ok = ok || c == '['
				prev = r
				break
			}
			in, known := posixClass(name[:len(name)-1], c)
			if !known {
				return false, 0, true
			}
			ok = ok || in
			prev = 0
			size = end + 3
		default:
			ok = ok || r == c
			prev = r
		}
		p += size
	}
	return ok != negated, p + 1, false
}

func posixClass(name string, c rune) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := 0x20 < c && c < 0x7f
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
