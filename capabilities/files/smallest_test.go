package files

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
