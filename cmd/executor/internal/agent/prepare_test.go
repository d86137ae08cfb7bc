package agent

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// notPrepared are the fields of executor.Options that no setting ends up in, or that are made by
// the program, or are there instead of a token.
var notPrepared = []string{"Dial", "DialChannel", "Version", "Wrap", "OnState", "OnCall", "TLS", "OnResultLost", "Woken", "Logger", "Decide", "Credentials"}

func TestPrepareFillsEveryOption(t *testing.T) {
	s := configtest.Working(t)
	s.Insecure, s.Name, s.Environment, s.Workspace, s.Dialect = true, "n", "e", "session", "bma"
	s.CAFile = configtest.WriteFile(t, "ca.pem", somePEM(t))
	s.MaxSessions, s.MaxInFlight, s.InlineResultBytes, s.MaxAttempts = 1, 2, 3, 4
	s.MinBackoff, s.MaxBackoff, s.RequestTimeout, s.DrainTimeout = 4, 5, 6, 7
	p, err := prepare(&s, cli.NewRedactor(&bytes.Buffer{}))
	require.NoError(t, err)
	o := reflect.ValueOf(p.Options)
	for i := range o.NumField() {
		name := o.Type().Field(i).Name
		assert.Equal(t, slices.Contains(notPrepared, name), o.Field(i).IsZero(), "executor.Options.%s", name)
	}
	assert.Equal(t, executor.Workspace{Roots: []capabilities.Root{{Path: s.Root[0]}}, PerSession: true}, p.Options.Workspace)
	assert.Equal(t, []int{1, 2, 3}, []int{p.Options.MaxSessions, p.Options.MaxInFlight, p.Options.InlineResultBytes})
	assert.Equal(t, []time.Duration{4, 5, 6, 7}, []time.Duration{p.Options.MinBackoff, p.Options.MaxBackoff, p.Options.RequestTimeout, p.Options.DrainTimeout})
	assert.Equal(t, []string{"n", "e", s.StateDir}, []string{p.Options.Name, p.Options.EnvironmentID, p.Options.StateDir})
	token, err := p.Options.Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, configtest.Token, token)
	_, err = os.Stat(s.StateDir)
	assert.ErrorIs(t, err, os.ErrNotExist, "nothing is made on disk")
}

func TestPrepareRefuses(t *testing.T) {
	file := configtest.WriteFile(t, "file", "x")
	for _, c := range []struct {
		change func(*config.Settings)
		says   string
	}{
		{func(s *config.Settings) { s.Brain = nil }, "no brain to connect to; give one with --brain"},
		{func(s *config.Settings) { s.Brain = []string{"wss://me:geheim99@host/x"} }, "the credential is given by --token-file"},
		{func(s *config.Settings) { s.Brain = []string{"wss://me:geheim99@host:port/x"} }, "brain: not a URL"},
		{func(s *config.Settings) { s.Brain = []string{"wss:/executor?key=geheim99"} }, "the host is missing"},
		{func(s *config.Settings) { s.TokenCommand = "echo" }, "token_file and token_command are both given"},
		{func(s *config.Settings) { s.BaseURL, s.EnvironmentKeyFile = "https://host", file }, "leave token_file and token_command out"},
		{func(s *config.Settings) { s.TokenFile = "/none" }, "token file /none does not exist"},
		{func(s *config.Settings) { s.CAFile = "/none" }, "ca-file /none does not exist"},
		{func(s *config.Settings) { s.CAFile = file }, "has no certificate in it"},
		{func(s *config.Settings) { s.Root = []string{"/none"} }, "root /none does not exist"},
		{func(s *config.Settings) { s.Root = []string{file} }, "is not a directory"},
		{func(s *config.Settings) { s.Root = []string{":ro"} }, "the directory is missing"},
		{func(s *config.Settings) { s.Capabilities = []string{"shel"} }, `capabilities: there is no capability "shel"; did you mean "shell"?`},
		{func(s *config.Settings) { s.MaxBackoff = time.Millisecond }, "max_backoff 1ms is less than min_backoff 500ms"},
	} {
		s := configtest.Working(t)
		c.change(&s)
		_, err := prepare(&s, cli.NewRedactor(&bytes.Buffer{}))
		require.ErrorContains(t, err, c.says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err), c.says)
		if !strings.Contains(c.says, "the host is missing") {
			assert.NotContains(t, err.Error(), "geheim99")
		}
	}
}

func TestExitCodes(t *testing.T) {
	for err, code := range map[error]int{
		executor.ErrCredentialRejected:  3,
		executor.ErrRegistrationRefused: 4,
		executor.ErrUnsupportedProtocol: 4,
		executor.ErrReplaced:            5,
		executor.ErrAttemptsExhausted:   1,
		errors.New("anything else"):     1,
	} {
		assert.Equal(t, code, exitCode(fmt.Errorf("around: %w", err)), err)
	}
}

func TestProxyIsRedacted(t *testing.T) {
	s := configtest.Working(t)
	s.Brain = []string{"wss://brain.example/executor"}
	brain, err := brainOf(&s)
	require.NoError(t, err)
	// http.ProxyFromEnvironment reads the environment once in a process; what it
	// gives is only checked where it gives anything.
	proxy, err := proxyOf(brain, cli.NewRedactor(&bytes.Buffer{}))
	require.NoError(t, err)
	assert.NotContains(t, proxy, "@")
}

func somePEM(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestTokenSourceReadsTheFileAtEveryDial(t *testing.T) {
	s := configtest.Working(t)
	source, first, warning, err := tokenSource(&s, cli.NewRedactor(&bytes.Buffer{}))
	require.NoError(t, err)
	assert.Equal(t, configtest.Token, first)
	assert.Empty(t, warning)
	require.NoError(t, os.WriteFile(s.TokenFile, []byte("another-token-0123456789"), 0o600))
	token, err := source(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "another-token-0123456789", token)
	require.NoError(t, os.Remove(s.TokenFile))
	_, err = source(t.Context())
	assert.ErrorContains(t, err, "does not exist", "an error then, and another attempt")
}

func TestTokenSourceWithoutAny(t *testing.T) {
	s := configtest.Working(t)
	s.TokenFile = ""
	source, _, warning, err := tokenSource(&s, cli.NewRedactor(&bytes.Buffer{}))
	require.NoError(t, err)
	assert.Nil(t, source)
	assert.Contains(t, warning, "no token is configured")

	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(configtest.Token), 0o440))
	source, first, warning, err := tokenSource(&s, cli.NewRedactor(&bytes.Buffer{}))
	require.NoError(t, err)
	assert.NotNil(t, source)
	assert.Equal(t, configtest.Token, first, "systemd's credential")
	assert.Empty(t, warning)
}

func TestTokenCommand(t *testing.T) {
	for _, c := range []struct{ command, token, says string }{
		{"echo " + configtest.Token, configtest.Token, ""},
		{"echo " + configtest.Token + "; sleep 60 &", configtest.Token, ""}, // does not wait for who keeps the pipe
		{"echo bad luck >&2; exit 7", "", "token command: exit status 7: bad luck"},
		{"exit 7", "", "token command: exit status 7"},
		{"true", "", "what the token command printed is empty"},
		{"echo short", "", "less than 16 characters"},
		{"head -c 70000 /dev/zero", "", "more than 64 KiB"},
		{"trap '' PIPE; yes", "", "more than 64 KiB"}, // ended at once, not after its time
		{"printf '\\033[31m' >&2; exit 1", "", `\x1b[31m`},
	} {
		s := configtest.Working(t)
		s.TokenFile, s.TokenCommand = "", c.command
		source, _, _, err := tokenSource(&s, cli.NewRedactor(&bytes.Buffer{}))
		require.NoError(t, err)
		token, err := source(t.Context())
		assert.Equal(t, c.token, token, c.command)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
		} else {
			assert.NoError(t, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := runTokenCommand(ctx, nil, "sleep 60")
	assert.ErrorIs(t, err, context.Canceled)
}

func TestNoMCPOverHTTP(t *testing.T) {
	s := config.Default()
	assert.Empty(t, noMCPOverHTTP(&s))
	s.Sandbox = "auto"
	assert.Empty(t, noMCPOverHTTP(&s))
	s.SandboxNetwork = "none"
	assert.Contains(t, noMCPOverHTTP(&s), "with the network none")
}
