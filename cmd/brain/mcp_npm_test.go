//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest/npm"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/executor"
)

// withTools runs an executor with all tools.
func withTools(r *running) (dir string) {
	dir, err := filepath.EvalSymlinks(r.t.TempDir())
	require.NoError(r.t, err)
	roots := []capabilities.Root{{Path: dir}}
	ex, err := executor.New(executor.Options{
		URL:        "ws://" + r.addr + "/executor",
		Token:      func(context.Context) (string, error) { return testToken, nil },
		Name:       "one",
		Workspace:  executor.Workspace{Roots: roots},
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(r.t, err)
	require.NoError(r.t, ex.Register(standard.All(standard.Config{Roots: roots})...))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = ex.Run(ctx)
	}()
	r.t.Cleanup(func() { cancel(); <-ran })
	require.Eventually(r.t, func() bool { return len(r.brain.Executors()) == 1 && r.brain.Executors()[0].Connected() }, 10*time.Second, 5*time.Millisecond)
	return dir
}

// program is a script that runs this test binary as the program brain.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "brain")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nBRAIN_TEST_PROGRAM=1 exec '"+self+"' \"$@\"\n"), 0o700))
	return path
}

// listening is brain mcp --listen.
func listening(t *testing.T, r *running, more ...string) (url, token string, stop func()) {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"mcp", "--state-dir", r.dir, "--listen", "127.0.0.1:0"}, more...)...)
	out, says := listenFor("clients send")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	require.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); r.ending.Err() == nil {
			assert.NoError(t, err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-says:
	case <-time.After(30 * time.Second):
		t.Fatal("brain mcp --listen says nothing")
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	_, rest, _ := strings.Cut(out.text.String(), " at ")
	url, _, _ = strings.Cut(rest, "\n")
	raw, err := os.ReadFile(filepath.Join(r.dir, "mcp-token"))
	require.NoError(t, err)
	return url, strings.TrimSpace(string(raw)), stop
}

// typescript runs the client of the TypeScript SDK.
func typescript(t *testing.T, peers npm.Installed, args ...string) map[string]any {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("testdata/client.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client.mjs"), script, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(peers.Dir, "node_modules"), filepath.Join(dir, "node_modules")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, peers.Node, append([]string{filepath.Join(dir, "client.mjs")}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var report map[string]any
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	return report
}

func checkReport(t *testing.T, report map[string]any, dir string) {
	t.Helper()
	assert.Empty(t, report["failed"])
	assert.Subset(t, report["called"], report["tools"], "every tool was called")
	assert.GreaterOrEqual(t, len(report["tools"].([]any)), 20)
	assert.Equal(t, "yes", report["cancelled"])
	progress := ""
	last := 0.0
	for _, p := range report["progress"].([]any) {
		p := p.(map[string]any)
		progress += p["message"].(string) + "\n"
		assert.Greater(t, p["progress"], last)
		last = p["progress"].(float64)
	}
	assert.True(t, strings.HasPrefix("line 1\nline 2\nline 3\n", progress), progress) // the last may be overtaken by the result
	assert.Greater(t, last, 1.0, "not all at once")
	assert.Contains(t, report["wrong"], "path")
	assert.Contains(t, report["unknown"], "no_such")
	assert.Equal(t, []any{"pid"}, report["resources"])
	assert.Equal(t, []any{"file:///{+path}"}, report["templates"])
	raw, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	assert.Equal(t, string(raw), report["read"])
}

func TestTypeScriptClient(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs from npm")
	}
	t.Parallel()
	peers := npm.Peers(t)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		r := startServer(t)
		dir := withTools(r)
		checkReport(t, typescript(t, peers, "stdio", program(t), "mcp", "--state-dir", r.dir), dir)
		r.noSessions()
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		r := startServer(t)
		dir := withTools(r)
		url, token, _ := listening(t, r)
		checkReport(t, typescript(t, peers, "http", url, token), dir)
		r.noSessions()
	})
}

// noSessions waits until no session is left.
func (r *running) noSessions() {
	r.t.Helper()
	assert.Eventually(r.t, func() bool { return len(r.sessions()) == 0 }, 20*time.Second, 10*time.Millisecond)
}

func TestInspector(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs from npm")
	}
	t.Parallel()
	peers := npm.Peers(t)
	r := startServer(t)
	dir := withTools(r)
	url, token, _ := listening(t, r)
	home := t.TempDir()
	inspect := func(t *testing.T, args ...string) (out, errs string) {
		cmd := exec.Command(peers.Node, append([]string{peers.Program("mcp-inspector"), "--cli"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		err := cmd.Run()
		require.NoError(t, err, e.String())
		return o.String(), e.String()
	}
	for name, args := range map[string][]string{
		"list": {program(t), "mcp", "--state-dir", r.dir, "--method", "tools/list", "--strict"},
		"call": {"--server-url", url, "--transport", "http", "--header", "Authorization: Bearer " + token,
			"--method", "tools/call", "--tool-name", "write", "--tool-args-json", `{"path":"x.txt","content":"from the inspector\n"}`},
		"templates": {"--server-url", url, "--transport", "http", "--header", "Authorization: Bearer " + token, "--method", "resources/templates/list"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "templates" && os.Getenv("EXECUTOR_STRESS") == "" {
				t.Skip("TestTypeScriptClient asks for them too, and the inspector takes a second to start")
			}
			t.Parallel()
			out, errs := inspect(t, args...)
			switch name {
			case "list":
				var list struct {
					Tools []struct {
						Name        string         `json:"name"`
						InputSchema map[string]any `json:"inputSchema"`
					} `json:"tools"`
				}
				require.NoError(t, json.Unmarshal([]byte(out), &list))
				assert.GreaterOrEqual(t, len(list.Tools), 20)
				assert.Empty(t, errs, "it finds no fault with the schemas")
			case "call":
				raw, err := os.ReadFile(filepath.Join(dir, "x.txt"))
				require.NoError(t, err)
				assert.Equal(t, "from the inspector\n", string(raw))
				assert.Contains(t, out, "Created x.txt")
			case "templates":
				assert.Contains(t, out, "file:///{+path}")
			}
		})
	}
}

// TestInspectorCallsEveryTool takes a while, since the inspector is started for each call. Each has a session
// of its own, so that there is no task to ask for.
func TestInspectorCallsEveryTool(t *testing.T) {
	if os.Getenv("EXECUTOR_STRESS") == "" {
		t.Skip("EXECUTOR_STRESS is not set")
	}
	peers := npm.Peers(t)
	r := startServer(t)
	dir := withTools(r)
	url, token, _ := listening(t, r, "--idle", "5s") // the inspector says no goodbye
	home := t.TempDir()
	called := map[string]bool{}
	for _, call := range [][3]string{
		{"mkdir", `{"path":"d"}`}, {"write", `{"path":"d/a.txt","content":"one\ntwo\n"}`}, {"read", `{"path":"d/a.txt"}`, "two"},
		{"edit", `{"path":"d/a.txt","old_string":"two","new_string":"2"}`}, {"multi_edit", `{"edits":[{"path":"d/a.txt","old_string":"one","new_string":"1"}]}`},
		{"copy", `{"from":"d/a.txt","to":"d/b.txt"}`}, {"move", `{"from":"d/b.txt","to":"d/c.txt"}`}, {"set_executable", `{"path":"d/c.txt","executable":true}`},
		{"stat", `{"path":"d/c.txt"}`}, {"list_files", `{"path":"d"}`, "c.txt"}, {"glob", `{"pattern":"**/*.txt"}`, "a.txt"}, {"grep", `{"pattern":"^2$"}`, "a.txt"},
		{"diff", `{"path_a":"d/a.txt","content_b":"1\n"}`, "-2"}, {"delete", `{"path":"d/c.txt"}`}, {"bash", `{"command":"git init -q . && echo done"}`, "done"},
		{"git", `{"subcommand":"status"}`, "No commits yet"}, {"run_shell", `{"command":"cd d && pwd"}`, "/d"}, {"shell_task_list", `{}`},
		{"shell_task_output", `{"task_id":"none"}`, "none"}, {"shell_task_kill", `{"task_id":"none"}`, "none"},
	} {
		cmd := exec.Command(peers.Node, peers.Program("mcp-inspector"), "--cli", "--server-url", url, "--transport", "http", "--header", "Authorization: Bearer "+token,
			"--method", "tools/call", "--tool-name", call[0], "--tool-args-json", call[1])
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(call[1], `"none"`) { // which is an error, and the inspector says so
			assert.NoError(t, err, "%s: %s", call[0], out)
		}
		assert.Contains(t, string(out), call[2], call[0])
		called[call[0]] = true
	}
	tools, err := r.brain.Executors()[0].Capabilities().Tools()
	require.NoError(t, err)
	for _, tool := range tools {
		assert.True(t, called[tool.Name], "%s was not called", tool.Name)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "d", "a.txt"))
	require.NoError(t, err)
	assert.Equal(t, "1\n2\n", string(raw))
}
