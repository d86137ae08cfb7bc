//go:build !windows

package files

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe is not opened: a search ends, and says that it was there (case 67).
func TestSearchSpecialFiles(t *testing.T) {
	b := newBench(t)
	b.put("f", "needle")
	require.NoError(t, syscall.Mkfifo(b.path("p"), 0o644))
	text, _ := b.search("grep", obj{"pattern": "needle"})
	assert.Contains(t, text, "f\n1:needle\n")
	assert.Contains(t, text, "[left out: 1 FIFOs, devices or sockets]")
	_, result := b.search("glob", obj{"pattern": "*"})
	assert.ElementsMatch(t, []any{"f", "p"}, result["matches"])
	assert.Contains(t, b.refused("invalid_params", "grep", obj{"pattern": "x", "path": "p"}), "p is not a regular file")
}

// A directory that cannot be read is named and does not end the search (case 74).
func TestSearchUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	b := newBench(t)
	b.put("locked/f", "needle")
	b.put("f", "needle")
	require.NoError(t, os.Chmod(b.path("locked"), 0))
	defer os.Chmod(b.path("locked"), 0o755)
	text, result := b.search("grep", obj{"pattern": "needle"})
	assert.Len(t, result["matches"], 1)
	assert.Contains(t, text, "[cannot be read: locked: permission denied]")
	text, result = b.search("glob", obj{"pattern": "**/f"})
	assert.Equal(t, []any{"f"}, result["matches"])
	assert.Contains(t, text, "[cannot be read: locked: permission denied]")
}
