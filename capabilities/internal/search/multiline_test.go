package search

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lineSpans writes which lines the matches in the file f are, as first-last:column.
func lineSpans(l Lines) string {
	var all []string
	for _, f := range l.Files {
		for _, r := range f.Rows {
			if r.Column > 0 {
				all = append(all, fmt.Sprintf("%d-%d:%d", r.Line, r.Line+strings.Count(r.Text, "\n"), r.Column))
			}
		}
	}
	return strings.Join(all, " ")
}

func TestMultiline(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		// A match may begin where the lines of the one before end.
		{`,\n\s*\w`, "f(a,\n  b,\n  c)\n", "1-2:4 2-3:4"},
		{`(?s)/\*.*?\*/`, "/* a\n b */ x /* c\n d */\n", "1-2:1 2-3:9"},
		{`a\nb|c\nd`, "a\nb c\nd\n", "1-2:1 2-3:3"},
		{`a\nb|b|c\nd`, "a\nb b b c\nd b\n", "1-2:1 2-3:7"},
		{`x\n\n`, "x\n\nx\n\n", "1-2:1 3-4:1"},
		// What stands before the place where it goes on is still before it.
		{`^b\n|a`, "ab\nb\n", "1-1:1 2-2:1"},
		{`\bb\n|a`, "ab\nb\n", "1-1:1 2-2:1"},
		{`a|\Bb\n`, "ab\nb\n", "1-1:1"},
		{`a\n|\Bb\n`, "a\nab\nb\n", "1-1:1 2-2:2"},
		// The start and the end of the text are those of the file.
		{`\Aimport|needle`, "import\nneedle\nimport\nx needle\n", "1-1:1 2-2:1 4-4:3"},
		{`(?s:needle.*)\z`, "x\nneedle\ny\n", "2-3:1"},
		{`x\z`, "x\nx", "2-2:1"},
		{`\Ax`, "x\nx", "1-1:1"},
		// Empty ones.
		{`^$`, "a\n\nb\n\n", "2-2:1 4-4:1"},
		{`\s*`, "a\nb\n", "1-1:1 2-2:2"},
		{`z*|\n`, "éé\né\n", "1-1:1 2-2:1"},
		// The carriage return belongs to the end of the line unless the pattern says otherwise.
		{`foo\nbar`, "foo\r\nbar\r\n", "1-2:1"},
		{`foo\n`, "foo\r\nbar\r\n", "1-1:1"},
		{`foo$`, "foo\r\nbar\r\n", "1-1:1"},
		{`^bar$`, "foo\r\nbar\r\n", "2-2:1"},
		{`foo\r\nbar`, "foo\r\nbar\r\n", "1-2:1"},
		{`o$\s^b`, "foo\r\n\rbar\r\nfoo\r\nbar\r\n", "3-4:3"},
		{`[^x]+z`, "a\r\nb\r\n\r\r\nz", "1-4:1"},
		// What is in no pattern of more than one line is as it is in a search by lines.
		{`needle`, "needle needle\r\nneedle", "1-1:1 2-2:1"},
	} {
		w := workspace(t, tree(t, "f="+c.text))
		found := grep(t, w, GrepOptions{Pattern: c.pattern, Multiline: true})
		assert.Equal(t, c.want, lineSpans(found), "%q in %q", c.pattern, c.text)
		assert.Equal(t, len(strings.Fields(c.want)), found.Matches, "%q in %q", c.pattern, c.text)
	}
}

// The matches are those of the standard library, one after the other; one that is in lines
// which are shown already is not told again.
func TestMultilineAsRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	pieces := []string{"a", "b", "c", "é", "\n", "\n", " ", "ab"}
	patterns := []string{`a\nb`, `[^a]b`, `(?s)a.b`, `\ba\s`, `a\s*`, `\s+b`, `^b\n?`, `(a|\n)c`, `\s\B`, `(?s)b.*?c`, `\Aa|c\n`, `\n|a\b`, `b?\n`, `c|\s*$`, `^`}
	for range 400 {
		var text strings.Builder
		for range r.IntN(40) {
			text.WriteString(pieces[r.IntN(len(pieces))])
		}
		pattern := patterns[r.IntN(len(patterns))]
		all := text.String()
		var want []string
		seen := 0
		for _, span := range regexp.MustCompile("(?m)"+pattern).FindAllStringIndex(all, -1) {
			if span[0] == len(all) && strings.HasSuffix(all, "\n") || all == "" {
				continue
			}
			last := span[1]
			if span[1] > span[0] && all[span[1]-1] == '\n' {
				last--
			}
			first, end := 1+strings.Count(all[:span[0]], "\n"), 1+strings.Count(all[:last], "\n")
			if end <= seen {
				continue
			}
			seen = end
			want = append(want, fmt.Sprintf("%d-%d:%d", first, end, span[0]-strings.LastIndexByte(all[:span[0]], '\n')))
		}
		w := workspace(t, tree(t, "f="+all))
		require.Equal(t, strings.Join(want, " "), lineSpans(grep(t, w, GrepOptions{Pattern: pattern, Multiline: true})), "%q in %q", pattern, all)
	}
}

// A long alternation takes about as long as a short one.
func TestManyAlternatives(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	word := func() string {
		b := make([]byte, 4+r.IntN(8))
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	var words []string
	for size := 0; size < maxPattern-12; size += len(words[len(words)-1]) + 1 {
		words = append(words, word())
	}
	var text strings.Builder
	lines := 0
	for text.Len() < 1<<17 {
		for range 8 {
			text.WriteString(word() + " ")
		}
		if r.IntN(100) == 0 {
			text.WriteString(words[r.IntN(len(words))])
		}
		text.WriteByte('\n')
		lines++
	}
	want := 0
	for line := range strings.Lines(text.String()) {
		if slices.ContainsFunc(words[:30], func(w string) bool { return strings.Contains(line, w) }) {
			want++
		}
	}
	w := workspace(t, tree(t, "f="+text.String()))
	assert.Equal(t, want, grep(t, w, GrepOptions{Pattern: strings.Join(words[:30], "|")}).Matches)
	for _, multiline := range []bool{false, true} {
		began := time.Now()
		found := grep(t, w, GrepOptions{Pattern: strings.Join(words, "|"), Multiline: multiline, Mode: ModeCount})
		assert.GreaterOrEqual(t, found.Matches, lines/200)
		t.Log(multiline, len(words), found.Matches, time.Since(began))
	}
}
