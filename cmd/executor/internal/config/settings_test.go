package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// notSettings are the fields of executor.Options that nobody configures.
var notSettings = map[string]string{
	"Dial":         "follows from the URL",
	"DialChannel":  "follows from the URL",
	"Version":      "is the build's",
	"Wrap":         "is code",
	"OnState":      "is code",
	"OnCall":       "is code",
	"TLS":          "is TLSSource without the files",
	"OnResultLost": "is code",
	"Woken":        "is code",
}

// isolate keeps the machine's own configuration out of a test.
func isolate(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, v := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY",
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	return home
}

// resolveWith resolves a command line, variables and a file.
func resolveWith(t *testing.T, args, environ []string, file string) (Settings, []string, error) {
	t.Helper()
	isolate(t)
	given := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, &given)
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append([]string{"--config", path}, args...)
	}
	require.NoError(t, flags.Parse(args))
	return Resolve(flags, &given, environ)
}

func TestEveryOptionOfTheExecutorIsASetting(t *testing.T) {
	covered := map[string]bool{}
	for _, s := range table {
		if s.option != "" {
			covered[s.option] = true
		}
	}
	options := reflect.TypeFor[executor.Options]()
	for i := range options.NumField() {
		name := options.Field(i).Name
		if notSettings[name] == "" {
			assert.True(t, covered[name], "executor.Options.%s has no setting", name)
		} else {
			assert.False(t, covered[name], "executor.Options.%s has a setting", name)
		}
	}
	for name := range covered {
		_, ok := options.FieldByName(name)
		assert.True(t, ok, "executor.Options has no %s", name)
	}
}

func TestEveryFieldOfSettingsIsInTheTable(t *testing.T) {
	var s Settings
	pointers := map[any]string{}
	for _, row := range table {
		p := row.value(&s)
		assert.Empty(t, pointers[p], "%s and %s are kept in the same place", row.flag, pointers[p])
		pointers[p] = row.flag
		assert.NotEmpty(t, row.usage)
	}
	v := reflect.ValueOf(&s).Elem()
	ofOneBrain := []string{"TokenFile", "TokenCommand", "Secrets", "Children", "Again"}
	for i := range v.NumField() {
		if slices.Contains(ofOneBrain, v.Type().Field(i).Name) {
			continue
		}
		assert.NotEmpty(t, pointers[v.Field(i).Addr().Interface()], "settings.%s is not in the table", v.Type().Field(i).Name)
	}
}

// sample is a value that is not the default, as text.
func sample(row setting) string {
	switch row.value(&Settings{}).(type) {
	case *int:
		return "7"
	case *bool:
		return "true"
	case *time.Duration:
		return "7s"
	}
	switch {
	case row.flag == "rlimit":
		return "nofile=1024"
	case row.flag == "brain":
		return "wss://host:7070/executor"
	case row.flag == "metrics-listen":
		return "127.0.0.1:9464"
	case row.flag == "exec-tools":
		return `{"command":["make","test"],"name":"test"}`
	case row.flag == "mcp-servers":
		return `{"server_key":"files","transport":{"command":"x"}}`
	case row.flag == "policy":
		return `{"action":"deny","command":"git push"}`
	case row.flag == "git-subcommands":
		return "add"
	case row.path:
		return "/some/where"
	case len(row.oneOf) > 0:
		return row.oneOf[len(row.oneOf)-1]
	}
	return "something"
}

// The promise of the whole: three spellings, one meaning.
func TestEverySettingIsFlagVariableAndKey(t *testing.T) {
	for _, row := range table {
		t.Run(row.flag, func(t *testing.T) {
			text := sample(row)
			var byKey Settings
			if row.flag == FileFlag {
				text = filepath.Join(t.TempDir(), "config.yaml")
				require.NoError(t, os.WriteFile(text, nil, 0o600))
			} else {
				var err error
				byKey, _, err = resolveWith(t, nil, nil, row.key()+": "+text+"\n")
				require.NoError(t, err)
				byKey.Config = ""
			}
			byFlag, _, err := resolveWith(t, []string{"--" + row.flag + "=" + text}, nil, "")
			require.NoError(t, err)
			byVariable, warnings, err := resolveWith(t, nil, []string{row.variable() + "=" + text}, "")
			require.NoError(t, err)
			assert.Empty(t, warnings)
			if row.flag != FileFlag {
				byKey.StateDir, byFlag.StateDir, byVariable.StateDir = sameHome(byKey), sameHome(byFlag), sameHome(byVariable)
				assert.Equal(t, byFlag, byKey)
			} else {
				byFlag.StateDir, byVariable.StateDir = "", ""
			}
			assert.Equal(t, byFlag, byVariable)
			assert.NotEqual(t, reflect.ValueOf(row.value(ptr(Default()))).Elem().Interface(),
				reflect.ValueOf(row.value(&byFlag)).Elem().Interface(), "the sample is the default")
		})
	}
}

// sameHome makes the default comparable: each test has a home of its own.
func sameHome(s Settings) string {
	if strings.HasSuffix(s.StateDir, ".local/state/executor") {
		return "default"
	}
	return s.StateDir
}

func ptr[T any](v T) *T { return &v }

func TestPrecedence(t *testing.T) {
	file := "max_sessions: 3\nname: file\nlog_level: debug\nroot: [/file]\n"
	environ := []string{"EXECUTOR_MAX_SESSIONS=4", "EXECUTOR_NAME=variable", "EXECUTOR_LOG_FORMAT="}
	s, _, err := resolveWith(t, []string{"--max-sessions", "5", "--root", "/flag", "--root", "/two:ro"}, environ, file)
	require.NoError(t, err)
	assert.Equal(t, 5, s.MaxSessions, "the flag")
	assert.Equal(t, "variable", s.Name, "the variable")
	assert.Equal(t, "debug", s.LogLevel, "the file")
	assert.Equal(t, []string{"/flag", "/two:ro"}, s.Root, "a list is replaced, not added to")
	assert.Equal(t, "auto", s.LogFormat, "an empty variable is none")
	assert.Equal(t, 30*time.Second, s.DrainTimeout, "the default")

	s, _, err = resolveWith(t, []string{"--name="}, environ, file)
	require.NoError(t, err)
	assert.Empty(t, s.Name, "an empty flag is one")
}

func TestListsInVariables(t *testing.T) {
	for _, c := range []struct {
		variable string
		list     func(Settings) []string
		want     []string
	}{
		{"EXECUTOR_ROOT=/a:/b:ro:/c", func(s Settings) []string { return s.Root }, []string{"/a", "/b:ro", "/c"}},
		{"EXECUTOR_ROOT=ro:ro:./ro", func(s Settings) []string { return s.Root }, []string{"ro:ro", "./ro"}},
		{"EXECUTOR_BRAIN=wss://a:1/x:ws://b:2/y:unix:///run/c", func(s Settings) []string { return s.Brain }, []string{"wss://a:1/x", "ws://b:2/y", "unix:///run/c"}},
		{"EXECUTOR_BRAIN=unix+listen:///run/c:wss://a/", func(s Settings) []string { return s.Brain }, []string{"unix+listen:///run/c", "wss://a/"}},
		{"EXECUTOR_BRAIN=wss://[::1]:7070/x", func(s Settings) []string { return s.Brain }, []string{"wss://[::1]:7070/x"}},
		{"EXECUTOR_CAPABILITIES=shell:files,-git", func(s Settings) []string { return s.Capabilities }, []string{"shell", "files", "-git"}},
	} {
		if filepath.ListSeparator != ':' {
			t.Skip("PATH is separated otherwise here")
		}
		s, _, err := resolveWith(t, nil, []string{c.variable}, "")
		require.NoError(t, err)
		assert.Equal(t, c.want, c.list(s), c.variable)
	}
	s, _, err := resolveWith(t, []string{"--capabilities", "shell, files", "--capabilities=-git"}, nil, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"shell", "files", "-git"}, s.Capabilities)
}

func TestWrongValuesNameTheirSource(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		file, says    string
	}{
		{args: []string{"--max-sessions", "0"}, says: "--max-sessions: 0: want more than 0"},
		{args: []string{"--workspace", "sesion"}, says: `--workspace: "sesion": did you mean "session"?`},
		{args: []string{"--log-format", "zzz"}, says: `--log-format: "zzz": want one of auto, console, json, journal`},
		{environ: []string{"EXECUTOR_DRAIN_TIMEOUT=30"}, says: `EXECUTOR_DRAIN_TIMEOUT: "30": want a time like`},
		{environ: []string{"EXECUTOR_INSECURE=yes please"}, says: `EXECUTOR_INSECURE: "yes please": want true or false`},
		{environ: []string{"EXECUTOR_MAX_SESSIONS=-1"}, says: "EXECUTOR_MAX_SESSIONS: -1: want more than 0"},
		{args: []string{"--max-attempts=-1"}, says: "--max-attempts: -1: want 0, for no limit, or more"},
		{file: "name: x\nmax_sessions: many\n", says: `config.yaml:2: max_sessions: "many": want a whole number`},
		{file: "log_level: [info, debug]\n", says: "config.yaml:1: log_level: one value is wanted, not a list"},
		{file: "\n\nbrian: wss://x\n", says: `config.yaml:3: unknown key "brian"; did you mean "brain"?`},
		{file: "zzzzzzzzz: 1\n", says: `config.yaml:1: unknown key "zzzzzzzzz"; see executor run --help`},
		{file: "config: /x\n", says: `config.yaml:1: unknown key "config"`},
		{file: "name: a\nroot: /r\nname: b\n", says: "config.yaml:3: key name is in line 1 already"},
		{file: "root: {a: b}\n", says: "config.yaml:1: root: want a value or a list of values"},
		{file: "root: [[a]]\n", says: "config.yaml:1: root: want a value"},
		{file: "- a\n", says: "config.yaml:1: want lines of the form key: value"},
		{file: "name: [\n", says: "config.yaml:1: did not find expected"},
		{file: "name: a\n\tb: c\n", says: "config.yaml:2: found a tab character"},
		{file: "name: a: b\n", says: "config.yaml:1: mapping values are not allowed"},
		{file: "name: a\nroot: b: c\n", says: "config.yaml:2: mapping values are not allowed"},
		{file: "name: a\nroot: *here\n", says: "config.yaml:2: unknown anchor 'here' referenced"},
		{file: "name: a\n\nroot: \xff\n", says: "config.yaml:3: "},
		{file: "name: a\nroot: \x01\n", says: "config.yaml:2: control characters are not allowed"},
		{file: "\x00", says: "config.yaml:1: control characters are not allowed"},
		{file: "capabilities: []\n", says: "config.yaml:1: capabilities: the list is empty; name some, or leave it out for all"},
		{args: []string{"--capabilities", ","}, says: "--capabilities: the list is empty"},
		{args: []string{"--capabilities="}, says: "--capabilities: the list is empty"},
		{environ: []string{"EXECUTOR_CAPABILITIES= , "}, says: "EXECUTOR_CAPABILITIES: the list is empty"},
		{args: []string{"--request-timeout", "50ms"}, says: "--request-timeout: 50ms: want at least 100ms; a slow answer would end every connection"},
		{args: []string{"--inline-result-bytes", "1048577"}, says: "--inline-result-bytes: 1048577: want at most 1048576, which is what a frame holds"},
		{args: []string{"--run-as", "bob:"}, says: `--run-as: run as "bob:": want USER or USER:GROUP`},
		{args: []string{"--nice=-21"}, says: "--nice: -21: want -20 to 19"},
		{args: []string{"--oom-score-adjust=1001"}, says: "--oom-score-adjust: 1001: want 0 to 1000"},
		{environ: []string{"EXECUTOR_RLIMIT=core=0:nofile"}, says: `EXECUTOR_RLIMIT: limit "nofile": want NAME=VALUE, such as nofile=1024`},
		{file: "rlimit: [core=0, nofiles=3]\n", says: `config.yaml:1: rlimit: limit "nofiles": there is none of that name; there are `},
	} {
		_, _, err := resolveWith(t, c.args, c.environ, c.file)
		assert.ErrorContains(t, err, c.says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err), c.says)
		assert.NotContains(t, fmt.Sprint(err), "\n")
	}
}

func TestFilesThatSayNothing(t *testing.T) {
	for _, file := range []string{"# only a comment\n", "---\n", "~\n", "name:\nmax_sessions: null\n"} {
		s, _, err := resolveWith(t, nil, nil, file)
		require.NoError(t, err, file)
		assert.Equal(t, 16, s.MaxSessions)
	}
}

func TestUnknownVariables(t *testing.T) {
	environ := []string{"EXECUTOR_TOKEN=s3cr3t-s3cr3t-s3cr3t", "EXECUTOR_BRIAN=x", "EXECUTOR_\x1b[31m=x", "OTHER=x", "EXECUTORS=x"}
	_, warnings, err := resolveWith(t, nil, environ, "")
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	all := strings.Join(warnings, "\n")
	assert.Contains(t, all, "unknown variable EXECUTOR_TOKEN is ignored; did you mean EXECUTOR_TOKEN_FILE?")
	assert.Contains(t, all, "unknown variable EXECUTOR_BRIAN is ignored; did you mean EXECUTOR_BRAIN?")
	assert.NotContains(t, all, "s3cr3t")
	assert.NotContains(t, all, "\x1b")
}

func TestWhereTheFileIs(t *testing.T) {
	home := isolate(t)
	given := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, &given)

	s, _, err := Resolve(flags, &given, nil)
	require.NoError(t, err, "there is none")

	own := filepath.Join(home, ".config", "executor", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, []byte("name: own\n"), 0o600))
	s, _, err = Resolve(flags, &given, nil)
	require.NoError(t, err)
	assert.Equal(t, "own", s.Name)
	assert.Equal(t, own, s.Config)

	_, _, err = Resolve(flags, &given, []string{"EXECUTOR_CONFIG=" + home + "/none.yaml"})
	assert.ErrorContains(t, err, "none.yaml does not exist", "one that is named has to be there")
	_, _, err = Resolve(flags, &given, []string{"EXECUTOR_CONFIG=" + home})
	assert.ErrorContains(t, err, "is not a file")
	big := filepath.Join(home, "big.yaml")
	require.NoError(t, os.WriteFile(big, make([]byte, maxConfig+1), 0o600))
	_, _, err = Resolve(flags, &given, []string{"EXECUTOR_CONFIG=" + big})
	assert.ErrorContains(t, err, "larger than 1 MiB")
}

func TestPathsInFiles(t *testing.T) {
	s, _, err := resolveWith(t, nil, nil, "root: [work, ~/mine, /abs:ro]\ntoken_file: token\nname: plain\n")
	require.NoError(t, err)
	dir := filepath.Dir(s.Config)
	home, _ := os.UserHomeDir()
	assert.Equal(t, []string{filepath.Join(dir, "work"), filepath.Join(home, "mine"), "/abs:ro"}, s.Root, "relative to the file")
	assert.Equal(t, []string{filepath.Join(dir, "token")}, s.TokenFiles)
	assert.Equal(t, "plain", s.Name)

	s, _, err = resolveWith(t, nil, []string{"EXECUTOR_TOKEN_FILE=~/token"}, "")
	require.NoError(t, err)
	home, _ = os.UserHomeDir()
	assert.Equal(t, []string{filepath.Join(home, "token")}, s.TokenFiles)
}
