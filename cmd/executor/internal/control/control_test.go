package control

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// startControl starts a control that ends with the test, and a client for it.
func startControl(t *testing.T, routes func(*Server)) (*Server, *cli.Client) {
	t.Helper()
	dir := t.TempDir()
	hide := cli.NewRedactor(&bytes.Buffer{})
	hide.Add(configtest.Token)
	c := New(dir, hide, zap.NewNop())
	routes(c)
	c.Start()
	t.Cleanup(c.Close)
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
	_, client := startControl(t, func(c *Server) {
		c.Handle("POST /echo", func(r *http.Request) (any, error) {
			var e echo
			return &e, ReadBody(r, &e)
		})
		c.Handle("GET /secret", func(*http.Request) (any, error) { return echo{"it is " + configtest.Token}, nil })
		c.Handle("GET /refused", func(*http.Request) (any, error) { return nil, errors.New("not with " + configtest.Token) })
		c.Handle("GET /panic", func(*http.Request) (any, error) { panic("oh") })
		c.Handle("GET /peer", func(r *http.Request) (any, error) {
			p, ok := PeerOf(r.Context())
			return p, map[bool]error{false: errors.New("nobody")}[ok]
		})
		c.Stream("GET /count", func(_ *http.Request, send func(any) error) error {
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
	_, client := startControl(t, func(c *Server) {
		c.Handle("POST /stop", func(*http.Request) (any, error) { asked++; return "stopped", nil })
		c.Handle("GET /status", func(*http.Request) (any, error) { return "fine", nil })
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
	// One that leaves its connection to a child and ends hides nothing.
	script := fmt.Sprintf("import os,socket,time;s=socket.socket(socket.AF_UNIX);s.connect(%q)\nif os.fork(): os._exit(0)\nwhile os.getppid()!=1 and os.path.exists('/proc/%%d'%%os.getppid()) and 'python' in open('/proc/%%d/comm'%%os.getppid()).read(): time.sleep(.01)\n"+
		"s.sendall(b'POST /stop HTTP/1.0\\r\\n\\r\\n');print(s.makefile().read())", cli.ControlSocket(client.Dir))
	out, err := exec.Command(python, "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "403 Forbidden")
	assert.Zero(t, asked)
}

// However many connections a command of the agent opens, the user's own questions and
// requests are answered; and so with those of another program of the user.
func TestControlKeepsRoomForTheUser(t *testing.T) {
	python, err := exec.LookPath("python3")
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("nobody says who asks, or no python3 here to ask with")
	}
	stopped := 0
	_, client := startControl(t, func(c *Server) {
		c.Handle("POST /stop", func(*http.Request) (any, error) { stopped++; return "stopped", nil })
		c.Handle("GET /status", func(*http.Request) (any, error) { return "fine", nil })
	})
	script := fmt.Sprintf(`
import socket, sys
conns = []
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.connect(%q)
    try: s.sendall([b"", b"GET /st", b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n"][i %% 3])
    except OSError: pass
    conns.append(s)
print("open", flush=True)
sys.stdin.read()`, cli.ControlSocket(client.Dir))
	hold := exec.Command(python, "-c", script)
	in, err := hold.StdinPipe()
	require.NoError(t, err)
	out, err := hold.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, hold.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	for range 300 {
		c, err := net.Dial("unix", cli.ControlSocket(client.Dir))
		require.NoError(t, err)
		defer c.Close()
	}
	client.Patience = 5 * time.Second
	require.NoError(t, client.Do(t.Context(), http.MethodGet, "/status", nil, nil))
	require.NoError(t, client.Do(t.Context(), http.MethodPost, "/stop", nil, nil))
	assert.Equal(t, 1, stopped)
	require.NoError(t, in.Close())
	require.NoError(t, hold.Wait())
}

// What its sender no longer waits for is not carried out.
func TestControlDoesNothingLate(t *testing.T) {
	asked := 0
	c, client := startControl(t, func(c *Server) {
		c.Handle("POST /stop", func(*http.Request) (any, error) { asked++; return "stopped", nil })
	})
	late := httptest.NewRequest(http.MethodPost, "/stop", nil)
	late.Header.Set("Give-Up-At", "1")
	w := httptest.NewRecorder()
	c.serve(w, late)
	assert.Equal(t, http.StatusRequestTimeout, w.Code)
	assert.Contains(t, w.Body.String(), "nothing was done")
	assert.Zero(t, asked)
	require.NoError(t, client.Do(t.Context(), http.MethodPost, "/stop", nil, nil))
	assert.Equal(t, 1, asked)
}

// A table of processes stands for the system's: pid 10 is this program.
func TestDescends(t *testing.T) {
	table := map[int]int{10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 31, 31: 30, 41: 40, 51: 50}
	looked := 0
	parent := func(pid int) (int, parentage) {
		if p, ok := table[pid]; ok {
			return p, parentKnown
		}
		switch looked++; {
		case pid == 40:
			return 0, parentUnknown
		case pid == 50 && looked == 3:
			table[51] = 20 // as its orphan is adopted
		}
		return 0, parentGone
	}
	for pid, want := range map[int]bool{
		0: false, 1: false, 10: false, 11: true, 12: true, 20: false, 21: false,
		30: true,  // in a circle, as nothing of a living system is
		41: false, // a process that others may not see
		99: true,  // it has ended, and may have left its connection to a child
	} {
		assert.Equal(t, want, descends(cli.Peer{PID: pid}, 10, parent), pid)
	}
	looked = 0
	assert.False(t, descends(cli.Peer{PID: 51}, 10, parent), "its parent ended meanwhile")
	table[61] = 60
	assert.True(t, descends(cli.Peer{PID: 61}, 10, parent), "an ancestor that ends each time it is looked at")
}

// A client that says nothing, or reads nothing, is let go.
func TestControlBoundsClients(t *testing.T) {
	c, client := startControl(t, func(c *Server) {
		c.Stream("GET /flood", func(_ *http.Request, send func(any) error) error {
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
	c.Close()
	assert.Less(t, time.Since(began), controlGoodbye+5*time.Second)
	assert.NoFileExists(t, cli.ControlSocket(client.Dir))
}

// Streams are told that the agent leaves, and are waited for.
func TestControlSaysGoodbye(t *testing.T) {
	begun := make(chan struct{})
	c, client := startControl(t, func(c *Server) {
		c.Stream("GET /wait", func(r *http.Request, send func(any) error) error {
			if err := send("waiting"); err != nil {
				return err
			}
			close(begun)
			<-c.Closing()
			return send("left")
		})
	})
	answer, err := client.Stream(t.Context(), http.MethodGet, "/wait", nil)
	require.NoError(t, err)
	defer answer.Close()
	<-begun
	c.Close()
	c.Close() // twice is fine
	var lines []string
	for scan := bufio.NewScanner(answer); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	assert.Equal(t, []string{`"waiting"`, `"left"`}, lines)
}

func TestControlWithoutStart(t *testing.T) {
	New(t.TempDir(), cli.NewRedactor(&bytes.Buffer{}), zap.NewNop()).Close()
}
