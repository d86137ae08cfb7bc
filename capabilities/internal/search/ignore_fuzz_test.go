package search

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzWild holds what is true of any line of a .gitignore and any path: an answer comes
// soon, and taking the meaning off all that has one makes the line match itself.
func FuzzWild(f *testing.F) {
	f.Add("*a*a*a*a*a*a*a*b", strings.Repeat("a", 60))
	f.Add("**/**/**/**/*x", "a/b/c/d/e/f/g")
	f.Add("[[:alpha:]-z]", "\xff")
	f.Add("[!a-", "b")
	f.Add(`a\`, `a\`)
	f.Fuzz(func(t *testing.T, pattern, text string) {
		for _, w := range []wild{{pattern: pattern}, {pattern: pattern, path: true}, {pattern: pattern, path: true, runes: true}} {
			began := time.Now()
			w.match(text)
			require.Less(t, time.Since(began), 5*time.Second)
			w.pattern = quoteAll(pattern)
			require.True(t, w.match(pattern), "%+v", w)
		}
	})
}
