package main

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
