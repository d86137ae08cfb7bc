package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRootsReadOnly(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("sub", 0o700))
	roots, err := Roots([]string{"sub:ro", ".", "sub:rw"})
	require.NoError(t, err)
	require.Len(t, roots, 3)
	assert.Equal(t, []bool{true, false, false}, []bool{roots[0].ReadOnly, roots[1].ReadOnly, roots[2].ReadOnly})
	assert.True(t, filepath.IsAbs(roots[0].Path))
	roots, err = Roots(nil)
	require.NoError(t, err)
	assert.Len(t, roots, 1, "the current directory")
}

func TestURLsAreRedacted(t *testing.T) {
	assert.Equal(t, "wss://u:xxxxx@h/x?%E2%80%A6", strings.ReplaceAll(RedactURL("wss://u:p@h/x?token=s"), "?…", "?%E2%80%A6"))
	assert.Equal(t, "[not a URL]", RedactURL("wss://u:p@h:x/"))
}
