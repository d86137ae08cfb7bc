package search

import (
	"strings"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		text, path string
		want       bool
	}{
		{"", "a/b", true},
		{"*.go", "a.go", true},
		{"*.go", "x/a.go", true},
		{"./*.go", "x/a.go", true},
		{"x/*.go", "x/a.go", true},
		{"x/*.go", "x/y/a.go", false},
		{"x/**/*.go", "x/y/z/a.go", true},
		{"x/**/*.go", "x/a.go", true},
		{"**", "x/a.go", true},
		{"{a,b}[0-9].txt", "b7.txt", true},
		{"{a,b}[0-9].txt", "c7.txt", false},
		{"?.go", "é.go", true},
		{".*", ".hidden", true},
		{"*", ".hidden", true},
		{"x/", "x", false},
		{"**/", "x/y", false},
		{`$'x\x2fa.go'`, "x/a.go", true},
	} {
		p, err := ParsePattern("glob", c.text)
		require.NoError(t, err)
		assert.Equal(t, c.want, p.Match(c.path, false), "%s %s", c.text, c.path)
	}
	for text, want := range map[string]bool{"": true, "x": true, "x/": true, "*/": true, "y/": false, "a/x/": true, "a/x": true, "**/x/": true, "b/": false} {
		p, err := ParsePattern("glob", text)
		require.NoError(t, err)
		assert.Equal(t, want, p.Match("a/x", true), text)
		assert.Equal(t, strings.Contains(strings.TrimSuffix(text, "/"), "/"), p.Deep(), text)
	}
	for _, bad := range []string{"[a", "{a", `a\`, strings.Repeat("{a,b}", 20), strings.Repeat("x", maxPattern+1), "a\x00b"} {
		_, err := ParsePattern("glob", bad)
		require.ErrorIs(t, err, protocol.ErrInvalidParams)
	}
}
