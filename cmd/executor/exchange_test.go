package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Both programs: tokens of two seconds are renewed while the executor works, a brain
// that was restarted with another signing key is found again, and a key that is not
// good any more ends the executor.
func TestTokenExchangeEndToEnd(t *testing.T) {
	s := newSite(t)
	brainKey, ownKey := filepath.Join(s.home, "brain.key"), filepath.Join(s.home, "own.key")
	serve := func(listen string) *program {
		p := s.start("brain", "serve", "--listen", listen, "--environment-key-file", brainKey, "--token-ttl", "2s")
		s.addr = p.says(`brain listens on (\S+)\n(?s:.*)environment-key-file`)[1]
		return p
	}
	server := serve("127.0.0.1:0")
	key, err := os.ReadFile(brainKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(ownKey, key, 0o600))
	agent := s.start("executor", "run", "--base-url", "http://"+s.addr, "--environment", "lab", "--environment-key-file", ownKey,
		"--min-backoff", "50ms", "--max-backoff", "500ms", "--log-level", "debug", "--state-dir", filepath.Join(s.home, "own"))
	agent.says(`(?s)token renewed.*token renewed`)
	out, errs, code := s.brain("call", "bash", `{"command":"env"}`)
	require.Equal(t, 0, code, errs)
	secret := strings.TrimSpace(string(key))
	assert.NotContains(t, out, secret)
	out, _, _ = s.brain("executors", "--output", "json")
	assert.Contains(t, out, `"environment_id": "lab"`)

	server.signal(syscall.SIGTERM)
	require.Equal(t, 0, server.exit())
	server = serve(s.addr)
	_, errs, code = s.brain("call", "bash", `{"command":"true"}`)
	require.Equal(t, 0, code, errs)
	server.signal(syscall.SIGTERM)
	require.Equal(t, 0, server.exit())

	require.NoError(t, os.Remove(brainKey))
	serve(s.addr)
	assert.Equal(t, 3, agent.exit())
	assert.Contains(t, agent.stderr.String(), `executor: credential rejected: get token: token exchange: the environment key is not good for environment "lab"`)
	assert.NotContains(t, agent.stderr.String(), secret)
	assert.NotContains(t, agent.stderr.String(), "ext1.")
	assert.NotContains(t, server.stderr.String(), "ext1.")
}
