package main

import (
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manager is a service manager's socket.
type manager struct {
	t    *testing.T
	name string
	conn *net.UnixConn
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no such sockets")
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &manager{t, name, conn}
}

// until reads messages until one has a line that begins so, and returns all their lines.
func (m *manager) until(prefix string) (lines []string) {
	m.t.Helper()
	buf := make([]byte, 8<<10)
	for {
		require.NoError(m.t, m.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		n, err := m.conn.Read(buf)
		require.NoError(m.t, err, "%s never came; there were %q", prefix, lines)
		message := strings.Split(string(buf[:n]), "\n")
		lines = append(lines, message...)
		if slices.ContainsFunc(message, func(l string) bool { return strings.HasPrefix(l, prefix) }) {
			return lines
		}
	}
}

// The real program under a service manager: the notify protocol from the start to the end.
func TestServiceProtocol(t *testing.T) {
	s := newSite(t)
	m := newManager(t, filepath.Join(s.home, "notify"))
	server := s.serve("127.0.0.1:0")
	s.env = []string{"NOTIFY_SOCKET=" + m.name, "WATCHDOG_USEC=400000"}
	agent := s.run("--token-command", "env > token-env; cat "+s.tokenFile(), "--token-file", "")
	lines := m.until("READY=1")
	assert.Contains(t, lines, "WATCHDOG=1", "also before")
	assert.True(t, slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "STATUS=127.0.0.1") && strings.Contains(l, "connected")
	}), "%q", lines)
	out, _, _ := s.brain("call", "bash", `{"command":"env; cat token-env"}`)
	assert.NotContains(t, out, "NOTIFY_SOCKET")
	assert.NotContains(t, out, "WATCHDOG")
	m.until("WATCHDOG=1")

	server.signal(syscall.SIGKILL)
	server.exit()
	assert.NotContains(t, m.until("STATUS=127.0.0.1:"), "STOPPING=1")
	for range 3 {
		m.until("WATCHDOG=1")
	}
	agent.signal(syscall.SIGTERM)
	m.until("STOPPING=1")
	assert.Equal(t, 0, agent.exit())
}
