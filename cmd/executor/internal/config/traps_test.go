package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// resolveFile resolves a file of that content, and flags, with all problems.
func resolveFile(t testing.TB, content string, args ...string) *Resolved {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return resolveArgs(t, append([]string{"--config", path}, args...)...)
}

func resolveArgs(t testing.TB, args ...string) *Resolved {
	t.Helper()
	given := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, &given)
	require.NoError(t, flags.Parse(args))
	return ResolveAll(flags, &given, nil)
}

func says(r *Resolved) string {
	var b strings.Builder
	for _, p := range r.Problems {
		text := p.Say(true)
		fmt.Fprintln(&b, text[strings.LastIndex(text[:strings.IndexByte(text+" ", ' ')], "/")+1:])
	}
	return b.String()
}

// What YAML makes of a text is not always what it looks like. Each is either read as it
// looks, or refused with what to write instead.
func TestTrapsOfYAML(t *testing.T) {
	isolate(t)
	for _, c := range []struct{ file, says string }{
		{"max_sessions: 010\n", `config.yaml:1:15: max_sessions: "010": a number that begins with 0 is not read the same by everybody; want it without`},
		{"max_sessions: 0x10\n", `max_sessions: "0x10": a number that begins with 0`},
		{"max_sessions: 1_0\n", "want a whole number"},
		{"max_sessions: 1e1\n", "want a whole number"},
		{"insecure: yes\n", `insecure: "yes": want true or false`},
		{"insecure: off\n", `insecure: "off": want true or false`},
		{"drain_timeout: 30\n", `drain_timeout: "30": want a time like 500ms, 30s or 2m`},
		{"drain_timeout: 1:30\n", `want a time like`},
		{"name: &x a\nenvironment: *x\n", "config.yaml:1:7: name: &x: anchors are not read; leave it out\nconfig.yaml:2:14: environment: *x: references are not read; write out what is meant\n"},
		{"name: !!binary aGk=\n", "name: !!binary: types of YAML are not read; leave it out"},
		{"exec_tools: {<<: {name: a}, command: [a]}\n", "<<: other mappings are not merged in; write out what is meant"},
		{"exec_tools:\n  name: a\n  command: [a]\n  name: b\n", `config.yaml:4:3: exec_tools: key "name" is in line 2 already; leave one out`},
		{"name: a\n---\nname: b\n", "config.yaml:2:1: a second document begins here; leave --- out, a configuration is one"},
		{"name: a\n--- [\n", "config.yaml:2: "},
		{"max_sessions: 3\r\nnaem: x\r\n", `config.yaml:2:1: unknown key "naem"; did you mean "name"?`},
		{"\xef\xbb\xbfnaem: x\n", `config.yaml:1:`},
		{"state_dir: ~bob/x\n", `state_dir: "~bob/x": only ~/ is read, as your own home directory; write the whole path, or ./~bob/x for a file of that name`},
		{"token_file: $HOME/token\n", `token_file: "$HOME/token": variables are not read in paths; write the whole path, or one that begins with ~/`},
		{"root: [~]\n", "want a value or a list of values"},
		{"state-dir: x\n", `unknown key "state-dir"; did you mean "state_dir"?`},
		{"? [a, b]\n: c\n", "unknown key"},
		{"? {a: b}\n: c\n", "unknown key"},
		{"name: >\n  a\n b: c\n", "config.yaml:"},
		{strings.Repeat("[", 20000), "config.yaml:1: exceeded max depth"},
	} {
		r := resolveFile(t, c.file)
		assert.Contains(t, says(r), c.says, c.file)
		assert.Equal(t, cli.ExitUsage, cli.Code(r.Err()))
		for _, p := range r.Problems {
			assert.NotEmpty(t, p.Remedy, c.file)
		}
	}
}

// A few lines that mean billions are refused without being written out.
func TestReferencesOfReferences(t *testing.T) {
	isolate(t)
	var b strings.Builder
	b.WriteString("exec_tools:\n- a: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "- a: &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	b.WriteString("rlimit: *a12\n")
	assert.Equal(t, "config.yaml:2:6: exec_tools: &a0: anchors are not read; leave it out\nconfig.yaml:15:9: rlimit: *a12: references are not read; write out what is meant\n",
		says(resolveFile(t, b.String())))
}

// What looks like a text is one.
func TestTextsOfYAML(t *testing.T) {
	home := isolate(t)
	for _, text := range []string{"no", "yes", "on", "off", "y", "012", "1.10", "2024-01-01", "12:30:45", "0x10", "true", "1e3", "=", "-1"} {
		r := resolveFile(t, "name: "+text+"\n")
		require.Empty(t, r.Problems, text)
		assert.Equal(t, text, r.Settings.Name)
	}
	r := resolveFile(t, "exec_tools: {name: a, command: [a], description: 2024-01-01}\n")
	require.Empty(t, r.Problems)
	assert.Contains(t, r.Settings.ExecTools[0], `"description":"2024-01-01"`)
	r = resolveFile(t, "\xef\xbb\xbfname: bom\r\nmax_sessions: 3\r\n")
	require.Empty(t, r.Problems)
	assert.Equal(t, "bom", r.Settings.Name)
	assert.Equal(t, 3, r.Settings.MaxSessions)
	r = resolveFile(t, "")
	require.Empty(t, r.Problems)

	r = resolveFile(t, "state_dir: \"~\"\nroot: [\"~:ro\", ~/a]\n")
	require.Empty(t, r.Problems)
	assert.Equal(t, home, r.Settings.StateDir)
	assert.Equal(t, []string{home + ":ro", filepath.Join(home, "a")}, r.Settings.Root)
	r = resolveArgs(t, "--state-dir=~/s", "--root=~/r")
	require.Empty(t, r.Problems, "a shell leaves these to the program")
	assert.Equal(t, filepath.Join(home, "s"), r.Settings.StateDir)
	assert.Equal(t, []string{filepath.Join(home, "r")}, r.Settings.Root)
	t.Setenv("HOME", "")
	r = resolveArgs(t, "--state-dir=~/s")
	assert.Contains(t, says(r), "HOME is not set; write the whole path")
}

// A number is one in flags too, where 010 would be eight.
func TestNumbersInFlags(t *testing.T) {
	given := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, &given)
	assert.ErrorContains(t, flags.Parse([]string{"--max-sessions", "010"}), "begins with 0")
	assert.ErrorContains(t, flags.Parse([]string{"--max-sessions", "ten"}), cli.WantNumber)
	require.NoError(t, flags.Parse([]string{"--max-sessions", "10", "--nice=-3", "--max-attempts=0"}))
	assert.Equal(t, []int{10, -3, 0}, []int{given.MaxSessions, given.Nice, given.MaxAttempts})
}

// All problems are found, in the order of the file, and a start says how many there are.
func TestEveryProblemIsFound(t *testing.T) {
	isolate(t)
	r := resolveFile(t, "brian: wss://x\nmax_sessions: 0\nname: ok\nlog_level: loud\nname: again\n", "--min-backoff=0s")
	assert.Equal(t, `config.yaml:1:1: unknown key "brian"; did you mean "brain"?
config.yaml:2:15: max_sessions: 0: want more than 0
config.yaml:4:12: log_level: "loud": want one of debug, info, warn, error
config.yaml:5:1: key name is in line 3 already; leave one out
--min-backoff: 0s: want more than 0
`, says(r))
	assert.Equal(t, "brain", r.Problems[0].Meant)
	assert.Equal(t, "want more than 0", r.Problems[1].Remedy)
	assert.ErrorContains(t, r.Err(), `config.yaml:1: unknown key "brian"; did you mean "brain"? (and 4 more: see executor config check)`)
}

// A file says what is run; nobody else may write it.
func TestFilesThatOthersCanChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	isolate(t)
	dir := filepath.Join(t.TempDir(), "etc")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "config.yaml")
	look := func(content string, mode, dirMode os.FileMode) *Resolved {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, os.Chmod(dir, dirMode))
		return resolveArgs(t, "--config", path)
	}
	for _, code := range []string{"token_command: echo x\n", "launch_prefix: [env]\n", "exec_tools: {name: a, command: [a]}\n"} {
		r := look("name: a\n"+code, 0o646, 0o755)
		require.Len(t, r.Problems, 1)
		assert.Contains(t, says(r), "config.yaml:2:1: "+strings.Split(code, ":")[0]+": this says what is run, and the file has mode 0646, so that everybody can change it; run: chmod go-w "+path)
		assert.Empty(t, look("name: a\n"+code, 0o644, 0o755).Problems, "the remedy helps")
		r = look(code, 0o644, 0o777)
		assert.Contains(t, says(r), "where everybody can replace it; run: chmod go-w "+dir)
		r = look(code, 0o664, 0o755)
		assert.Empty(t, r.Problems, "a group is chosen")
		assert.Len(t, r.Warnings, 1)
	}
	for _, guard := range []string{"trust: ask\n", "policy: {command: rm, action: deny}\n", "sandbox: auto\n", "run_as: nobody\n"} {
		r := look(guard, 0o666, 0o755)
		require.Len(t, r.Problems, 1)
		assert.Contains(t, says(r), "this says what may be done, and the file has mode 0666, so that everybody can change it; run: chmod go-w "+path)
		assert.Empty(t, look(guard, 0o644, 0o755).Problems)
	}
	r := look("name: a\n", 0o666, 0o755)
	assert.Empty(t, r.Problems)
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], "has mode 0666, so that everybody can change it; run: chmod go-w "+path)
	assert.Empty(t, look("name: a\n", 0o600, 0o755|os.ModeSticky).Warnings)
	assert.Empty(t, look("name: a\n", 0o600, 0o777|os.ModeSticky).Warnings, "as /tmp is")
}

func TestFilesThatAreNone(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	for _, c := range []struct{ path, says string }{
		{dir, "is not a file; name one with --config"},
		{os.DevNull, "is not a file"},
		{filepath.Join(dir, "none"), "does not exist; name another with --config, or make it with executor config init"},
		{"~nobody/x", "only ~/ is read"},
	} {
		began := time.Now()
		r := resolveArgs(t, "--config", c.path)
		require.Len(t, r.Problems, 1)
		assert.Contains(t, r.Err().Error(), c.says)
		assert.Less(t, time.Since(began), 10*time.Second)
	}
}

// Whatever is in the file, it is judged, within its lines.
func FuzzConfigFile(f *testing.F) {
	for _, text := range []string{"", "name: a\n", "root: [a, ~/b:ro]\n", "exec_tools:\n- {name: a, command: [b]}\n", "a: &b *b\n", "? x\n: y\n", "--- \n...\n", "\xff", "name: !!int 3\n<<: {}\n",
		"max_sessions: 010\r\n\tx", "launch_prefix: |\n  a\n  b\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := &Resolved{Settings: Default(), Origins: map[string]Origin{}}
		r.applyFile("config.yaml", raw)
		lines := 2 + strings.Count(string(raw), "\n") + strings.Count(string(raw), "\r") + strings.Count(string(raw), "\u0085") +
			strings.Count(string(raw), "\u2028") + strings.Count(string(raw), "\u2029") // all end a line there
		for _, p := range r.Problems {
			if p.Line < 1 || p.Line > max(lines, len(raw)) || p.Text == "" {
				t.Fatalf("%+v", p)
			}
		}
		if r.Err() == nil {
			_ = Show(r, io.Discard, false)
		}
	})
}
