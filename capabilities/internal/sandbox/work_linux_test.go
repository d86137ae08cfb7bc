//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/internal/sandbox"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// work is what developers do all day. A line runs where its program is there.
var work = []struct{ needs, script, says string }{
	{"sh", `echo "$HOME"; echo x > "$HOME/y"; cat "$HOME/y"; mktemp; t=$(mktemp) && echo in > $t && cat $t`, "in"},
	{"bash", `diff <(echo a) <(echo a) && cat <<EOF
here
EOF`, "here"},
	{"bash", `echo hi > /dev/null; head -c4 /dev/urandom | wc -c; (sleep 0.01 & wait); ulimit -n > n && cat n; ls /usr/bin > list; echo done`, "done"},
	{"bash", `sleep 1000 & p=$!; kill $p; wait $p; echo code $?`, "code 143"},
	{"bash", `(trap 'echo got; exit 0' USR1; kill -USR1 $BASHPID; sleep 5)`, "got"},
	{"git", `git init -q repo && cd repo && echo a > f && git add . && git commit -q -m first && printf '#!/bin/sh\necho hook ran\n' > .git/hooks/post-commit && chmod +x .git/hooks/post-commit
echo b >> f && git commit -qam second 2>&1 && cd .. && git clone -q repo copy && cd copy && git log --oneline | wc -l && git config user.name`, "hook ran"},
	{"git", `cd copy && git checkout -q -b x && git mv f g && git commit -qm moved && git gc -q && git stash list && git worktree add -q ../tree && ls ../tree`, "g"},
	{"go", `mkdir -p gomod && cd gomod && printf 'module example.com/x\n\ngo 1.24\n' > go.mod && printf 'package main\n\nfunc main() { println("built") }\n' > main.go && go build -o x . && ./x`, "built"},
	{"npm", `mkdir -p node/lib && cd node && echo '{"name":"x","version":"1.0.0","scripts":{"hi":"node -e \"require(\\\"child_process\\\").execSync(\\\"echo from node\\\",{stdio:\\\"inherit\\\"})\""}}' > package.json &&
echo '{"name":"dep","version":"1.0.0"}' > lib/package.json && npm install --offline --no-audit --no-fund ./lib && npm run -s hi && ls node_modules`, "from node"},
	{"python3", `python3 -m venv --without-pip venv && venv/bin/python -c 'import subprocess,tempfile,sys; f=tempfile.NamedTemporaryFile(); print(subprocess.check_output(["echo","venv works"]).decode(), sys.prefix)'`, "venv works"},
	{"gcc", `printf 'int main(){return 7;}\n' > c.c && gcc -o c c.c && ./c; echo returned $?`, "returned 7"},
	{"make", `printf 'all:\n\t@echo made\n' > Makefile && make -s`, "made"},
	{"tar", `tar cf a.tar list && gzip -f a.tar && tar xzf a.tar.gz && touch -d 2001-01-01 list && chmod 600 list && mv list list2 && ln list2 list3 && rm list2 && echo packed`, "packed"},
	{"curl", `curl --version | head -1`, "curl"},
}

// Ordinary commands work as they do without a sandbox.
func TestDevelopersWork(t *testing.T) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	cache := t.TempDir() // the compiler's, for all of them
	all := os.Getenv("EXECUTOR_STRESS") != ""
	for i, mode := range modes(t) {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, mode, sandbox.Open)
			w.policy.Roots = append(w.policy.Roots, sandbox.Root{Path: cache})
			t.Setenv("GOCACHE", cache)
			if dir := filepath.Join(home, ".pyenv"); exists(dir) { // where python is on some machines
				w.policy.Read = append(w.policy.Read, dir)
			}
			w.confine(spawn.Launch{})
			ran := 0
			for _, c := range work {
				if _, err := exec.LookPath(c.needs); err != nil || !all && (c.needs == "go" || c.needs == "npm" && i > 0) { // which take long
					continue
				}
				ran++
				out, code := w.run("", "bash", "-c", c.script)
				assert.Contains(t, out, c.says, "%s exited with %d: %s", c.needs, code, c.script)
				if c.needs != "bash" {
					assert.Zero(t, code, "%s: %s", c.script, out)
				}
			}
			assert.Greater(t, ran, 5)
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Commands of one executor see what others of it have left, and can end it.
func TestCommandsShareTheirSandbox(t *testing.T) {
	for _, mode := range modes(t) {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, mode, sandbox.Open)
			w.confine(spawn.Launch{})
			out, code := w.run("", "sh", "-c", `echo kept > $TMPDIR/f; echo at home > ~/f; sleep 1000 >/dev/null 2>&1 & echo $!`)
			require.Zero(t, code)
			pid := strings.TrimSpace(out)
			out, code = w.run("", "sh", "-c", `cat $TMPDIR/f ~/f; kill `+pid+` && echo ended`)
			assert.Zero(t, code, out)
			assert.Equal(t, "kept\nat home\nended\n", out)
			out, _ = w.run("", "sh", "-c", `cat ~/.gitconfig; ls -A ~/.local`)
			assert.Contains(t, out, "a@example.com")
			assert.Contains(t, out, "bin")
			_, code = w.run("", "sh", "-c", `exit 3`)
			assert.Equal(t, 3, code)
			_, code = w.run("", "sh", "-c", `kill -9 $$`)
			assert.Equal(t, 137, code)
		})
	}
}

// What the executor is asked to run can be another user's, limited and behind a prefix, in a sandbox too.
func TestSandboxWithOtherSettings(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("takes root")
	}
	for _, mode := range modes(t) {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, mode, sandbox.Open)
			for dir := filepath.Dir(w.target.Root); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
				require.NoError(t, os.Chmod(dir, 0o755))
			}
			require.NoError(t, os.Chown(w.target.Root, 65534, 65534))
			w.confine(spawn.Launch{RunAs: &spawn.RunAs{User: "65534", Group: "65534"}, Prefix: []string{"env", "PREFIXED=yes"}})
			out, code := w.run("", "sh", "-c", `id -u; echo $PREFIXED; echo a > mine && cat mine; echo b > $TMPDIR/x && cat $TMPDIR/x; cat /proc/$PPID/environ`)
			assert.NotZero(t, code)
			assert.Contains(t, out, "65534\nyes\na\nb\n")
			assert.NotContains(t, out, secret)

			limit, err := spawn.ParseLimit("nofile=77")
			require.NoError(t, err)
			w = newWorld(t, mode, sandbox.Open)
			w.confine(spawn.Launch{Limits: []spawn.Limit{limit}, Nice: 3})
			out, _ = w.run("", "sh", "-c", `ulimit -n; nice; ulimit -n 70; ulimit -n`)
			assert.Equal(t, "77\n3\n70\n", out)
		})
	}
}

// Loopback is a network of the commands' own.
func TestLoopback(t *testing.T) {
	for _, mode := range modes(t) {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, mode, sandbox.Loopback)
			if _, err := sandbox.New(w.policy); err != nil {
				t.Skip(err)
			}
			w.confine(spawn.Launch{})
			host, port, _ := strings.Cut(w.target.TCP, ":")
			out, _ := w.run("", "bash", "-c", fmt.Sprintf(`(exec 3<>/dev/tcp/%s/%s) 2>/dev/null && echo reached || echo not reached`, host, port))
			assert.Equal(t, "not reached\n", out)
			if _, err := exec.LookPath("python3"); err == nil {
				out, _ = w.run("", "bash", "-c", `/usr/bin/python3 -c 'import socket; s=socket.create_server(("127.0.0.1",0)); c=socket.create_connection(s.getsockname()); print("own")'`)
				assert.Equal(t, "own\n", out)
			}
		})
	}
}

// What a life has left is gone in the next, also what cannot be removed at once; nothing is started when the
// sandbox is not open.
func TestSandboxLives(t *testing.T) {
	mode := modes(t)[0]
	w := newWorld(t, mode, sandbox.Open)
	w.policy.Mode = mode
	state := t.TempDir()
	k := spawn.NewKeeper(spawn.Options{})
	require.NoError(t, k.Configure(spawn.Launch{Sandbox: &w.policy}))
	_, err := k.NewGroup().Start(spawn.Command{Argv: []string{"/bin/true"}})
	assert.ErrorContains(t, err, "sandbox")
	require.NoError(t, k.Open(state).Sandbox)
	dir := filepath.Dir(k.Scratch())
	assert.DirExists(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(k.Scratch(), "a", "b"), 0o700))
	require.NoError(t, os.Symlink(w.target.Outside, filepath.Join(k.Scratch(), "a", "link")))
	require.NoError(t, os.Chmod(filepath.Join(k.Scratch(), "a"), 0o500))
	late := k.NewGroup()
	assert.Empty(t, k.Close())
	assert.NoDirExists(t, dir)
	assert.FileExists(t, filepath.Join(w.target.Outside, "precious"))
	_, err = late.Start(spawn.Command{Argv: []string{"/bin/true"}})
	assert.ErrorContains(t, err, "sandbox")
	late.Close(0)

	k = spawn.NewKeeper(spawn.Options{})
	require.NoError(t, k.Configure(spawn.Launch{Sandbox: &w.policy}))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // somebody has taken the name
	assert.ErrorContains(t, k.Open(state).Sandbox, "remove it")
	_, err = k.NewGroup().Start(spawn.Command{Argv: []string{"/bin/true"}})
	assert.ErrorContains(t, err, "sandbox")
	assert.Empty(t, k.Close())
	require.NoError(t, os.Remove(dir))
}

// What cannot be enforced is an error that says what is missing.
func TestNotEnforceable(t *testing.T) {
	dir := t.TempDir()
	root := []sandbox.Root{{Path: dir}}
	for _, c := range []struct {
		policy sandbox.Policy
		says   string
	}{
		{sandbox.Policy{}, "--root"},
		{sandbox.Policy{Roots: []sandbox.Root{{Path: "/"}}}, "root /"},
		{sandbox.Policy{Roots: []sandbox.Root{{Path: dir + "/nowhere"}}}, "nowhere"},
		{sandbox.Policy{Roots: root, Read: []string{dir + "/nowhere"}}, "sandbox_read"},
		{sandbox.Policy{Roots: root, Network: "some"}, "sandbox network"},
		{sandbox.Policy{Roots: root, Mode: "box"}, "want one of auto"},
		{sandbox.Policy{Roots: root, Hidden: []string{dir}}, "name another root"},
		{sandbox.Policy{Roots: root, Mode: sandbox.Landlock, Hidden: []string{dir + "/state"}}, "inside of the other"},
	} {
		_, err := sandbox.New(c.policy)
		assert.ErrorContains(t, err, c.says)
	}
}
