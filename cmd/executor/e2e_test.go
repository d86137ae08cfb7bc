package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// The tests of this file run both programs as processes on loopback.

// programs are built by the first test that needs them.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "executor-e2e-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "github.com/agent-executor/executor/cmd/executor", "github.com/agent-executor/executor/cmd/brain").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

var builtIn string

func TestMain(m *testing.M) {
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		playRole(role)
	}
	if os.Getenv("MCP_ROLE") != "" {
		playMCPTools()
	}
	os.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// site is the directories of one test: home, state, workspace.
type site struct {
	t    *testing.T
	bin  string
	home string
	work string
	addr string // of the brain that was started last
	env  []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes")
	}
	if runtime.GOOS == "windows" {
		t.Skip("signals")
	}
	t.Parallel()
	bin, err := programs()
	require.NoError(t, err)
	home, err := os.MkdirTemp("", "e2e") // short: of the control socket's path
	require.NoError(t, err)
	t.Cleanup(func() {
		tidy(home)
		_ = os.RemoveAll(home)
	})
	s := &site{t: t, bin: bin, home: home, work: filepath.Join(home, "work")}
	require.NoError(t, os.Mkdir(s.work, 0o700))
	return s
}

func (s *site) tokenFile() string { return filepath.Join(s.home, "state", "brain", "token") }

// program is a running process.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr lockedBuffer
	ended          chan struct{}
}

func (s *site) start(name string, args ...string) *program {
	s.t.Helper()
	p := &program{t: s.t, cmd: exec.Command(filepath.Join(s.bin, name), args...), ended: make(chan struct{})}
	p.cmd.Dir = s.work
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "SHELL=/bin/sh", "TMPDIR=" + s.work,
		"XDG_STATE_HOME=" + filepath.Join(s.home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(s.home, "config")}
	p.cmd.Env = append(p.cmd.Env, s.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(s.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if s.t.Failed() {
			s.t.Logf("%s %s\nstdout: %s\nstderr: %s", name, strings.Join(args, " "), p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// exit waits for the end and returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%s did not end", p.cmd.Path)
		return -1
	}
}

// says waits until the program has printed something that matches.
func (p *program) says(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	require.Eventually(p.t, func() bool {
		found = re.FindStringSubmatch(p.stdout.String() + p.stderr.String())
		return found != nil
	}, 20*time.Second, 10*time.Millisecond, "%s never said %s", p.cmd.Path, pattern)
	return found
}

func (s *site) serve(listen string) *program {
	s.t.Helper()
	p := s.start("brain", "serve", "--listen", listen)
	s.addr = p.says(`brain listens on (\S+)\n(?s:.*)connect with`)[1]
	return p
}

func (s *site) run(args ...string) *program {
	s.t.Helper()
	if !slices.Contains(args, "--token-file") {
		args = append([]string{"--token-file", s.tokenFile()}, args...)
	}
	return s.start("executor", append([]string{"run", "--brain", "ws://" + s.addr + "/executor",
		"--min-backoff", "50ms", "--max-backoff", "500ms"}, args...)...)
}

// brain runs a command to its end.
func (s *site) brain(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	p := s.start("brain", args...)
	code = p.exit()
	return p.stdout.String(), p.stderr.String(), code
}

func TestEndToEnd(t *testing.T) {
	s := newSite(t)
	server := s.serve("127.0.0.1:0")
	agent := s.run("--name", "\x1b[31mred")

	out, errs, code := s.brain("call", "bash", `{"command":"uname -a; exit 3"}`)
	uname, err := exec.Command("uname", "-s").Output()
	require.NoError(t, err)
	assert.Contains(t, out, strings.TrimSpace(string(uname)))
	assert.Contains(t, out, "[exit code 3]")
	assert.Equal(t, "brain: bash ended with exit code 3\n", errs)
	assert.Equal(t, 1, code)

	out, errs, code = s.brain("call", "bash", `{"command":"pwd; echo $TOKEN"}`)
	assert.Equal(t, 0, code, errs)
	assert.Contains(t, out, "/work\n", "the current directory is the workspace")

	out, _, code = s.brain("call", "--output", "json", "write", `{"path":"a.txt","content":"hi"}`)
	assert.Equal(t, 0, code)
	var result protocol.ToolResultParams
	require.NoError(t, json.Unmarshal([]byte(out), &result), out)
	assert.Equal(t, protocol.OutcomeSucceeded, result.Outcome)
	assert.FileExists(t, filepath.Join(s.work, "a.txt"))

	out, _, _ = s.brain("executors")
	assert.Contains(t, out, `\x1b[31mred`)
	assert.NotContains(t, out, "\x1b", "nothing from the wire controls the terminal")

	// The brain is started again, under the same address: the executor comes back.
	server.signal(syscall.SIGTERM)
	assert.Equal(t, 0, server.exit())
	agent.says(`code 1001|going away|connection refused|EOF`)
	s.serve(s.addr)
	out, errs, code = s.brain("call", "bash", `{"command":"echo again"}`)
	assert.Equal(t, "again\n", out, errs)
	assert.Equal(t, 0, code)

	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
}

func TestSignalDrains(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	agent := s.run()
	call := s.start("brain", "call", "bash", `{"command":"touch begun; sleep 1; echo finished"}`)
	s.waitFor("begun")
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
	assert.Equal(t, 0, call.exit(), "the call was finished and its result delivered")
	assert.Equal(t, "finished\n", call.stdout.String())
}

func (s *site) waitFor(file string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := os.Stat(filepath.Join(s.work, file))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, file)
}

func TestSecondSignalCancels(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	agent := s.run()
	call := s.start("brain", "call", "bash", `{"command":"touch begun; sleep 60"}`)
	s.waitFor("begun")
	began := time.Now()
	agent.signal(syscall.SIGTERM)
	agent.says("another signal cancels it")
	agent.signal(os.Interrupt)
	assert.Equal(t, 0, agent.exit())
	assert.Less(t, time.Since(began), 15*time.Second)
	assert.Equal(t, 1, call.exit())
	assert.Contains(t, call.stderr.String(), "canceled")
}

func TestInterruptCancelsACall(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	s.run()
	call := s.start("brain", "call", "bash", `{"command":"trap 'touch ended; exit' TERM; touch begun; while :; do sleep 0.05; done"}`)
	s.waitFor("begun")
	call.signal(os.Interrupt)
	assert.Equal(t, 1, call.exit())
	assert.Equal(t, "brain: interrupted; the call is cancelled\n", call.stderr.String())
	s.waitFor("ended")
}

func TestOneStateDirectoryOneExecutor(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	first := s.run()
	first.says("registered")
	second := s.run()
	assert.Equal(t, 1, second.exit())
	assert.Equal(t, fmt.Sprintf("executor: another executor (pid %d) uses the state directory %s; stop it, or give this one its own with --state-dir\n",
		first.cmd.Process.Pid, filepath.Join(s.home, "state", "executor")), second.stderr.String())
	s.run("--state-dir", filepath.Join(s.home, "other")).says("registered")

	again := s.start("brain", "serve", "--listen", "127.0.0.1:0")
	assert.Equal(t, 1, again.exit())
	assert.Contains(t, again.stderr.String(), "another brain (pid ")
}

func TestBadToken(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	token := filepath.Join(s.home, "token")
	require.NoError(t, os.WriteFile(token, []byte("not-the-token-of-the-brain"), 0o644))
	agent := s.run("--token-file", token, "--log-level", "error")
	assert.Equal(t, 3, agent.exit())
	lines := strings.Split(strings.TrimSpace(agent.stderr.String()), "\n")
	last := lines[len(lines)-1]
	assert.True(t, strings.HasPrefix(last, "executor: credential rejected: "), last)
	assert.True(t, strings.HasSuffix(last, "check the token"), last)
	assert.NotContains(t, agent.stderr.String(), "not-the-token")

	agent = s.run("--token-file", token, "--output", "json", "--log-format", "json")
	assert.Equal(t, 3, agent.exit())
	assert.Contains(t, agent.stderr.String(), `"exit_code": 3`)
	assert.Contains(t, agent.stderr.String(), "mode 0644")
	assert.Contains(t, agent.stderr.String(), "chmod 600 "+token)
}

func TestUsageErrors(t *testing.T) {
	s := newSite(t)
	s.addr = "192.0.2.1:7070"
	short := filepath.Join(s.home, "short")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	config := filepath.Join(s.home, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("brian: x\n"), 0o600))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"use wss://, or allow it with --insecure", []string{"run", "--brain", "ws://192.0.2.1/executor"}},
		{"no brain to connect to", []string{"run"}},
		{"token file " + short + " has a token of less than 16 characters", []string{"run", "--brain", "ws://127.0.0.1:1/", "--token-file", short}},
		{"config.yaml:1: unknown key \"brian\"; did you mean \"brain\"?", []string{"run", "--config", config}},
		{"did you mean \"demo\"?", []string{"dmeo"}},
		{"did you mean --brain?", []string{"run", "--brian", "x"}},
	} {
		p := s.start("executor", c.args...)
		assert.Equal(t, 2, p.exit())
		lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
		assert.Contains(t, lines[len(lines)-1], c.says)
		assert.Empty(t, p.stdout.String())
	}
}

// One line for each attempt, with the reason and the delay.
func TestUnreachableBrain(t *testing.T) {
	s := newSite(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	require.NoError(t, l.Close())
	agent := s.start("executor", "run", "--brain", "ws://"+s.addr+"/executor", "--min-backoff", "20ms", "--max-backoff", "40ms", "--log-format", "json")
	agent.says(`(?s)retry_in.*retry_in.*retry_in`)
	agent.signal(os.Interrupt)
	assert.Equal(t, 0, agent.exit())
	for _, line := range strings.Split(strings.TrimSpace(agent.stderr.String()), "\n") {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		if entry["msg"] == "not connected" {
			assert.Contains(t, entry["error"], "connection refused")
			assert.Contains(t, entry, "retry_in")
		}
	}
}

func TestCallsThatCannotBegin(t *testing.T) {
	s := newSite(t)
	_, errs, code := s.brain("call", "bash")
	assert.Equal(t, 1, code)
	assert.Equal(t, "brain: no brain runs with the state directory "+filepath.Join(s.home, "state", "brain")+"; start one with brain serve, or name its --state-dir\n", errs)

	s.serve("127.0.0.1:0")
	_, errs, code = s.brain("call", "--wait", "50ms", "bash", "{}")
	assert.Equal(t, 1, code)
	assert.Equal(t, "brain: no executor is connected, also after 50ms; start one with executor run\n", errs)

	s.run("--name", "here").says("registered")
	for _, c := range []struct {
		says string
		code int
		args []string
	}{
		{`there is no executor "hree"; did you mean "here"?`, 1, []string{"call", "--executor", "hree", "bash", "{}"}},
		{`the executor has no tool "bsh"; did you mean "bash"?`, 1, []string{"call", "bsh", "{}"}},
		{`bash: invalid_params: command: required, but missing`, 1, []string{"call", "bash", "{}"}},
		{`the input is not JSON`, 2, []string{"call", "bash", "{"}},
		{`the input is JSON, but no object`, 2, []string{"call", "bash", "[1]"}},
		{`the input is JSON, but no object`, 2, []string{"call", "bash", "null"}},
		{`read failed: not_found: `, 1, []string{"call", "read", `{"path":"none"}`}},
	} {
		_, errs, code := s.brain(c.args...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, errs, "brain: "+c.says)
		assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}

	// A session that is named stays: what was read there may be overwritten.
	for _, call := range [][2]string{{"write", `{"path":"f","content":"1"}`}, {"write", `{"path":"f","content":"2"}`}} {
		_, errs, code := s.brain("call", "--session", "mine", "--executor", "here", call[0], call[1])
		assert.Equal(t, 0, code, errs)
	}
	out, _, _ := s.brain("executors", "--output", "json")
	assert.Contains(t, out, `"mine"`)
}

func TestCertificateAuthority(t *testing.T) {
	s := newSite(t)
	b := brain.New(brain.Options{})
	defer b.Close("test ends")
	server := httptest.NewTLSServer(b)
	defer server.Close()
	url := strings.Replace(server.URL, "https", "wss", 1)

	stranger := s.start("executor", "run", "--brain", url, "--state-dir", filepath.Join(s.home, "a"))
	stranger.says("not connected.*(unknown authority|not trusted)")

	ca := filepath.Join(s.home, "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	agent := s.start("executor", "run", "--brain", url, "--ca-file", ca)
	agent.says("registered")
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
}

func TestDemoProgram(t *testing.T) {
	s := newSite(t)
	p := s.start("executor", "demo")
	assert.Equal(t, 0, p.exit())
	assert.Contains(t, p.stdout.String(), "All 6 steps held.")
	assert.Empty(t, p.stderr.String())
	left, err := os.ReadDir(s.work)
	require.NoError(t, err)
	assert.Empty(t, left, "its temporary directory is gone")

	p = s.start("executor", "demo", "--output", "json")
	assert.Equal(t, 0, p.exit())
	var report demoReport
	require.NoError(t, json.Unmarshal(bytes.TrimSpace([]byte(p.stdout.String())), &report))
	assert.True(t, report.OK)
}

func TestVersion(t *testing.T) {
	s := newSite(t)
	p := s.start("executor", "version")
	assert.Equal(t, 0, p.exit())
	assert.Regexp(t, `^executor \S+ \(protocol executor\.v1, go1\S+, \w+/\w+\)\n$`, p.stdout.String())
	p = s.start("executor", "version", "--output", "json")
	assert.Equal(t, 0, p.exit())
	assert.True(t, json.Valid([]byte(p.stdout.String())))
}

// Each refusal for good has its exit code, and one line that says why.
func TestRefusals(t *testing.T) {
	s := newSite(t)
	server := s.serve("127.0.0.1:0")
	first := s.run()
	first.says("registered")
	other := filepath.Join(s.home, "copy")
	require.Eventually(t, func() bool { // it is written just now, and then it is whole
		files, err := filepath.Glob(filepath.Join(s.home, "state", "executor", "brains", "*", "state.json"))
		if err != nil || len(files) != 1 {
			return false
		}
		identity, err := os.ReadFile(files[0])
		dir := filepath.Join(other, "brains", filepath.Base(filepath.Dir(files[0])))
		return err == nil && os.MkdirAll(dir, 0o700) == nil && os.WriteFile(filepath.Join(dir, "state.json"), identity, 0o600) == nil
	}, 10*time.Second, 10*time.Millisecond)
	s.run("--state-dir", other).says("registered")
	assert.Equal(t, 5, first.exit())
	assert.Contains(t, first.stderr.String(), "executor: replaced by another executor with the same identity: ")
	server.signal(os.Interrupt)
	assert.Equal(t, 0, server.exit())

	b := brain.New(brain.Options{Authenticate: func(*http.Request) (brain.Principal, error) {
		return brain.Principal{EnvironmentID: "theirs"}, nil
	}})
	defer b.Close("test ends")
	refusing := httptest.NewServer(b)
	defer refusing.Close()
	s.addr = refusing.Listener.Addr().String()
	agent := s.run("--environment", "mine", "--state-dir", filepath.Join(s.home, "refused"))
	assert.Equal(t, 4, agent.exit())
	assert.Contains(t, agent.stderr.String(), "executor: registration refused: ")
}

// A server that repeats the token in its answer does not bring it into the log.
func TestTokenStaysSecret(t *testing.T) {
	s := newSite(t)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "what is "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer echo.Close()
	for _, output := range []string{"text", "json"} {
		p := s.start("executor", "run", "--brain", strings.Replace(echo.URL, "http", "ws", 1), "--output", output,
			"--token-command", "echo "+configtest.Token+"; echo "+configtest.Token+" >&2", "--log-level", "debug", "--log-format", "json")
		assert.Equal(t, 3, p.exit())
		assert.Contains(t, p.stderr.String(), "what is Bearer [redacted]")
		assert.NotContains(t, p.stderr.String(), configtest.Token)
	}
}

// The other way round: the executor listens at a socket, and the brain dials.
func TestTheBrainDials(t *testing.T) {
	s := newSite(t)
	socket := filepath.Join(s.home, "door")
	server := s.start("brain", "serve", "--listen", "127.0.0.1:0", "--dial", "unix://"+socket)
	server.says("connect with")
	run := []string{"run", "--brain", "unix+listen://" + socket, "--token-file", s.tokenFile()}
	agent := s.start("executor", run...)
	agent.says("registered")
	out, errs, code := s.brain("call", "bash", `{"command":"echo through the door"}`)
	assert.Equal(t, "through the door\n", out, errs)
	assert.Equal(t, 0, code)

	// killed, and started again over the socket it left
	require.NoError(t, agent.cmd.Process.Kill())
	agent.exit()
	_, err := os.Lstat(socket)
	require.NoError(t, err)
	agent = s.start("executor", run...)
	agent.says("registered")
	second := s.start("executor", append(run, "--state-dir", filepath.Join(s.home, "second"))...)
	assert.Equal(t, 1, second.exit())
	assert.Contains(t, second.stderr.String(), "another process listens at "+socket)
	agent.signal(syscall.SIGTERM)
	assert.Equal(t, 0, agent.exit())
	assert.NoFileExists(t, socket)
	server.signal(syscall.SIGTERM)
	assert.Equal(t, 0, server.exit())

	p := s.start("executor", "run", "--brain", "unix+listen://"+socket)
	assert.Equal(t, 2, p.exit())
	assert.Contains(t, p.stderr.String(), "a token is required to listen")
	p = s.start("brain", "serve", "--dial", "unix+listen://"+socket)
	assert.Equal(t, 2, p.exit())
	assert.Contains(t, p.stderr.String(), "want unix:///absolute/path")
}
