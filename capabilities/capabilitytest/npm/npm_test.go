package npm

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("installs packages")
	}
	peers := Peers(t)
	for _, name := range []string{"mcp-inspector", "mcp-server-everything", "mcp-server-filesystem"} {
		_, err := os.Stat(peers.Program(name))
		require.NoError(t, err)
	}
	require.Equal(t, peers, Peers(t))
}

// The lock file is good for every registry.
func TestLockNamesNoRegistry(t *testing.T) {
	require.NotContains(t, string(lock), `"resolved"`)
	require.False(t, bytes.Contains(lock, []byte("registry.")))
	require.NotContains(t, string(manifest), "^")
}
