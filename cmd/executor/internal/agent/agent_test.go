package agent

import (
	"bytes"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func TestStateDirOfABrain(t *testing.T) {
	of := func(raw string) string {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		return stateDirOf("/state", u)
	}
	for raw, name := range map[string]string{
		"wss://brain.example/executor":        "brain.example-executor",
		"ws://127.0.0.1:7070/executor":        "127.0.0.1-7070-executor",
		"ws://[::1]:7070/x":                   "1-7070-x",
		"unix:///run/brain/b.sock":            "run-brain-b.sock",
		"unix+listen:///run/../%2e%2e/x":      "run-..-..-x",
		"wss://h/?key=geheim":                 "h",
		"wss://h/" + strings.Repeat("a", 100): "h-" + strings.Repeat("a", 38),
		"wss://BÜCHER.example/":               "b-cher.example",
	} {
		dir := of(raw)
		assert.Equal(t, "/state/brains", filepath.Dir(dir), raw)
		assert.Regexp(t, "^"+strings.ReplaceAll(name, ".", `\.`)+"-[0-9a-f]{8}$", filepath.Base(dir), raw)
	}
	assert.Equal(t, of("wss://h/a"), of("wss://h/a"))
	assert.NotEqual(t, of("wss://h/a"), of("ws://h/a"))
	assert.NotEqual(t, of("wss://h/?key=a"), of("wss://h/?key=b"))
}

func TestTokensOfSeveralBrains(t *testing.T) {
	brains := []string{"ws://127.0.0.1:1/a", "ws://127.0.0.1:2/b", "ws://127.0.0.1:3/c"}
	var files []string
	for range brains {
		files = append(files, configtest.WriteFile(t, "token", configtest.Token))
	}
	for _, c := range []struct {
		change func(*config.Settings)
		files  []string
		says   string
	}{
		{func(s *config.Settings) { s.TokenFiles = files[:1] }, []string{files[0], files[0], files[0]}, ""},
		{func(s *config.Settings) { s.TokenFiles = files }, files, ""},
		{func(s *config.Settings) { s.TokenFiles = files[:2] }, nil, "token_file: 2 are given for 3 brains; give one for all, or one for each in the same order"},
		{func(s *config.Settings) { s.TokenFiles = append(files, files[0]) }, nil, "token_file: 4 are given for 3 brains"},
		{func(s *config.Settings) { s.TokenCommands = []string{"a", "b"} }, nil, "token_command: 2 are given for 3 brains"},
		{func(s *config.Settings) { s.TokenFiles, s.TokenCommands = files, []string{"a"} }, nil, "are both given"},
		{func(s *config.Settings) { s.Brain = append(s.Brain, brains[1]) }, nil, "brain ws://127.0.0.1:2/b is given twice"},
		{func(s *config.Settings) { s.Brain = append(s.Brain, "wss://u:geheim99@h/") }, nil, "the credential is given by --token-file"},
		{func(s *config.Settings) { s.Brain = nil }, nil, "no brain to connect to"},
	} {
		s := configtest.Working(t)
		s.Brain = append([]string(nil), brains...)
		s.TokenFile = ""
		c.change(&s)
		agents, _, err := Plan(&s, cli.NewRedactor(&bytes.Buffer{}))
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, cli.ExitUsage, cli.Code(err))
			assert.NotContains(t, err.Error(), "geheim99")
			continue
		}
		require.NoError(t, err)
		require.Len(t, agents, 3)
		dirs := map[string]bool{}
		for i, a := range agents {
			assert.Equal(t, brains[i], a.Options.URL)
			assert.Equal(t, strings.TrimPrefix(brains[i], "ws://")[:11], a.Name)
			assert.Equal(t, filepath.Join(s.StateDir, "brains"), filepath.Dir(a.Options.StateDir))
			dirs[a.Options.StateDir] = true
			token, err := a.Options.Token(t.Context())
			require.NoError(t, err)
			assert.Equal(t, configtest.Token, token)
		}
		assert.Len(t, dirs, 3)
		assert.NotSame(t, agents[0].Capabilities[0], agents[1].Capabilities[0], "each has its own")
		each, err := forEachBrain(&s)
		require.NoError(t, err)
		for i, one := range each {
			assert.Equal(t, c.files[i], one.TokenFile)
		}
	}
}
