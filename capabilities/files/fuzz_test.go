package files

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkEdit holds what an edit promises of any content: the bytes outside the matches
// stay, and the difference that is told makes the new content of the old one.
func checkEdit(t *testing.T, content []byte, old, text string) []byte {
	if old == "" {
		return content
	}
	found := matches(content, old)
	last := 0
	for _, m := range found {
		require.LessOrEqual(t, last, m.start)
		require.Less(t, m.start, m.end)
		last = m.end
		piece := string(content[m.start:m.end])
		if piece != old {
			require.Equal(t, old, strings.ReplaceAll(piece, "\r\n", "\n"), "a match differs in line ends only")
		}
	}
	require.LessOrEqual(t, last, len(content))
	result, changes, err := replace(content, found, old, text)
	require.NoError(t, err)
	require.Len(t, changes, len(found))
	at, resultAt := 0, 0
	for i, c := range changes {
		require.Equal(t, found[i], span{c.oldStart, c.oldEnd})
		require.Equal(t, content[at:c.oldStart], result[resultAt:c.newStart], "what is between the matches")
		require.Equal(t, strings.ReplaceAll(text, "\r\n", "\n"), strings.ReplaceAll(string(result[c.newStart:c.newEnd]), "\r\n", "\n"))
		at, resultAt = c.oldEnd, c.newEnd
	}
	require.Equal(t, content[at:], result[resultAt:], "what is behind the last match")
	require.Equal(t, string(result), patched(t, string(content), string(unified("a", "b", content, result, changes, 3))))
	require.Equal(t, string(result), patched(t, string(content), string(unified("a", "b", content, result, changes, 0))))
	return result
}

func FuzzEdit(f *testing.F) {
	for _, seed := range [][3]string{
		{"a\r\nb\r\nc\r\n", "a\nb", "A\nB"}, {"a\nb\r\nc", "b\nc", "x\ny\nz"}, {"aaaa", "aa", "b"}, {"\n\n\n", "\n", ""}, {"x", "x", ""},
		{"a\nb", "b", "b\n"}, {"a\r\r\nb\r\n", "a\n", "c"}, {"\xff\x00\r\n", "\x00", "\xfe"}, {"one\ntwo\nthree\n", "two\n", ""},
	} {
		f.Add([]byte(seed[0]), seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, content []byte, old, text string) { checkEdit(t, content, old, text) })
}

func FuzzMultiEdit(f *testing.F) {
	f.Add([]byte("a\r\nb\nc\r\n"), "a\nb", "A\nB", "B\nc", "x")
	f.Add([]byte("one\ntwo\nthree\nfour"), "two", "2\n2", "2\nthree", "")
	f.Fuzz(func(t *testing.T, content []byte, old1, text1, old2, text2 string) {
		result := checkEdit(t, checkEdit(t, content, old1, text1), old2, text2)
		checkDiff(t, content, result)
	})
}

func checkDiff(t *testing.T, old, new []byte) {
	changes := lineChanges(old, new)
	require.Equal(t, bytes.Equal(old, new), len(changes) == 0)
	for _, context := range []int{0, 1, 3} {
		require.Equal(t, string(new), patched(t, string(old), string(unified("a", "b", old, new, changes, context))))
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nc\nb"))
	f.Add([]byte(""), []byte("a"))
	f.Add([]byte("a\n\na\n\nb\n"), []byte("\na\nb\na\n\n"))
	f.Fuzz(checkDiff)
}
