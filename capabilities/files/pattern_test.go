package files

import (
	"strings"
	"testing"

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
	} {
		p, err := newPattern("glob", c.text)
		require.NoError(t, err)
		assert.Equal(t, c.want, p.fits(c.path), "%s %s", c.text, c.path)
	}
	for _, bad := range []string{"[a", "{a", `a\`, strings.Repeat("{a,b}", 20), strings.Repeat("**/", 20), strings.Repeat("x", 2000)} {
		_, err := newPattern("glob", bad)
		refusal(t, "invalid_params", err)
	}
}

func TestSmallest(t *testing.T) {
	s := smallest{most: 3}
	for _, name := range []string{"e", "b", "d", "a", "c", "f"} {
		s.add(name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, s.sorted())
	none := smallest{}
	none.add("a")
	assert.Empty(t, none.sorted())
}

func TestLanguage(t *testing.T) {
	for name, want := range map[string]string{"a.go": "go", "A.PY": "python", "Makefile": "make", "x": "", "noext.": ""} {
		assert.Equal(t, want, language(name, nil), name)
	}
	for line, want := range map[string]string{"#!/bin/sh\n": "shell", "#!/usr/bin/env -S python3.12 -u\n": "python", "#!": "", "#!/usr/bin/env\n": "", "#!/usr/bin/node": "javascript", "text": ""} {
		assert.Equal(t, want, language("tool", []byte(line)), line)
	}
}
