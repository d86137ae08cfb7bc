package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol/brain"
)

// Two brains in one process, each with its own token, sessions, identity and state; one
// that refuses for good does not end the other; adding one keeps the first's identity.
func TestTwoBrains(t *testing.T) {
	s := newSite(t)
	serve := func(dir string) (server *program, url, token string) {
		state := filepath.Join(s.home, dir)
		server = s.start("brain", "serve", "--listen", "127.0.0.1:0", "--state-dir", state)
		return server, "ws://" + server.says(`brain listens on (\S+)\n(?s:.*)connect with`)[1] + "/executor", filepath.Join(state, "token")
	}
	one, oneURL, oneToken := serve("one")
	_, twoURL, twoToken := serve("two")
	idOf := func(dir string) string {
		t.Helper()
		out, errs, code := s.brain("executors", "--output", "json", "--state-dir", filepath.Join(s.home, dir))
		require.Equal(t, 0, code, errs)
		var list []map[string]any
		if json.Unmarshal([]byte(out), &list) != nil {
			var object struct{ Executors []map[string]any }
			require.NoError(t, json.Unmarshal([]byte(out), &object), out)
			list = object.Executors
		}
		require.Len(t, list, 1, out)
		return list[0]["id"].(string)
	}
	backoff := []string{"--min-backoff", "50ms", "--max-backoff", "500ms", "--log-format", "json"}
	first := s.start("executor", append([]string{"run", "--brain", oneURL, "--token-file", oneToken}, backoff...)...)
	first.says("registered")
	id := idOf("one")
	first.signal(syscall.SIGTERM)
	require.Equal(t, 0, first.exit())

	both := []string{"run", "--brain", oneURL, "--brain", twoURL, "--token-file", oneToken, "--token-file", twoToken}
	agent := s.start("executor", append(both, backoff...)...)
	agent.says(`(?s)registered.*registered`)
	assert.Equal(t, id, idOf("one"), "the same as before")
	assert.NotEqual(t, id, idOf("two"))
	var hosts []string
	for _, line := range strings.Split(strings.TrimSpace(agent.stderr.String()), "\n") {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		if entry["msg"] == "registered" {
			hosts = append(hosts, entry["brain"].(string))
		}
	}
	assert.ElementsMatch(t, []string{hostOf(oneURL), hostOf(twoURL)}, hosts)

	call := func(dir string) (string, int) {
		out, errs, code := s.brain("call", "--state-dir", filepath.Join(s.home, dir), "bash", `{"command":"echo hello"}`)
		return out + errs, code
	}
	for _, dir := range []string{"one", "two"} {
		out, code := call(dir)
		assert.Equal(t, "hello\n", out)
		assert.Equal(t, 0, code)
	}
	second := s.start("executor", append(both, backoff...)...)
	assert.Equal(t, 1, second.exit())
	assert.Contains(t, second.stderr.String(), "another executor (pid ")

	// The first brain gets another token: to it the executor is a stranger now.
	one.signal(syscall.SIGTERM)
	require.Equal(t, 0, one.exit())
	require.NoError(t, os.WriteFile(filepath.Join(s.home, "strange"), []byte("a-token-that-is-another"), 0o600))
	s.start("brain", "serve", "--listen", hostOf(oneURL), "--state-dir", filepath.Join(s.home, "one"), "--token-file", filepath.Join(s.home, "strange")).says("connect with")
	agent.says("this brain is given up")
	out, code := call("two")
	assert.Equal(t, "hello\n", out)
	assert.Equal(t, 0, code)
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 3, agent.exit(), "that of the refusal")
	assert.Contains(t, agent.stderr.String(), "executor: credential rejected")
}

func hostOf(raw string) string {
	u, _ := url.Parse(raw)
	return u.Host
}

// All that refuse: the exit code is that of the first, when the last has gone.
func TestAllBrainsRefuse(t *testing.T) {
	configtest.Isolate(t)
	s := configtest.Working(t)
	refusing := brain.New(brain.Options{Authenticate: func(r *http.Request) (brain.Principal, error) {
		return brain.Principal{EnvironmentID: "theirs"}, nil
	}})
	defer refusing.Close("test ends")
	a := httptest.NewServer(refusing)
	defer a.Close()
	gone := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		<-time.After(300 * time.Millisecond)
		http.Error(rw, "no", http.StatusUnauthorized)
	}))
	defer gone.Close()
	s.Brain = []string{strings.Replace(gone.URL, "http", "ws", 1), strings.Replace(a.URL, "http", "ws", 1)}
	s.Environment = "mine"
	var log bytes.Buffer
	err := run(t.Context(), &s, nil, &log)
	assert.Equal(t, cli.ExitRefused, cli.Code(err), "%v", err)
	assert.Equal(t, 2, strings.Count(log.String(), "this brain is given up"))
}

// A directory that others can look into is not used without a word, however deep it is.
func TestOpenStateDirsAreSaid(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	s := configtest.Working(t)
	s.MaxAttempts = 1
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	s.Brain = []string{"ws://" + nobody.Addr().String() + "/executor"}
	agents, _, err := agent.Plan(&s, cli.NewRedactor(io.Discard))
	require.NoError(t, err)
	own := agents[0].Options.StateDir
	dirs := []string{s.StateDir, filepath.Dir(own), own}
	var log bytes.Buffer
	require.ErrorIs(t, run(t.Context(), &s, nil, &log), executor.ErrAttemptsExhausted)
	require.NotContains(t, log.String(), "has mode", "those that are made here are private")
	for _, dir := range dirs {
		require.NoError(t, os.Chmod(dir, 0o777))
	}
	require.ErrorIs(t, run(t.Context(), &s, nil, &log), executor.ErrAttemptsExhausted)
	for _, dir := range dirs {
		assert.Equal(t, 1, strings.Count(log.String(), "state directory "+dir+" has mode 0777, so that others can look into it and change it"), log.String())
	}
}
