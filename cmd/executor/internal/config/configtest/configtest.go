// Package configtest has what the tests of several packages need of the configuration:
//
//	configtest.Isolate(t)
//	r := configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/")
package configtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
)

// Token is one that is long enough.
const Token = "0123456789abcdef-test-token"

// Isolate keeps the machine's own configuration out of a test, and returns the home that it has.
func Isolate(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, v := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY",
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	return home
}

// Resolve resolves flags, and the file that they name or that is found, with all problems.
func Resolve(t testing.TB, args ...string) *config.Resolved {
	t.Helper()
	given := config.Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(flags, &given)
	require.NoError(t, flags.Parse(args))
	return config.ResolveAll(flags, &given, nil)
}

// ResolveFile is Resolve with a file of that content, config.yaml.
func ResolveFile(t testing.TB, content string, args ...string) *config.Resolved {
	t.Helper()
	return Resolve(t, append([]string{"--config", WriteFile(t, "config.yaml", content)}, args...)...)
}

// WriteFile writes a file into a directory of its own, for this user alone.
func WriteFile(t testing.TB, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Working are settings that are right, of an isolated test.
func Working(t *testing.T) config.Settings {
	t.Helper()
	Isolate(t)
	s := config.Default()
	s.Brain = []string{"ws://127.0.0.1:1/executor"}
	s.TokenFile = WriteFile(t, "token", Token+"\n")
	s.Root = []string{t.TempDir()}
	s.StateDir = filepath.Join(t.TempDir(), "state")
	return s
}
