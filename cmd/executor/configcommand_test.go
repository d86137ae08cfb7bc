package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// command runs a command line of this program in this process.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestConfigInit(t *testing.T) {
	home := configtest.Isolate(t)
	work := t.TempDir()
	t.Chdir(work)
	path := filepath.Join(home, ".config", "executor", "config.yaml")
	out, _, err := command(t, "config", "init", "--brain", "wss://brain.example/executor", "--brain", "unix:///run/b", "--root", "sub:ro", "--state-dir=~/state",
		"--drain-timeout", "40s", "--insecure", "--max-sessions", "3", "--exec-tools", `{"name": "no", "command": ["a b", "010"]}`, "--name", "yes: # no", "--token-command", "a\nb")
	require.NoError(t, err)
	assert.Equal(t, path+" is written; edit it, then run: executor config check && executor doctor\n", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing else is left")

	r := configtest.Resolve(t)
	require.Empty(t, r.Problems)
	assert.Equal(t, path, r.File)
	want := config.Default()
	want.Brain, want.Root = []string{"wss://brain.example/executor", "unix:///run/b"}, []string{filepath.Join(work, "sub:ro")}
	want.StateDir, want.DrainTimeout, want.Insecure, want.MaxSessions = filepath.Join(home, "state"), 40*time.Second, true, 3
	want.ExecTools, want.Name, want.TokenCommands = []string{`{"command":["a b","010"],"name":"no"}`}, "yes: # no", []string{"a\nb"}
	want.Config = path
	assert.Equal(t, want, r.Settings)

	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, _, err = command(t, "config", "init")
	require.ErrorContains(t, err, "is there already; edit it, replace it with --force, or name another place with --config")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	_, _, err = command(t, "config", "init", "--force")
	require.NoError(t, err)
	assert.Empty(t, configtest.Resolve(t).Origins, "all is commented out")

	_, _, err = command(t, "config", "init", "--config", filepath.Join(home, "x.yaml"), "--max-sessions", "0")
	assert.ErrorContains(t, err, "--max-sessions: 0: want more than 0")
	assert.NoFileExists(t, filepath.Join(home, "x.yaml"))
	_, _, err = command(t, "config", "init", "--config", home, "--force")
	assert.ErrorContains(t, err, "is not a file")
	out, _, err = command(t, "config", "init", "--config", filepath.Join(home, "with space.yaml"), "--output", "json")
	require.NoError(t, err)
	assert.JSONEq(t, `{"file": "`+filepath.Join(home, "with space.yaml")+`"}`, out)
}

// A link to the file stays one, and what it leads to is replaced.
func TestConfigInitThroughALink(t *testing.T) {
	configtest.Isolate(t)
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "link.yaml")
	require.NoError(t, os.WriteFile(real, []byte("name: a\n"), 0o600))
	require.NoError(t, os.Symlink(real, link))
	_, _, err := command(t, "config", "init", "--config", link, "--force")
	require.NoError(t, err)
	got, err := os.Readlink(link)
	require.NoError(t, err)
	assert.Equal(t, real, got)
	raw, err := os.ReadFile(real)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "#name:")
}

func TestConfigShow(t *testing.T) {
	home := configtest.Isolate(t)
	file := filepath.Join(home, "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("max_sessions: 3\nbrain: 'wss://h/x?key=geheim99'\nbase_url: https://u:geheim99@h\ntoken_command: echo geheim99\n"+
		"launch_prefix: [run, -e, API_TOKEN=geheim99, --password, geheim99, 'https://u:geheim99@h/']\nexec_tools: {name: a, command: [curl, -H, 'Authorization: Bearer geheim99']}\n"), 0o600))
	t.Setenv("EXECUTOR_NAME", "n\x1b[31m")
	t.Setenv("EXECUTOR_BRIAN", "geheim99")
	out, errs, err := command(t, "config", "show", "--config", file, "--drain-timeout", "1m")
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^max_sessions: 3 +# `+file+`:1$`, out)
	assert.Regexp(t, `(?m)^drain_timeout: 1m0s +# flag --drain-timeout$`, out)
	assert.Regexp(t, `(?m)^name: "n\\e\[31m" +# variable EXECUTOR_NAME$`, out)
	assert.Regexp(t, `(?m)^log_level: info +# default$`, out)
	assert.NotContains(t, out+errs, "geheim99", "no secret is shown")
	assert.Contains(t, errs, "unknown variable EXECUTOR_BRIAN is ignored; did you mean EXECUTOR_BRAIN?")
	shown := filepath.Join(home, "shown.yaml")
	require.NoError(t, os.WriteFile(shown, []byte(out), 0o600))
	assert.Empty(t, configtest.Resolve(t, "--config", shown).Problems, "it is a configuration itself")

	out, _, err = command(t, "config", "show", "--config", file, "--drain-timeout", "1m", "--output", "json")
	require.NoError(t, err)
	assert.NotContains(t, out, "geheim99")
	var got struct {
		File     string
		Settings []shown2
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	byKey := map[string]shown2{}
	for _, e := range got.Settings {
		byKey[e.Key] = e
	}
	assert.Equal(t, shown2{"max_sessions", 3.0, config.Origin{Kind: "file", Name: file, Line: 1}}, byKey["max_sessions"])
	assert.Equal(t, shown2{"drain_timeout", "1m0s", config.Origin{Kind: "flag", Name: "--drain-timeout"}}, byKey["drain_timeout"])
	assert.Equal(t, config.Origin{Kind: "variable", Name: "EXECUTOR_NAME"}, byKey["name"].Origin)
	assert.Equal(t, config.Origin{Kind: "default"}, byKey["log_level"].Origin)

	for _, key := range []string{"brain", "policy", "metrics_listen"} {
		assert.Contains(t, byKey, key)
	}
	assert.NotContains(t, byKey, "config")

	_, _, err = command(t, "config", "show", "--max-sessions", "0")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
}

// shown2 is a setting in the answer.
type shown2 struct {
	Key    string
	Value  any
	Origin config.Origin
}

func TestConfigCheck(t *testing.T) {
	home := configtest.Isolate(t)
	file := filepath.Join(home, "c.yaml")
	token := filepath.Join(home, "token")
	require.NoError(t, os.WriteFile(token, []byte(configtest.Token), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(home, "plain"), nil, 0o600))
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }

	write("brian: x\nmax_sessions: none\n")
	out, _, err := command(t, "config", "check", "--config", file)
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	assert.Equal(t, "problem: "+file+":1:1: unknown key \"brian\"; did you mean \"brain\"?\nproblem: "+file+":2:15: max_sessions: \"none\": want a whole number\n"+
		file+": 2 problems\n", out)

	// What only a start would find.
	write("brain: [ws://192.0.2.1/x, 'wss:/x']\ntoken_file: none\nroot: [none, plain]\nstate_dir: plain/state\nmin_backoff: 1m\ncapabilities: shel\nca_file: plain\n")
	out, _, err = command(t, "config", "check", "--config", file)
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	for _, line := range []string{
		file + `:1: brain URL "ws://192.0.2.1/x": ws:// would send the token in clear text to another host; use wss://, or allow it with --insecure`,
		file + `:1: brain "wss:/x": the host is missing; want one like`,
		file + ":2: token file " + filepath.Join(home, "none") + " does not exist; put the brain's token into it",
		file + ":3: root " + filepath.Join(home, "none") + " does not exist; make it, or name another with --root",
		file + ":3: root " + filepath.Join(home, "plain") + " is not a directory",
		file + ":4: state_dir: " + filepath.Join(home, "plain") + " is not a directory; name another with --state-dir",
		"max_backoff 30s is less than min_backoff 1m0s; raise it, or lower the other",
		file + `:6: capabilities: there is no capability "shel"; did you mean "shell"?`,
		file + ":7: ca-file " + filepath.Join(home, "plain") + " has no certificate in it",
		file + ": 9 problems",
	} {
		assert.Contains(t, out, line)
	}

	write("brain: wss://brain.example/executor\npolicy: {tool: bahs, action: deny}\n")
	out, _, err = command(t, "config", "check", "--config", file)
	require.NoError(t, err)
	assert.Contains(t, out, "there is no tool bahs")

	write("brain: wss://brain.example/executor\ntoken_file: token\n")
	out, _, err = command(t, "config", "check", "--config", file)
	require.NoError(t, err)
	assert.Contains(t, out, "warning: token file "+token+" has mode 0644")
	assert.Contains(t, out, file+": ok, with 2 settings that are not the default's\n")
	require.NoError(t, os.Chmod(token, 0o600))
	out, _, err = command(t, "config", "check", "--config", file, "--output", "json")
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok": true, "file": "`+file+`", "problems": [], "warnings": []}`, out)
	write("brian: x\n")
	out, _, err = command(t, "config", "check", "--config", file, "--output", "json")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	assert.JSONEq(t, `{"ok": false, "file": "`+file+`", "warnings": [], "problems": [{"source": "`+file+`", "line": 1, "column": 1, "key": "brian",
		"problem": "unknown key \"brian\"; did you mean \"brain\"?", "did_you_mean": "brain", "remedy": "did you mean \"brain\"?"}]}`, out)
}

// Every problem that a start has with settings, check has too.
func TestConfigCheckFindsWhatAStartFinds(t *testing.T) {
	home := configtest.Isolate(t)
	token := filepath.Join(home, "token")
	require.NoError(t, os.WriteFile(token, []byte(configtest.Token), 0o600))
	for _, args := range [][]string{
		{},
		{"--brain", "wss://h/", "--token-file", "/none"},
		{"--brain", "wss://h/", "--brain", "wss://h/", "--token-file", token},
		{"--brain", "wss://h/", "--token-file", token, "--token-file", token},
		{"--brain", "wss://h/", "--token-file", token, "--token-command", "x"},
		{"--brain", "unix+listen:///x"},
		{"--brain", "wss://h:99999/", "--token-file", token},
		{"--brain", "http://h/"},
		{"--base-url", "https://h"},
		{"--base-url", "https://h", "--environment-key-file", token},
		{"--base-url", "https://h", "--environment", "e", "--environment-key-file", "/none"},
		{"--brain", "wss://h/", "--workspace", "session", "--root", home + ":ro"},
		{"--brain", "wss://h/", "--root", ":ro"},
		{"--brain", "wss://h/", "--run-as", "nobody-of-that-name"},
		{"--brain", "wss://h/", "--capabilities", "files,-files"},
		{"--brain", "wss://h/", "--token-file", token, "--exec-tools", `{"name": "read", "command": ["/bin/true"]}`},
	} {
		r := configtest.Resolve(t, args...)
		require.Empty(t, r.Problems, args)
		s := r.Settings
		ctx := t.Context()
		s.StateDir = filepath.Join(t.TempDir(), "state")
		want := run(ctx, &s, nil, io.Discard)
		require.Error(t, want, args)
		agent.Check(r)
		assert.NotEmpty(t, r.Problems, "%v: %v", args, want)
		for _, p := range r.Problems {
			assert.NotContains(t, p.Text, "\n")
			assert.NotEmpty(t, p.Remedy)
		}
	}
}

func TestGroupsOfCommands(t *testing.T) {
	out, _, err := command(t, "config", "--help")
	require.NoError(t, err)
	assert.Contains(t, out, "wins over the system's as a whole, they are not merged")
	_, _, err = command(t, "config", "chek")
	assert.ErrorContains(t, err, `there is no command "chek"; did you mean "check"?`)
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
}
