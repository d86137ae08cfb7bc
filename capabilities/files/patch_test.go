package files

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$`)

// patched applies a unified diff of one file, strictly.
func patched(t require.TestingT, old, diff string) string {
	if diff == "" {
		return old
	}
	var out bytes.Buffer
	lines := strings.SplitAfter(old, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	at, written := 0, 0
	rows := strings.SplitAfter(strings.TrimSuffix(diff, "\n"), "\n")
	require.True(t, strings.HasPrefix(rows[0], "--- "))
	require.True(t, strings.HasPrefix(rows[1], "+++ "))
	rows = rows[2:]
	number := func(s string) int {
		if s == "" {
			return 1
		}
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	for len(rows) > 0 {
		head := hunkHead.FindStringSubmatch(strings.TrimSuffix(rows[0], "\n"))
		require.NotNil(t, head, rows[0])
		rows = rows[1:]
		from, oldLeft, to, newLeft := number(head[1]), number(head[2]), number(head[3]), number(head[4])
		if oldLeft == 0 {
			from++
		}
		if newLeft == 0 {
			to++
		}
		require.GreaterOrEqual(t, from-1, at)
		for ; at < from-1; at++ {
			out.WriteString(lines[at])
			written++
		}
		require.Equal(t, to-1, written, "the new line numbers")
		for oldLeft > 0 || newLeft > 0 {
			row := rows[0]
			rows = rows[1:]
			text := row[1:]
			if !strings.HasSuffix(text, "\n") { // the end of the diff
				text += "\n"
			}
			if len(rows) > 0 && strings.HasPrefix(rows[0], `\ No newline`) {
				text = strings.TrimSuffix(text, "\n")
				rows = rows[1:]
			}
			switch row[0] {
			case ' ', '-':
				require.Equal(t, lines[at], text)
				at++
				oldLeft--
			}
			if row[0] != '-' {
				out.WriteString(text)
				written++
				newLeft--
			}
		}
		require.Zero(t, oldLeft)
		require.Zero(t, newLeft)
	}
	for ; at < len(lines); at++ {
		out.WriteString(lines[at])
	}
	return out.String()
}
