package agent

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// examine runs one of the doctor's checks.
func examine(t *testing.T, r *config.Resolved, name string) doctor.Result {
	t.Helper()
	for _, c := range Checks(r, cli.NewRedactor(io.Discard)) {
		if c.Name == name {
			return c.Run(t.Context())
		}
	}
	t.Fatalf("there is no check %s", name)
	return doctor.Result{}
}

func assertResult(t *testing.T, r doctor.Result, status doctor.Status, text, remedy string) {
	t.Helper()
	assert.Equal(t, status, r.Status, r.Text)
	assert.Contains(t, r.Text, text)
	assert.Contains(t, r.Remedy, remedy)
}

func TestDoctorLooksAtTheConfiguration(t *testing.T) {
	home := configtest.Isolate(t)
	assertResult(t, examine(t, configtest.ResolveFile(t, "brian: x\n"), "configuration"), doctor.Fail, `config.yaml:1:1: unknown key "brian"; did you mean "brain"?`, "executor config check")
	r := examine(t, configtest.ResolveFile(t, "brian: x\nmax_sessions: 0\n"), "configuration")
	assertResult(t, r, doctor.Fail, "2 problems", "correct it")
	assert.Len(t, r.Details, 2)
	assertResult(t, examine(t, configtest.ResolveFile(t, "name: x\n"), "configuration"), doctor.Fail, "no brain to connect to", "correct it")
	// What has a check of its own is said there.
	r = examine(t, configtest.ResolveFile(t, "brain: ws://127.0.0.1:1/\ntoken_file: none\nroot: none\nstate_dir: /dev/null/x\n"), "configuration")
	assert.Equal(t, doctor.OK, r.Status, r.Text)
	bad := configtest.ResolveFile(t, "brain: ws://127.0.0.1:1/\n")
	bad.Warn("unknown variable EXECUTOR_BRIAN is ignored; did you mean EXECUTOR_BRAIN?")
	assertResult(t, examine(t, bad, "configuration"), doctor.Warn, "unknown variable EXECUTOR_BRIAN", "correct it")
	assertResult(t, examine(t, configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/", "--root", home), "configuration"), doctor.OK, "no file; 2 settings", "")
}

// Each remedy is tried: it helps.
func TestDoctorLooksAtTheTokenFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	home := configtest.Isolate(t)
	token := filepath.Join(home, "token")
	look := func() doctor.Result {
		return examine(t, configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/", "--token-file", token), "token file")
	}
	assertResult(t, look(), doctor.Fail, "token file "+token+" does not exist", "put the brain's token into it, mode 0600")
	require.NoError(t, os.WriteFile(token, []byte("short"), 0o600))
	assertResult(t, look(), doctor.Fail, "has a token of less than 16 characters", "use one that cannot be guessed")
	require.NoError(t, os.WriteFile(token, []byte(configtest.Token), 0o600))
	require.NoError(t, os.Chmod(token, 0o644))
	assertResult(t, look(), doctor.Warn, "has mode 0644, so that others can use the token", "chmod 600 "+token)
	require.NoError(t, os.Chmod(token, 0o600))
	assertResult(t, look(), doctor.OK, token+", for this user only", "")
	assert.Equal(t, doctor.Skip, examine(t, configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/"), "token file").Status)
}

func TestDoctorLooksAtTheStateDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	home := configtest.Isolate(t)
	dir := filepath.Join(home, "state")
	look := func() doctor.Result { return examine(t, configtest.Resolve(t, "--state-dir", dir), "state directory") }
	assertResult(t, look(), doctor.OK, dir+", which will be made; no executor runs", "")
	assert.NoDirExists(t, dir, "nothing is made")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	assertResult(t, look(), doctor.Fail, dir+" is not a directory", "name another with --state-dir")
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Mkdir(dir, 0o755))
	assertResult(t, look(), doctor.Warn, "has mode 0755, so that others can look into it", "chmod 700 "+dir)
	require.NoError(t, os.Chmod(dir, 0o700))
	assertResult(t, look(), doctor.OK, dir+"; no executor runs", "")
	lock, _, err := cli.LockState(dir, "executor")
	require.NoError(t, err)
	assertResult(t, look(), doctor.OK, "an executor runs, pid ", "")
	require.NoError(t, lock.Close())
	if runtime.GOOS == "linux" {
		dir = "/proc/x"
		assertResult(t, look(), doctor.Fail, "/proc is the system's own (proc), and keeps no files", "name another with --state-dir")
	}
}

// Little room is a warning that says what happens then: the executor works on.
func TestDoctorLooksAtTheRoom(t *testing.T) {
	assertResult(t, doctor.Space(t.Context(), t.TempDir(), "--state-dir", "what then", 1<<62, 0), doctor.Warn, "free; what then", "name another place with --state-dir")
	assertResult(t, doctor.Space(t.Context(), t.TempDir(), "--state-dir", "what then", 1<<62, 1<<61), doctor.Fail, "that are needed", "make room")
}

func TestDoctorLooksAtTheRoots(t *testing.T) {
	home := configtest.Isolate(t)
	root := filepath.Join(home, "work")
	look := func(args ...string) doctor.Result { return examine(t, configtest.Resolve(t, args...), "roots") }
	assertResult(t, look("--root", root), doctor.Fail, "root "+root+" does not exist", "make it, or name another with --root")
	require.NoError(t, os.Mkdir(root, 0o700))
	assertResult(t, look("--root", root, "--root", root+":ro"), doctor.OK, root+"; "+root+":ro", "")
	assertResult(t, look("--root", root, "--root", home+"/none"), doctor.Fail, "none does not exist", "make it")
	assertResult(t, look("--root", home), doctor.Warn, "has much more in it than work", "name the directory of the project")
	assertResult(t, look("--root", root, "--state-dir", root+"/state"), doctor.Warn, "is inside the root", "--state-dir")
}

func TestDoctorLooksAtCommands(t *testing.T) {
	configtest.Isolate(t)
	assertResult(t, examine(t, configtest.Resolve(t), "sandbox"), doctor.OK, "commands may do what the user they run as may", "")
	assertResult(t, examine(t, configtest.Resolve(t, "--launch-prefix", "no-such-sandbox"), "sandbox"), doctor.Fail, "no-such-sandbox, which is not there", "correct launch_prefix")
	assertResult(t, examine(t, configtest.Resolve(t, "--launch-prefix", "env"), "sandbox"), doctor.OK, "commands are started through ", "")
	assertResult(t, examine(t, configtest.Resolve(t, "--sandbox-network", "none"), "sandbox"), doctor.Fail, "there is no sandbox", "turn it on with --sandbox auto")
	r := examine(t, configtest.Resolve(t, "--sandbox", "landlock", "--root", t.TempDir()), "sandbox")
	if r.Status == doctor.OK {
		assert.NotEmpty(t, r.Details, "what is enforced is said")
	} else {
		assertResult(t, r, doctor.Fail, "", "")
		assert.NotEmpty(t, r.Remedy)
	}
	r = examine(t, configtest.Resolve(t), "child processes")
	assert.Contains(t, []doctor.Status{doctor.OK, doctor.Warn}, r.Status)
	assert.NotEmpty(t, r.Details)
	assertResult(t, judgeChildren(standard.Means{NoCgroup: "it is read-only"}), doctor.Warn, "there is no control group for commands here: it is read-only", "Delegate=yes: executor service install")
	assertResult(t, judgeChildren(standard.Means{NoCgroup: "it is read-only", Labels: true, Adoption: true}), doctor.OK, "commands are found by labels and adoption", "")
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"git", "ripgrep", "python"} {
		assertResult(t, examine(t, configtest.Resolve(t), name), doctor.Warn, "there is none", "install ")
	}
	assertResult(t, examine(t, configtest.Resolve(t), "shell"), doctor.Fail, "there is no bash in the PATH", "--capabilities=-shell")
}

// A certificate that the brain is shown is looked at, and shown by the doctor too.
func TestDoctorLooksAtTheClientCertificate(t *testing.T) {
	configtest.Isolate(t)
	assertResult(t, examine(t, configtest.Resolve(t, "--brain", "wss://h/", "--client-cert", "/none", "--client-key", "/none"), "configuration"),
		doctor.Fail, "client_cert and client_key", "correct it")
	r := configtest.Resolve(t, "--brain", "wss://h/", "--client-key", "/none")
	Check(r)
	require.NotEmpty(t, r.Problems)
	assert.Equal(t, "client_key", r.Problems[0].Key)
	assert.Contains(t, r.Problems[0].Remedy, "--client-cert FILE")
}

// The brain's side of the doctor has tests of its own; here it is which checks there are.
func TestDoctorChecksEachBrain(t *testing.T) {
	home := configtest.Isolate(t)
	names := func(args ...string) string {
		var list []string
		for _, c := range Checks(configtest.Resolve(t, args...), cli.NewRedactor(io.Discard)) {
			list = append(list, c.Name)
		}
		text := strings.Join(list, ", ")
		text, _, _ = strings.Cut(strings.TrimPrefix(text, "configuration, token file, "), "state directory")
		return text
	}
	token := filepath.Join(home, "token")
	require.NoError(t, os.WriteFile(token, []byte(configtest.Token), 0o600))
	const all = "token, name resolution, TCP, proxy, TLS, WebSocket upgrade, registration, clock, "
	assert.Equal(t, all, names("--brain", "wss://a/"))
	assert.Equal(t, all, names("--base-url", "https://a", "--environment", "e", "--environment-key-file", token))
	assert.Contains(t, names("--brain", "wss://a/", "--brain", "wss://b/"), "token (1: a), name resolution (1: a), ")
	assert.Contains(t, names("--brain", "wss://a/", "--brain", "wss://b/"), "registration (2: b)")
	assert.Equal(t, "socket, ", names("--brain", "unix+listen:///run/x", "--token-file", token))
	assert.Equal(t, "token, socket, WebSocket upgrade, registration, ", names("--brain", "unix:///run/x"))
	assert.Equal(t, "", names("--brain", "http://a"))
	assert.Equal(t, "", names())
	assertResult(t, checkListen(filepath.Join(home, "no", "socket")), doctor.Fail, "cannot be made", "make the directory")
	assertResult(t, checkListen(filepath.Join(home, "socket")), doctor.OK, "can be made; the brain dials it", "")
}

func TestCheckMCPServers(t *testing.T) {
	s := config.Default()
	assert.Equal(t, doctor.Skip, checkMCPServers(&s).Status)
	s.MCPServers = []string{`[{"server_key":"a","transport":{"command":"sh"}},{"server_key":"b","transport":{"url":"http://u:geheim@127.0.0.1/mcp?key=geheim"}},{"server_key":"c","transport":{"command":"./srv"}}]`}
	r := checkMCPServers(&s)
	assert.Equal(t, doctor.OK, r.Status)
	s.MCPServers = append(s.MCPServers, `{"server_key":"d","transport":{"command":"no-such-program-7"}}`)
	r = checkMCPServers(&s)
	assert.Equal(t, doctor.Fail, r.Status)
	all := r.Text
	for _, d := range r.Details {
		all += "\n" + d
	}
	assert.Contains(t, all, "d: no-such-program-7 is not there")
	assert.NotContains(t, all, "geheim")
}
