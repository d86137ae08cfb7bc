package search

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzGlob compares the patterns of glob, without brackets, with what they mean as a regular
// expression, and holds that one whose every character is quoted matches itself only.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.go", "a.go"}, {"**/*.go", "a/b/c.go"}, {"a/**", "a/b"}, {"a/**/b", "a/b"}, {"a/**/b", "a/x/y/b"}, {"{a,b}*", "b/c"}, {"**", ""}, {"a**b", "axb"},
		{"?", "é"}, {`\*`, "*"}, {"*a*b*", "xxaxxb"}, {"**/**/x", "x"}, {"*/*/", "a/b"}, {"a*/b", "a/b"}, {"***/a", "b/a"}, {"x/{*,**/y}", "x/q/y"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 40 || len(text) > 40 || strings.Contains(pattern, "[") || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			return
		}
		if quoted := quoteAll(text); text != "" && !strings.HasSuffix(text, "/") {
			p, err := parseGlob("glob", quoted)
			if strings.IndexByte(text, 0) < 0 {
				require.NoError(t, err)
				require.Len(t, p, 1)
				require.True(t, p[0].whole.match(text), quoted)
				require.False(t, p[0].whole.match(text+"x"), quoted)
			}
		}
		all, err := parseGlob("glob", pattern)
		if err != nil || strings.Contains(text, "//") || strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
			return
		}
		for _, one := range all {
			steps := wildSteps
			got := one.whole.run(0, 0, text, &steps) == wildMatch
			if steps < 0 {
				continue
			}
			re := regexp.MustCompile(meaning(one.whole.pattern))
			require.Equal(t, re.MatchString(text), got, "%q, that is %s, and %q", one.whole.pattern, re, text)
		}
	})
}

func quoteAll(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < utf8.RuneSelf && c != '/' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// meaning is a pattern as a regular expression. Stars cross directories where they are
// two or more and a component of their own.
func meaning(pattern string) string {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		stars := len(rest) - len(strings.TrimLeft(rest, "*"))
		alone := i == 0 || pattern[i-1] == '/'
		behind := rest[stars:]
		switch {
		case stars >= 2 && alone && strings.HasPrefix(behind, "/"):
			b.WriteString(`(?:.*/)?`)
			i += stars + 1
		case stars >= 2 && alone && behind == "":
			b.WriteString(`.*`)
			i += stars
		case stars > 0:
			b.WriteString(`[^/]*`)
			i += stars
		case rest[0] == '?':
			b.WriteString(`[^/]`)
			i++
		case rest[0] == '\\':
			_, size := utf8.DecodeRuneInString(rest[1:])
			b.WriteString(regexp.QuoteMeta(rest[1 : 1+size]))
			i += 1 + size
		default:
			_, size := utf8.DecodeRuneInString(rest)
			b.WriteString(regexp.QuoteMeta(rest[:size]))
			i += size
		}
	}
	b.WriteString(`)$`)
	return b.String()
}
