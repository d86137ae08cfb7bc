//go:build !windows

package files

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Case 67: what has no end is refused at once, by read and by write.
func TestSpecialFiles(t *testing.T) {
	b := newBench(t)
	require.NoError(t, syscall.Mkfifo(b.path("pipe"), 0o644))
	require.NoError(t, os.Symlink("pipe", b.path("link")))
	t.Chdir(b.path()) // a socket's path must be short
	listener, err := net.Listen("unix", "sock")
	require.NoError(t, err)
	defer listener.Close()
	dev := b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: "/dev"})

	began := time.Now()
	for path, kind := range map[string]string{"pipe": "a named pipe", "link": "a named pipe", "sock": "a socket", "/dev/zero": "a device", "/dev/null": "a device"} {
		_, err := b.callIn(t.Context(), dev, "read", obj{"path": path})
		assert.Contains(t, refusal(t, "invalid_params", err), "is not a regular file but "+kind)
		_, err = b.callIn(t.Context(), dev, "write", obj{"path": path, "content": "x", "unsafe_overwrite": true})
		assert.Contains(t, refusal(t, "invalid_params", err), kind)
	}
	assert.Less(t, time.Since(began), time.Second)
}
