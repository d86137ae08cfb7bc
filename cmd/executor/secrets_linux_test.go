package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The token is in no command's environment, in no process's arguments, in no log however detailed, and
// in no file but its own; what is written is for its owner alone. (cases 36, 38, 39)
func TestTokenIsNowhereElse(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	raw, err := os.ReadFile(s.tokenFile())
	require.NoError(t, err)
	token := strings.TrimSpace(string(raw))
	for name, args := range map[string][]string{
		"file":    {"--token-file", s.tokenFile()},
		"command": {"--token-command", "cat '" + s.tokenFile() + "'"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := s.start("executor", append([]string{"run", "--brain", "ws://" + s.addr + "/executor", "--log-level", "debug"}, args...)...)
			agent.says("(?i)registered")
			out, errs, code := s.brain("call", "bash",
				`{"command":"env; tr '\\0' '\\n' <\"/proc/$PPID/cmdline\"; echo MARK"}`)
			require.Zero(t, code, errs)
			all, err := filepath.Glob("/proc/[0-9]*/cmdline")
			require.NoError(t, err)
			for _, file := range all {
				words, _ := os.ReadFile(file)
				assert.False(t, bytes.Contains(words, []byte(token)), "%s: %q", file, words)
			}
			assert.Contains(t, out, "MARK")
			assert.NotContains(t, out, token)
			agent.signal(os.Interrupt)
			assert.Zero(t, agent.exit())
			assert.NotContains(t, agent.stdout.String()+agent.stderr.String(), token)
		})
	}
	state := filepath.Join(s.home, "state", "executor")
	files := 0
	require.NoError(t, filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if d.IsDir() {
			assert.Zero(t, info.Mode().Perm()&0o077, path)
			return nil
		}
		assert.Zero(t, info.Mode().Perm()&0o077, path)
		if info.Mode().IsRegular() {
			files++
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.False(t, bytes.Contains(content, []byte(token)), path)
		}
		return nil
	}))
	assert.Positive(t, files)
}
