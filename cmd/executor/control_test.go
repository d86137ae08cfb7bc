package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// startControl starts a control that ends with the test, and a client for it.
func startControl(t *testing.T, routes func(*control)) (*control, *cli.Client) {
	t.Helper()
	dir := t.TempDir()
	hide := cli.NewRedactor(&bytes.Buffer{})
	hide.Add(testToken)
	c := newControl(dir, hide, zap.NewNop())
	routes(c)
	c.start()
	t.Cleanup(c.close)
	require.Eventually(t, func() bool {
		_, err := os.Stat(cli.ControlSocket(dir))
		return err == nil
	}, 10*time.Second, time.Millisecond)
	return c, &cli.Client{Program: "executor", Start: "executor run", Dir: dir, Patience: 10 * time.Second}
}

type echo struct {
	Text string `json:"text"`
}

func TestControlAnswers(t *testing.T) {
	_, client := startControl(t, func(c *control) {
		c.handle("POST /echo", func(r *http.Request) (any, error) {
			var e echo
			return &e, body(r, &e)
		})
		c.handle("GET /secret", func(*http.Request) (any, error) { return echo{"it is " + testToken}, nil })
		c.handle("GET /refused", func(*http.Request) (any, error) { return nil, errors.New("not with " + testToken) })
		c.handle("GET /panic", func(*http.Request) (any, error) { panic("oh") })
		c.handle("GET /peer", func(r *http.Request) (any, error) {
			p, ok := peerOf(r.Context())
			return p, map[bool]error{false: errors.New("nobody")}[ok]
		})
		c.stream("GET /count", func(_ *http.Request, send func(any) error) error {
			for i := range 3 {
				if err := send(i); err != nil {
					return err
				}
			}
			return nil
		})
	})
	var e echo
	require.NoError(t, client.Do(t.Context(), http.MethodPost, "/echo", echo{"<hello>"}, &e))
	assert.Equal(t, echo{"<hello>"}, e)
	require.NoError(t, client.Do(t.Context(), http.MethodPost, "/echo", nil, &e), "no body is an empty object")
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/secret", nil, &e))
	assert.Equal(t, echo{"it is [redacted]"}, e)
	for path, says := range map[string]string{"/refused": "not with [redacted]", "/panic": "the request failed unexpectedly; see the executor's log",
		"/none": "the executor answered 404 Not Found"} {
		assert.EqualError(t, client.Do(t.Context(), http.MethodGet, path, nil, &e), says)
	}
	assert.ErrorContains(t, client.Do(t.Context(), http.MethodPost, "/echo", map[string]int{"txet": 1}, &e), `bad request: json: unknown field "txet"`)
	assert.ErrorContains(t, client.Do(t.Context(), http.MethodPost, "/echo", echo{strings.Repeat("x", maxControlBody)}, &e), "bad request: http: request body too large")
	if runtime.GOOS == "linux" {
		var p cli.Peer
		require.NoError(t, client.Do(t.Context(), http.MethodGet, "/peer", nil, &p))
		assert.Equal(t, cli.Peer{UID: os.Geteuid(), PID: os.Getpid()}, p)
	}
	answer, err := client.Stream(t.Context(), http.MethodGet, "/count", nil)
	require.NoError(t, err)
	defer answer.Close()
	var lines []string
	for scan := bufio.NewScanner(answer); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	assert.Equal(t, []string{"0", "1", "2"}, lines)
}

// A command that the agent has started changes nothing; it could approve its own call.
func TestControlRefusesOwnCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nobody says who asks")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here to ask with")
	}
	asked := 0
	_, client := startControl(t, func(c *control) {
		c.handle("POST /stop", func(*http.Request) (any, error) { asked++; return "stopped", nil })
		c.handle("GET /status", func(*http.Request) (any, error) { return "fine", nil })
	})
	ask := func(line string, setsid bool) string {
		script := fmt.Sprintf("import socket;s=socket.socket(socket.AF_UNIX);s.connect(%q);s.sendall(b'%s HTTP/1.0\\r\\n\\r\\n');print(s.makefile().read())", cli.ControlSocket(client.Dir), line)
		argv := []string{python, "-c", script}
		if setsid {
			argv = append([]string{"sh", "-c", `"$0" "$@"; true`}, argv...)
		}
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	for _, deeper := range []bool{false, true} {
		out := ask("POST /stop", deeper)
		assert.Contains(t, out, "403 Forbidden")
		assert.Contains(t, out, "may not control it")
		assert.Contains(t, ask("GET /status", deeper), "fine")
	}
	assert.Zero(t, asked)
}

// A client that says nothing, or reads nothing, is let go.
func TestControlBoundsClients(t *testing.T) {
	c, client := startControl(t, func(c *control) {
		c.stream("GET /flood", func(_ *http.Request, send func(any) error) error {
			for {
				if err := send(strings.Repeat("x", 1<<20)); err != nil {
					return err
				}
			}
		})
	})
	assert.Positive(t, c.server.ReadHeaderTimeout)
	assert.Positive(t, c.server.IdleTimeout)
	conn, err := net.Dial("unix", cli.ControlSocket(client.Dir))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /" + strings.Repeat("x", 40<<10)))
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "431")

	deaf, err := net.Dial("unix", cli.ControlSocket(client.Dir))
	require.NoError(t, err)
	defer deaf.Close()
	_, err = deaf.Write([]byte("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	// It is ended when the agent leaves, at the latest.
	began := time.Now()
	c.close()
	assert.Less(t, time.Since(began), controlGoodbye+5*time.Second)
	assert.NoFileExists(t, cli.ControlSocket(client.Dir))
}

// Streams are told that the agent leaves, and are waited for.
func TestControlSaysGoodbye(t *testing.T) {
	begun := make(chan struct{})
	c, client := startControl(t, func(c *control) {
		c.stream("GET /wait", func(r *http.Request, send func(any) error) error {
			if err := send("waiting"); err != nil {
				return err
			}
			close(begun)
			<-c.leaving.Done()
			return send("left")
		})
	})
	answer, err := client.Stream(t.Context(), http.MethodGet, "/wait", nil)
	require.NoError(t, err)
	defer answer.Close()
	<-begun
	c.close()
	c.close() // twice is fine
	var lines []string
	for scan := bufio.NewScanner(answer); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	assert.Equal(t, []string{`"waiting"`, `"left"`}, lines)
}

func TestControlWithoutStart(t *testing.T) {
	newControl(t.TempDir(), cli.NewRedactor(&bytes.Buffer{}), zap.NewNop()).close()
}

// Where the agent is found: the flag, the variable, the file, the default, the system's.
func TestClientOf(t *testing.T) {
	isolate(t)
	file := writeFile(t, "config.yaml", "state_dir: /from/file\n")
	broken := writeFile(t, "config.yaml", "stat_dir: /from/file\n")
	for _, c := range []struct {
		args []string
		env  string
		dir  string
		says string
	}{
		{nil, "", cli.DefaultStateDir("executor"), ""},
		{[]string{"--state-dir", "/flag"}, "/env", "/flag", ""},
		{nil, "/env", "/env", ""},
		{[]string{"--config", file}, "", "/from/file", ""},
		{[]string{"--config", broken}, "", "", `unknown key "stat_dir"; did you mean "state_dir"?`},
		{[]string{"--config", broken, "--state-dir", "/flag"}, "", "/flag", ""},
		{[]string{"--state-dir", ""}, "/env", "", "--state-dir is empty"},
	} {
		t.Setenv("EXECUTOR_STATE_DIR", c.env)
		cmd := &cobra.Command{Use: "ask"}
		given := askFlags(cmd)
		require.NoError(t, cmd.ParseFlags(c.args))
		client, err := clientOf(cmd, given)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.dir, client.Dir)
	}
}

func TestAskingNobody(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	for _, name := range []string{"status", "drain", "stop"} {
		c := newRoot()
		var out bytes.Buffer
		c.SetArgs([]string{name, "--state-dir", dir})
		c.SetOut(&out)
		err := c.ExecuteContext(context.Background())
		assert.EqualError(t, err, "no executor runs with the state directory "+dir+"; start one with executor run, or name its --state-dir")
		assert.Equal(t, cli.ExitFailed, cli.Code(err))
		assert.Empty(t, out.String())
	}
	c := newRoot()
	c.SetArgs([]string{"drain", "--deadline", "0s", "--state-dir", dir})
	assert.Equal(t, cli.ExitUsage, cli.Code(c.Execute()))
	assert.NoDirExists(t, filepath.Join(dir, "control.sock"))
}
