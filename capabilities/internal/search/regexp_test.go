package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byLibrary says which lines of a text match, with the standard library alone.
func byLibrary(pattern, text string, fold bool) (hits []string) {
	if fold {
		pattern = "(?i)" + pattern
	}
	re := regexp.MustCompile(pattern)
	keepCR := namesCR(pattern)
	if text == "" {
		return nil
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if !keepCR {
			line = strings.TrimSuffix(line, "\r")
		}
		if at := re.FindStringIndex(line); at != nil {
			hits = append(hits, fmt.Sprintf("%d:%d", i+1, at[0]+1))
		}
	}
	return hits
}

// byEngine is the same with our search, in blocks of the given size.
func byEngine(t testing.TB, m *matcher, text string, block int) (hits []string) {
	g := newGrepper(t.Context(), nil, m, filter{}, GrepOptions{MaxLine: 100})
	g.buf = make([]byte, block)
	g.rows.reset(g.opts, true)
	how, err := g.lineByLine(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, outcomeText, how)
	for _, r := range g.rows.all {
		hits = append(hits, fmt.Sprintf("%d:%d", r.Line, r.Column))
	}
	require.Len(t, hits, g.rows.matches)
	return hits
}

// randomPattern makes a pattern of pieces that matter to literals and automaton.
func randomPattern(random *rand.Rand, depth int) string {
	atoms := []string{"a", "b", "ab", "foo", "k", "sk", "é", ".", "[ab]", "[^a]", `\w`, `\d`, `\s`, `\b`, `\B`, "^", "$", "(?i:Ab)", "[a-fk]", "[[:upper:]]",
		"\\x{212a}", `\pL`, "-", "_", "foobar", "[é-ü]", "(?:)", "Z", `\.`, "bar", "[Aa]", "(?i)s", `\z`, "[^\\x00-\\x7f]", `\r`, "\\x{fffd}"}
	var b strings.Builder
	for range 1 + random.IntN(4) {
		piece := atoms[random.IntN(len(atoms))]
		if depth == 0 && b.Len() == 0 && random.IntN(6) == 0 {
			piece = "^" + piece
		}
		if depth < 3 && random.IntN(3) == 0 {
			piece = "(" + randomPattern(random, depth+1) + ")"
		}
		b.WriteString(piece)
		if random.IntN(4) == 0 && !strings.HasPrefix(piece, "^") {
			b.WriteString([]string{"*", "+", "?", "{2}", "{0,2}", "*?", "{1,}"}[random.IntN(7)])
		}
		if random.IntN(6) == 0 {
			b.WriteString("|")
		}
	}
	return b.String()
}

func randomText(random *rand.Rand) string {
	pieces := []string{"a", "b", "A", "B", "ab", "foo", "FOO", "foobar", "k", "K", "s", "\u212a", "\u017f", "é", "É", "\xff", "\xe2\x84", "\n", "\n", "\r\n", "\r", " ", "1", "_", "-", ".", "bar", "Z", "z", "\ufffd"}
	var b strings.Builder
	for range random.IntN(60) {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

// Whatever way a pattern takes through the engine, the lines are those that the standard
// library finds.
func TestLinesAsLibrary(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	literal, automaton := 0, 0
	for range 250 {
		pattern, fold := randomPattern(random, 0), random.IntN(2) == 0
		m, err := compile(pattern, fold, false)
		if err != nil {
			continue
		}
		if m.has {
			literal++
		} else if m.prog != nil {
			automaton++
		}
		for range 3 {
			text := randomText(random)
			for _, block := range []int{64 << 10, 256} {
				require.Equal(t, byLibrary(pattern, text, fold), byEngine(t, m, text, block), "seed %d: %q fold=%v in %q", seed, pattern, fold, text)
			}
			only := *m // the automaton alone
			only.has = false
			require.Equal(t, byLibrary(pattern, text, fold), byEngine(t, &only, text, 1024), "seed %d: automaton: %q fold=%v in %q", seed, pattern, fold, text)
			only.prog = nil
			require.Equal(t, byLibrary(pattern, text, fold), byEngine(t, &only, text, 1024), "seed %d: library: %q fold=%v in %q", seed, pattern, fold, text)
		}
	}
	t.Logf("%d by literals, %d by automaton", literal, automaton)
	assert.Greater(t, min(literal, automaton), 20)
}

func FuzzLines(f *testing.F) {
	f.Add("foo|bar", "a foo\nbar\n", true)
	f.Add(`(?i)\bk\w+$`, "Kelvin\r\n\u212a", false)
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		m, err := compile(pattern, fold, false)
		if err != nil || len(pattern) > 200 || strings.IndexByte(text, 0) >= 0 || strings.HasPrefix(text, "\xef\xbb\xbf") ||
			strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
			return
		}
		require.Equal(t, byLibrary(pattern, text, fold), byEngine(t, m, text, 1024))
	})
}

func TestNeedles(t *testing.T) {
	for pattern, want := range map[string]string{
		"needle":                 "=needle",
		"needle|thread":          "=needle thread",
		"foobar|foobaz":          "=foobar foobaz",
		`func \w+Error\(`:        "Error(",
		`\bfoo\b`:                "foo",
		`(?i)Hello`:              "=~hello",
		`(?i)hello|WORLD`:        "=~hello world",
		`(?i)straße`:             "~stra",
		`(?:abc)+def`:            "abc",
		`(abcd)+`:                "abcd",
		`a?bcd`:                  "=abcd bcd",
		`[ab]cd`:                 "=acd bcd",
		`x.*yzw`:                 "yzw",
		`(foo|ba[rz])qux`:        "=fooqux barqux bazqux",
		`[a-z]+`:                 "",
		`foo|[a-z]+`:             "",
		`a|b`:                    "=a b",
		`a\w`:                    "",
		`[a-z]+_[0-9]`:           "_", // in few lines
		`\s+=`:                   "",  // in many
		`\w+(?i:q)\w`:            "~q",
		`[a-z]+_[0-9]|x`:         "",
		`foo(?i:BAR)`:            "~foobar",
		"\\x{fffd}abc":           "",
		`(a|b|c|d)(a|b|c|d)xyzz`: "axyzz bxyzz cxyzz dxyzz",
	} {
		m, err := compile(pattern, false, false)
		require.NoError(t, err)
		got := ""
		if m.has {
			if m.need.exact {
				got = "="
			}
			var texts []string
			for _, n := range m.need.all {
				if n.fold && !strings.Contains(got, "~") {
					got += "~"
				}
				texts = append(texts, n.text)
			}
			got += strings.Join(texts, " ")
		}
		assert.Equal(t, want, got, pattern)
	}
}

// A pattern whose automaton would have a million states costs no more than without one.
func TestHopelessAutomaton(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var b bytes.Buffer
	for range 60_000 {
		b.WriteByte("ab\n"[min(random.IntN(100), 98)%2+random.IntN(100)/99])
	}
	pattern := "a[a-z]{14}b[a-z]{3}a"
	m, err := compile(pattern, false, false)
	require.NoError(t, err)
	require.False(t, m.has)
	require.Equal(t, byLibrary(pattern, b.String(), false), byEngine(t, m, b.String(), 4<<10))
	d := newDFA(m.prog, m.abc, m.words, true)
	for at := 0; at >= 0 && !d.hopeless(); {
		if at = d.scan(b.Bytes(), at); at >= 0 {
			at = bytes.IndexByte(b.Bytes()[min(at, b.Len()-1):], '\n') + min(at, b.Len()-1) + 1
		}
	}
	assert.LessOrEqual(t, len(d.table), maxTable+int(d.width))
}
