package files

import (
	"bytes"
	"cmp"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agent-executor/executor/protocol"
)

const (
	// nearLines are shown when a text is not found, clipped to clipChars characters.
	nearLines = 3
	clipChars = 160
	// maxNearBytes of a file are looked at for them.
	maxNearBytes = 4 << 20
	// listedLines are named of those on which a text stands more than once.
	listedLines = 20
)

// noMatch says that old is not in the file, and why that may be.
func noMatch(display string, content []byte, old string) *protocol.Error {
	e := protocol.Errorf(protocol.CodeNotFound, "old_string is not in %s%s", display, whyNot(content, old))
	return e.WithReason(protocol.ReasonNoMatch)
}

// numbered is a line as read shows it.
var numbered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^ *[0-9]+\t`)
})

func whyNot(content []byte, old string) string {
	if sniff(content[:min(len(content), headSize)]).encoding == "" {
		return ": the file is binary"
	}
	if bare, ok := withoutNumbers(old); ok {
		return fmt.Sprintf(": it begins with line numbers and a tab as read shows them, which are not in the file; without them it is there %s",
			times(len(matches(content, bare))))
	}
	if strings.Contains(old, "\r") {
		if n := len(matches(content, strings.ReplaceAll(old, "\r\n", "\n"))); n > 0 {
			return fmt.Sprintf(": the file has other line ends; with plain newlines it is there %s", times(n))
		}
	}
	content = bytes.TrimPrefix(content, []byte(utf8Mark))
	if why := lookalike(content, old); why != "" {
		return why
	}
	why := ""
	bare, ended := strings.CutSuffix(old, "\n")
	bare = strings.TrimSuffix(bare, "\r")
	if ended && bare != "" && !bytes.HasSuffix(content, []byte("\n")) && bytes.HasSuffix(content, []byte(bare)) {
		why = "; the file has no newline at its end, and old_string has"
	}
	if strings.ContainsRune(old, utf8.RuneError) && !utf8.Valid(content) {
		why = "; U+FFFD in a text that was read stands for a byte that is not UTF-8: choose a piece without it"
	}
	near := nearest(content, old)
	if len(near) == 0 {
		return why
	}
	return why + "; nearest lines:\n" + strings.Join(near, "\n")
}

func times(n int) string {
	switch n {
	case 0:
		return "not either"
	case 1:
		return "once"
	}
	return count(n) + " times"
}

// withoutNumbers takes the numbers off if every line has one.
func withoutNumbers(old string) (string, bool) {
	all := strings.SplitAfter(old, "\n")
	for i, l := range all {
		n := len(numbered().FindString(l))
		if n == 0 && (l != "" || i < len(all)-1) {
			return "", false
		}
		all[i] = l[n:]
	}
	return strings.Join(all, ""), true
}

// nearest shows the lines that are most like the first line of old that says
// something, and for the best of them where the lines behind differ.
func nearest(content []byte, old string) []string {
	wanted := strings.Split(strings.ReplaceAll(old, "\r\n", "\n"), "\n")
	skip := slices.IndexFunc(wanted, func(l string) bool { return strings.TrimSpace(l) != "" })
	if skip < 0 {
		return nil
	}
	wanted = wanted[skip:]
	type candidate struct {
		number, at int
		score      float64
	}
	var best []candidate
	first := pairsOf([]byte(wanted[0]))
	number := 0
	content = content[:min(len(content), maxNearBytes)]
	eachLine(content, func(at int, line []byte) {
		number++
		if s := first.like(pairsOf(line)); s > 0.3 {
			if s == 1 {
				s += float64(sameLines(content[at:], wanted)) / float64(len(wanted))
			}
			if len(best) < nearLines || s > best[len(best)-1].score {
				best = append(best[:min(len(best), nearLines-1)], candidate{number, at, s})
				slices.SortStableFunc(best, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
			}
		}
	})
	var shown []string
	for i, c := range best {
		line := content[c.at:lineEnd(content, c.at)]
		shown = append(shown, fmt.Sprintf("%6d\t%s", c.number, clip(line)))
		if i == 0 {
			shown = append(shown, firstDifference(content[c.at:], c.number, wanted)...)
		}
	}
	return shown
}

// sameLines counts the lines at the start of text that are those wanted.
func sameLines(text []byte, wanted []string) (n int) {
	for _, w := range wanted[:min(len(wanted), 50)] {
		end := lineEnd(text, 0)
		if string(bytes.TrimSpace(text[:end])) == strings.TrimSpace(w) {
			n++
		}
		text = text[end:]
	}
	return n
}

// firstDifference says on which line a text leaves what is wanted, when that is only
// white space or comes later than on the first line.
func firstDifference(text []byte, number int, wanted []string) []string {
	for i, w := range wanted {
		end := lineEnd(text, 0)
		have := strings.TrimRight(string(text[:end]), "\r\n")
		text = text[end:]
		inside := strings.HasSuffix(have, w) && i == 0 || strings.HasPrefix(have, w) && i == len(wanted)-1 ||
			strings.Contains(have, w) && len(wanted) == 1
		switch {
		case have == w || inside:
			continue
		case strings.Join(strings.Fields(have), " ") == strings.Join(strings.Fields(w), " "):
			return []string{fmt.Sprintf("line %d differs in white space: the file has %s, old_string %s", number+i, quoteLine(have), quoteLine(w))}
		case i > 0:
			return []string{fmt.Sprintf("line %d differs: the file has %s, old_string %s", number+i, quoteLine(have), quoteLine(w))}
		}
		return nil
	}
	return nil
}

func quoteLine(line string) string { return fmt.Sprintf("%q", clip([]byte(line))) }

// clip makes a line of a file fit into a message.
func clip(line []byte) string {
	line = bytes.TrimRight(line, "\r\n")
	if n := runeIndex(line, clipChars); n < len(line) {
		return cleaned(line[:n]) + " …"
	}
	return cleaned(line)
}

func cleaned(b []byte) string {
	text, _, _ := clean(b)
	return text
}

// pairs are the pairs of neighbouring characters of a line without its white space at
// both ends, as a set of 256 kinds.
type pairs [4]uint64

func pairsOf(line []byte) (p pairs) {
	line = bytes.TrimSpace(line[:min(len(line), 1000)])
	for i := range max(len(line)-1, min(len(line), 1)) {
		h := uint(line[i]) * 31
		if i+1 < len(line) {
			h += uint(line[i+1]) * 17
		}
		p[h>>6&3] |= 1 << (h & 63)
	}
	return p
}

// like is how much two lines have in common: 0 nothing, 1 all.
func (p pairs) like(q pairs) float64 {
	both, all := 0, 0
	for i := range p {
		both += bits.OnesCount64(p[i] & q[i])
		all += bits.OnesCount64(p[i]) + bits.OnesCount64(q[i])
	}
	if all == 0 {
		return 0
	}
	return 2 * float64(both) / float64(all)
}

// ambiguous says that old is in the file more than once, and where.
func ambiguous(display string, content []byte, at []span) *protocol.Error {
	var numbers []string
	number, done := 1, 0
	for i, m := range at {
		if i == listedLines {
			numbers = append(numbers, "…")
			break
		}
		number += bytes.Count(content[done:m.start], newline)
		done = m.start
		numbers = append(numbers, fmt.Sprint(number))
	}
	return protocol.Errorf(protocol.CodeConflict, "old_string is %s times in %s, on lines %s: make it longer, or say replace_all",
		count(len(at)), display, strings.Join(numbers, ", ")).WithReason(protocol.ReasonAmbiguousMatch)
}
