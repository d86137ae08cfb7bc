package agent

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/brain"
)

const testKey = "environment-key-0123456789"

// exchanging are settings of a token exchange that are right.
func exchanging(t *testing.T) config.Settings {
	t.Helper()
	s := configtest.Working(t)
	s.Brain, s.TokenFile = nil, ""
	s.BaseURL, s.Environment = "http://127.0.0.1:1", "env"
	s.EnvironmentKeyFile = configtest.WriteFile(t, "key", testKey+"\n")
	return s
}

func TestPrepareExchange(t *testing.T) {
	s := exchanging(t)
	require.NoError(t, os.Chmod(s.EnvironmentKeyFile, 0o644))
	hide := cli.NewRedactor(&bytes.Buffer{})
	p, err := prepare(&s, hide)
	require.NoError(t, err)
	assert.NotNil(t, p.Options.Credentials)
	assert.Nil(t, p.Options.Token)
	assert.Empty(t, p.Options.URL, "the exchange says where")
	assert.Equal(t, "[redacted]", hide.Redact(testKey))
	require.Len(t, p.warnings, 1)
	assert.Contains(t, p.warnings[0], "environment key file "+s.EnvironmentKeyFile+" has mode 0644")

	s.Brain = []string{"wss://host/executor"}
	p, err = prepare(&s, hide)
	require.NoError(t, err)
	assert.Equal(t, "wss://host/executor", p.Options.URL)
}

func TestPrepareRefusesExchange(t *testing.T) {
	for _, c := range []struct {
		change func(*config.Settings)
		says   string
	}{
		{func(s *config.Settings) { s.TokenCommand = "echo" }, "leave token_file and token_command out"},
		{func(s *config.Settings) { s.BaseURL, s.Brain = "", []string{"wss://host/x"} }, "environment_key_file is given without base_url"},
		{func(s *config.Settings) { s.EnvironmentKeyFile = "" }, "base_url is given without environment_key_file"},
		{func(s *config.Settings) { s.Environment = "" }, "base_url is given without environment"},
		{func(s *config.Settings) { s.EnvironmentKeyFile = "/none" }, "environment key file /none does not exist; put the brain's environment key into it, mode 0600, or name another with --environment-key-file"},
		{func(s *config.Settings) { s.EnvironmentKeyFile = configtest.WriteFile(t, "short", "short") }, "has an environment key of less than 16 characters"},
		{func(s *config.Settings) { s.EnvironmentKeyFile = t.TempDir() }, "is a directory, not a file"},
		{func(s *config.Settings) { s.BaseURL = "http://192.0.2.1" }, "in clear text to another host"},
		{func(s *config.Settings) { s.BaseURL = "https://me:geheim99@host" }, "a user name or password"},
	} {
		s := exchanging(t)
		c.change(&s)
		_, err := prepare(&s, cli.NewRedactor(&bytes.Buffer{}))
		require.ErrorContains(t, err, c.says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err), c.says)
		assert.NotContains(t, err.Error(), "geheim99")
	}
}

// What the exchange gives is hidden in the log, and the key too, however many tokens
// there were since.
func TestExchangeSource(t *testing.T) {
	issuer, err := brain.NewIssuer(brain.IssuerOptions{Authorize: brain.SharedKey(testKey)})
	require.NoError(t, err)
	server := httptest.NewServer(issuer)
	defer server.Close()
	s := exchanging(t)
	s.BaseURL = server.URL
	hide := cli.NewRedactor(&bytes.Buffer{})
	source, key, _, err := exchangeSource(&s, nil, hide)
	require.NoError(t, err)
	assert.Equal(t, testKey, key)
	for range 40 {
		c, err := source(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "ws://"+server.Listener.Addr().String()+"/executor", c.URL)
		assert.WithinDuration(t, time.Now().Add(time.Hour), c.ExpiresAt, time.Minute)
		assert.Equal(t, "[redacted] [redacted]", hide.Redact(c.Token+" "+testKey))
	}
	require.NoError(t, os.WriteFile(s.EnvironmentKeyFile, []byte("another-key-0123456789"), 0o600))
	_, err = source(t.Context())
	assert.ErrorContains(t, err, "the environment key is not good", "the file is read each time")
}

// The key is sent to the host it is for and to no other.
func TestExchangeDoesNotFollow(t *testing.T) {
	var leaked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		s := exchanging(t)
		s.BaseURL = server.URL
		source, _, _, err := exchangeSource(&s, nil, cli.NewRedactor(&bytes.Buffer{}))
		require.NoError(t, err)
		_, err = source(t.Context())
		assert.ErrorContains(t, err, "leads elsewhere, where the key is not sent")
		server.Close()
	}
	assert.Empty(t, leaked)
}

// The command is run for every token, and what it prints now counts.
func TestTokenCommandIsAskedEveryTime(t *testing.T) {
	s := configtest.Working(t)
	file := s.TokenFile
	s.TokenFile, s.TokenCommand = "", "cat "+file
	hide := cli.NewRedactor(&bytes.Buffer{})
	source, _, _, err := tokenSource(&s, hide)
	require.NoError(t, err)
	for _, want := range []string{configtest.Token, "another-token-0123456789"} {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		token, err := source(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, token)
		assert.Equal(t, "[redacted]", hide.Redact(token))
	}
}

// What a token command has started ends with it, when its time is over.
func TestTokenCommandEndsWithItsChildren(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := runTokenCommand(ctx, nil, "sleep 300 & echo $! > '"+file+"'; wait")
		ended <- err
	}()
	var pid string
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(file)
		pid = strings.TrimSpace(string(raw))
		return strings.HasSuffix(string(raw), "\n")
	}, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
		return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
	}, 10*time.Second, 10*time.Millisecond, "process %s lives on", pid)
}
