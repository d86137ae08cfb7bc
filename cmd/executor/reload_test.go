package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
)

// Nothing is applied when one refuses, and what nobody applies needs a restart.
func TestReloader(t *testing.T) {
	next, bad := config.Default(), error(nil)
	var did []string
	part := func(name string, keys ...string) reloadable {
		return reloadable{keys, func(n *config.Settings) (func(), error) {
			did = append(did, "judge "+name)
			if n.Nice == 13 {
				return nil, errors.New("thirteen")
			}
			return func() { did = append(did, name) }, nil
		}}
	}
	r := &reloader{now: next, log: zap.NewNop(), begin: func() { did = append(did, "begin") }, end: func() { did = append(did, "end") },
		parts: []reloadable{part("level", "log_level"), part("room", "root", "max_sessions", "nice")},
		read:  func() (config.Settings, []string, error) { return next, nil, bad }}
	reload := func() (reloaded, error) {
		did = nil
		return r.reload()
	}
	done, err := reload()
	require.NoError(t, err)
	assert.Equal(t, reloaded{[]string{}, []string{}}, done)
	assert.Equal(t, []string{"begin", "end"}, did)

	next.LogLevel, next.MaxSessions, next.Root, next.Name, next.Insecure = "debug", 3, []string{"/x"}, "n", true
	done, err = reload()
	require.NoError(t, err)
	assert.Equal(t, reloaded{[]string{"root", "max_sessions", "log_level"}, []string{"insecure", "name"}}, done)
	assert.Equal(t, []string{"begin", "judge level", "judge room", "level", "room", "end"}, did)
	done, err = reload()
	require.NoError(t, err)
	assert.Equal(t, reloaded{[]string{}, []string{"insecure", "name"}}, done, "it still does")

	next.LogLevel, next.Nice = "warn", 13
	_, err = reload()
	require.EqualError(t, err, "thirteen")
	assert.Equal(t, []string{"begin", "judge level", "end"}, did, "nothing is applied")
	assert.Equal(t, "debug", r.now.LogLevel)
	next.Nice, bad = 0, errors.New("line 7")
	_, err = reload()
	require.EqualError(t, err, "line 7")
	bad = nil
	done, err = reload()
	require.NoError(t, err)
	assert.Equal(t, []string{"log_level"}, done.Changed)
	_, err = (&reloader{}).reload()
	assert.Error(t, err)
}

// The real program: what a file says changes while it runs, and a broken file changes
// nothing and says its line.
func TestReload(t *testing.T) {
	s := newSite(t)
	m := newManager(t, filepath.Join(s.home, "notify"))
	s.serve("127.0.0.1:0")
	other := filepath.Join(s.home, "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "f"), []byte("from the other root\n"), 0o600))
	config := filepath.Join(s.home, "config.yaml")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	write("root: "+s.work, "log_level: info")
	s.env = []string{"NOTIFY_SOCKET=" + m.name}
	agent := s.run("--config", config)
	m.until("READY=1")
	read := func() string {
		out, errs, _ := s.brain("call", "read", `{"path":"`+filepath.Join(other, "f")+`"}`)
		return out + errs
	}
	assert.Contains(t, read(), "outside")

	write("root: ["+s.work+", "+other+"]", "log_level: debug", "name: another")
	agent.signal(syscall.SIGHUP)
	lines := m.until("READY=1")
	assert.Contains(t, lines, "RELOADING=1")
	assert.Regexp(t, `MONOTONIC_USEC=\d{6,}`, strings.Join(lines, "\n"))
	agent.says(`settings are reloaded\s+{"changed": \["root", "log_level"\]}`)
	agent.says(`these settings have changed too, and need a restart\s+{"keys": \["name"\]}`)
	agent.says(`the brain is told of changed capabilities`)
	assert.Contains(t, read(), "from the other root")
	agent.says(`DEBUG`)

	for _, broken := range []string{"root: " + s.work + "\nlog_levle: info", "root: /none/here"} {
		write(broken)
		agent.signal(syscall.SIGHUP)
		m.until("READY=1")
	}
	agent.says(`settings are not reloaded, those of before hold\s+{"error": "[^"]*config.yaml:2: unknown key \\"log_levle\\"; did you mean \\"log_level\\"\?"}`)
	agent.says(`settings are not reloaded, those of before hold\s+{"error": "root /none/here does not exist`)
	assert.Contains(t, read(), "from the other root")

	write("root: "+s.work, "log_level: debug")
	out, errs, code := s.ask("reload", "--config", config, "--output", "json")
	require.Equal(t, 0, code, errs)
	var done reloaded
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	assert.Equal(t, reloaded{[]string{"root"}, []string{}}, done)
	assert.Contains(t, read(), "outside")
	write("root: "+s.work, "log_level: debug", "policy: [{tool: read, action: deny, reason: not today}]")
	agent.signal(syscall.SIGHUP)
	agent.says(`settings are reloaded\s+{"changed": \["policy"\]}`)
	assert.Contains(t, read(), "not today")
	write("max_sessions: none")
	_, errs, code = s.ask("reload", "--state-dir", filepath.Join(s.home, "state", "executor"))
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, `config.yaml:1: max_sessions: "none": want a whole number`)
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
}

// Started by nohup it goes on ignoring a hangup.
func TestNohup(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	sh, err := filepath.Rel(s.bin, "/bin/sh")
	require.NoError(t, err)
	agent := s.start(sh, "-c", `trap "" HUP; exec "$0" "$@"`, filepath.Join(s.bin, "executor"), "run", "--brain", "ws://"+s.addr+"/executor", "--token-file", s.tokenFile())
	agent.says("registered")
	agent.signal(syscall.SIGHUP)
	select {
	case <-agent.ended:
		t.Fatal("it ended")
	case <-time.After(200 * time.Millisecond):
	}
	assert.NotContains(t, agent.stderr.String(), "reloaded")
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
}
