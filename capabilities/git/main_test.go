//go:build unix

package git

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"GIT_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"} {
		os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}

// bench is a repository in a workspace, with a session in it.
type bench struct {
	t    testing.TB
	base string // the workspace is base/ws, the home base/home
	top  string // the workspace
	env  map[string]string
	*capabilitytest.Session
}

// newBench makes an empty repository and a session in it.
func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := newPlace(t)
	b.init()
	b.start(o)
	return b
}

// init makes the workspace a repository, as git init does. Git starts are what these
// tests take their time with.
func (b *bench) init() {
	b.t.Helper()
	for _, dir := range []string{"hooks", "info", "objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		require.NoError(b.t, os.MkdirAll(filepath.Join(b.top, ".git", dir), 0o755))
	}
	b.put(".git/HEAD", "ref: refs/heads/main\n")
	b.put(".git/config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n")
}

// first is a repository with one commit of a.txt, which holds "a\n".
var first struct {
	sync.Once
	files fs.FS
}

// commitFirst makes that the workspace's.
func (b *bench) commitFirst() {
	b.t.Helper()
	first.Do(func() {
		made := newPlace(b.t)
		made.init()
		made.put("a.txt", "a\n")
		made.git("add", "--", "a.txt")
		made.git("commit", "-q", "-m", "change a.txt")
		files := fstest.MapFS{}
		require.NoError(b.t, fs.WalkDir(os.DirFS(made.top), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || name == ".git/config" {
				return err
			}
			content, err := os.ReadFile(filepath.Join(made.top, name))
			files[name] = &fstest.MapFile{Data: content, Mode: 0o644}
			return err
		}))
		first.files = files
	})
	require.NoError(b.t, fs.WalkDir(first.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(first.files, name)
		b.put(name, string(content))
		return err
	}))
}

// newPlace makes an empty workspace.
func newPlace(t testing.TB) *bench {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := &bench{t: t, base: base, top: filepath.Join(base, "ws"), env: map[string]string{"HOME": filepath.Join(base, "home"), "XDG_CONFIG_HOME": ""}}
	require.NoError(t, os.Mkdir(b.top, 0o755))
	require.NoError(t, os.Mkdir(b.env["HOME"], 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.env["HOME"], ".gitconfig"), []byte("[user]\n\tname = A U Thor\n\temail = author@example.com\n[maintenance]\n\tauto = false\n[gc]\n\tauto = 0\n"), 0o600))
	return b
}

// start opens a session over roots, the workspace itself if there are none.
func (b *bench) start(o Options, roots ...capabilities.Root) {
	b.t.Helper()
	if o.LoginEnv == nil {
		o.LoginEnv = map[string]string{}
	}
	if len(roots) == 0 {
		roots = []capabilities.Root{{Path: b.top}}
	}
	w, err := capabilities.OpenWorkspace(b.top, roots)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { w.Close() })
	b.Session = capabilitytest.NewHost(b.t, New(o)).NewSession(b.t, capabilitytest.Options{Workspace: w, Env: b.env})
}

// git runs git past the tool, in the workspace.
func (b *bench) git(args ...string) string { return b.gitIn(b.top, args...) }

func (b *bench) gitIn(dir string, args ...string) string {
	b.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+b.env["HOME"], "GIT_CONFIG_NOSYSTEM=1", "XDG_CONFIG_HOME=", "GIT_EDITOR=true")
	out, err := c.CombinedOutput()
	require.NoError(b.t, err, "git %v: %s", args, out)
	return string(out)
}

// sh runs a script in the workspace, in which OUT is a directory.
func (b *bench) sh(out, script string) string {
	b.t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir = b.top
	c.Env = append(os.Environ(), "HOME="+b.env["HOME"], "GIT_CONFIG_NOSYSTEM=1", "XDG_CONFIG_HOME=", "OUT="+out, "PWD="+b.top)
	text, err := c.CombinedOutput()
	require.NoError(b.t, err, "%s: %s", script, text)
	return string(text)
}

// put writes a file.
func (b *bench) put(name, content string) string {
	b.t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(b.top, name)
	}
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// commit commits a file past the tool.
func (b *bench) commit(name, content string) {
	b.t.Helper()
	if _, err := os.Lstat(filepath.Join(b.top, ".git/refs/heads/main")); err != nil && name == "a.txt" && content == "a\n" {
		b.commitFirst()
		return
	}
	b.put(name, content)
	b.git("add", "--", name)
	b.git("commit", "-q", "-m", "change "+name)
}

// history makes n commits at once, of notes.txt with a line that counts from 0.
func (b *bench) history(n int) {
	b.t.Helper()
	var in strings.Builder
	for i := range n {
		text := fmt.Sprintf("line %d\n", i)
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 6\nchange\nM 100644 inline notes.txt\ndata %d\n%s\n", 1700000000+i, len(text), text)
	}
	c := exec.Command("git", "fast-import", "--quiet")
	c.Dir, c.Stdin = b.top, strings.NewReader(in.String())
	out, err := c.CombinedOutput()
	require.NoError(b.t, err, "%s", out)
	b.git("reset", "-q", "--hard")
}

// script makes a program that leaves a file behind when it is run, and returns both.
func (b *bench) script(name string) (program, sentinel string) {
	b.t.Helper()
	sentinel = filepath.Join(b.base, "ran-"+name)
	program = b.put(filepath.Join(b.base, "evil-"+name), fmt.Sprintf("#!/bin/sh\necho run >>'%s'\nexit 0\n", sentinel))
	require.NoError(b.t, os.Chmod(program, 0o755))
	return program, sentinel
}

type obj = map[string]any

// answer is a tool.result as a brain reads it.
type answer struct {
	protocol.ToolResultParams
	text   string
	fields obj
}

func (b *bench) callContext(ctx context.Context, subcommand string, args ...string) answer {
	b.t.Helper()
	if args == nil {
		args = []string{}
	}
	r, err := capabilitytest.CallContext(ctx, b.t, b.Session, "git", obj{"subcommand": subcommand, "args": args})
	require.NoError(b.t, err)
	a := answer{ToolResultParams: r}
	for _, c := range r.Content {
		a.text += c.Text + "\n"
	}
	if r.Structured != nil {
		require.NoError(b.t, json.Unmarshal(r.Structured, &a.fields))
	}
	assert.LessOrEqual(b.t, len(a.text), protocol.DefaultInlineResult+4096)
	return a
}

func (b *bench) call(subcommand string, args ...string) answer {
	b.t.Helper()
	return b.callContext(context.Background(), subcommand, args...)
}

// works wants the call to succeed and returns its text.
func (b *bench) works(subcommand string, args ...string) string {
	b.t.Helper()
	a := b.call(subcommand, args...)
	require.Equal(b.t, protocol.OutcomeSucceeded, a.Outcome, "git %s %q: %s", subcommand, args, a.text)
	require.False(b.t, a.IsError)
	return a.text
}

// refused wants the call to fail for that reason and returns what it says.
func (b *bench) refused(reason, subcommand string, args ...string) string {
	b.t.Helper()
	a := b.call(subcommand, args...)
	require.Equal(b.t, protocol.OutcomeFailed, a.Outcome, "git %s %q: %s", subcommand, args, a.text)
	assert.Equal(b.t, reason, a.Error.Reason, "git %s %q: %s", subcommand, args, a.Error.Message)
	return a.Error.Message
}

func absent(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	assert.ErrorIs(t, err, os.ErrNotExist, "%s: %s", path, content)
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// gitMayFail runs git past the tool, with whatever the repository says.
func (b *bench) gitMayFail(dir string, args ...string) {
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+b.env["HOME"], "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true")
	_ = c.Run()
}
