package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

func TestMain(m *testing.M) {
	if os.Getenv("BRAIN_TEST_PROGRAM") != "" { // this is the program itself
		os.Exit(cli.Main(context.Background(), newRoot()))
	}
	os.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	goleak.VerifyTestMain(m)
}

const testToken = "0123456789abcdef-test-token"

// running is a server with both its listeners.
type running struct {
	*server
	t      *testing.T
	addr   string
	dir    string
	client *cli.Client
	stop   func() error // ends the server
}

func startServer(t *testing.T) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "brain") // short: of the socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	public, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	control, err := cli.ListenControl(dir)
	require.NoError(t, err)
	s := newServer(testToken, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, public, control) }()
	r := &running{server: s, t: t, addr: public.Addr().String(), dir: dir, client: newClient(dir)}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { assert.NoError(t, r.stop()) })
	return r
}

type toolInput struct {
	Text string `json:"text,omitempty"`
}

// connect runs an executor with a few tools, and returns how it ended.
func (r *running) connect(name string) (ended <-chan error) {
	r.t.Helper()
	ex, err := executor.New(executor.Options{
		URL:        "ws://" + r.addr + "/executor",
		Token:      func(context.Context) (string, error) { return testToken, nil },
		Name:       name,
		Workspace:  executor.Workspace{Roots: []capabilities.Root{{Path: r.t.TempDir()}}},
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(r.t, err)
	require.NoError(r.t, ex.Register(
		capabilities.Func("echo", "Say it again.", func(_ context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			return protocol.Text(c.Session().ID() + " " + in.Text), nil
		}),
		capabilities.Func("hang", "Never return.", func(ctx context.Context, _ *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			<-ctx.Done()
			return protocol.Text("was cancelled"), ctx.Err()
		}),
	))
	ctx, cancel := context.WithCancel(context.Background())
	done, ran := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ran)
		done <- ex.Run(ctx)
	}()
	r.t.Cleanup(func() { cancel(); <-ran })
	return done
}

func (r *running) ask(q callRequest) (protocol.ToolResultParams, error) {
	var result protocol.ToolResultParams
	if q.Input == nil {
		q.Input = json.RawMessage(`{}`)
	}
	err := r.client.Do(r.t.Context(), http.MethodPost, "/v1/call", q, &result)
	return result, err
}

func TestCall(t *testing.T) {
	r := startServer(t)
	r.connect("one")
	result, err := r.ask(callRequest{Tool: "echo", Input: json.RawMessage(`{"text":"hi"}`), WaitMS: 10_000})
	require.NoError(t, err)
	assert.Equal(t, protocol.OutcomeSucceeded, result.Outcome)
	assert.True(t, strings.HasSuffix(result.Content[0].Text, " hi"))
	assert.Empty(t, r.brain.Executors()[0].Sessions(), "its session has ended")

	first, err := r.ask(callRequest{Tool: "echo", Session: "mine"})
	require.NoError(t, err)
	assert.Equal(t, "mine ", first.Content[0].Text)
	_, err = r.ask(callRequest{Tool: "echo", Session: "mine", Executor: "one"})
	require.NoError(t, err)
	assert.Len(t, r.brain.Executors()[0].Sessions(), 1, "one that is named stays")
	_, err = r.ask(callRequest{Tool: "echo", Session: "mine", Executor: "two"})
	assert.ErrorContains(t, err, `session "mine" is on executor`)

	_, err = r.ask(callRequest{Tool: "ecko"})
	assert.EqualError(t, err, `the executor has no tool "ecko"; did you mean "echo"?`)
	_, err = r.ask(callRequest{Tool: "zzzzzzzz"})
	assert.EqualError(t, err, `the executor has no tool "zzzzzzzz"; it has echo, hang`)
	_, err = r.ask(callRequest{Tool: "echo", Input: json.RawMessage(`{"txt":1}`)})
	assert.ErrorContains(t, err, "echo: invalid_params")
}

func TestWhichExecutor(t *testing.T) {
	r := startServer(t)
	_, err := r.ask(callRequest{Tool: "echo", WaitMS: 1})
	assert.EqualError(t, err, "no executor is connected, also after 1ms; start one with executor run")

	r.connect("one")
	_, err = r.ask(callRequest{Tool: "echo", WaitMS: 10_000})
	require.NoError(t, err, "it is waited for")
	r.connect("two")
	_, err = r.ask(callRequest{Tool: "echo", Executor: "tow"})
	assert.ErrorContains(t, err, `there is no executor "tow"`)
	require.Eventually(t, func() bool { return len(r.executors()) == 2 && r.executors()[1].Connected }, 10*time.Second, time.Millisecond)
	_, err = r.ask(callRequest{Tool: "echo"})
	assert.ErrorContains(t, err, "2 executors are meant; name one with --executor: ")
	_, err = r.ask(callRequest{Tool: "echo", Executor: "two"})
	assert.NoError(t, err, "by name")
	_, err = r.ask(callRequest{Tool: "echo", Executor: r.executors()[0].ID})
	assert.NoError(t, err, "by id")
}

func TestCallIsCancelledWithItsRequest(t *testing.T) {
	r := startServer(t)
	r.connect("one")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var result protocol.ToolResultParams
		ended <- r.client.Do(ctx, http.MethodPost, "/v1/call", callRequest{Tool: "hang", Session: "s", Input: json.RawMessage(`{}`), WaitMS: 10_000}, &result)
	}()
	running := func() string {
		for _, x := range r.brain.Executors() {
			if s, ok := x.Session("s"); ok {
				status, _ := s.Status()
				return status
			}
		}
		return ""
	}
	require.Eventually(t, func() bool { return running() == protocol.StatusRunning }, 10*time.Second, time.Millisecond)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return running() == protocol.StatusIdle }, 10*time.Second, time.Millisecond, "the call has ended there too")
}

func TestShutdownFreesCallersAndExecutorsComeBack(t *testing.T) {
	r := startServer(t)
	agent := r.connect("one")
	ended := make(chan error, 1)
	go func() {
		_, err := r.ask(callRequest{Tool: "hang", WaitMS: 10_000})
		ended <- err
	}()
	require.Eventually(t, func() bool {
		x := r.brain.Executors()
		return len(x) == 1 && len(x[0].Sessions()) == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, r.stop())
	assert.Error(t, <-ended)
	select {
	case err := <-agent:
		t.Fatalf("the executor left: %v", err)
	default:
	}
	_, err := os.Stat(cli.ControlSocket(r.dir))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, r.client.Do(t.Context(), http.MethodGet, "/v1/executors", nil, nil), "no brain runs with the state directory")
}

func TestAuthenticate(t *testing.T) {
	s := newServer(testToken, zap.NewNop())
	defer s.brain.Close("")
	for header, want := range map[string]bool{
		"Bearer " + testToken: true, "bearer " + testToken: false, testToken: false, "": false, "Bearer ": false,
		"Bearer " + testToken + " ": false, "Bearer " + testToken[:10]: false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/executor", nil)
		r.Header.Set("Authorization", header)
		_, err := s.authenticate(r)
		assert.Equal(t, want, err == nil, "%q", header)
		if err != nil {
			assert.ErrorIs(t, err, protocol.ErrUnauthorized)
			assert.NotContains(t, err.Error(), testToken)
		}
	}
}

func TestControlSocketIsPrivate(t *testing.T) {
	r := startServer(t)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(cli.ControlSocket(r.dir))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	resp, err := http.Get("http://" + r.addr + "/v1/executors")
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "the control API is not on the network")
	http.DefaultClient.CloseIdleConnections()
}

func TestBadControlRequests(t *testing.T) {
	s := newServer(testToken, zap.NewNop())
	defer s.brain.Close("")
	for body, says := range map[string]string{
		"{":               "bad request",
		`{"toll":"bash"}`: "unknown field",
		`{"input":"` + strings.Repeat("x", maxInputBytes) + `"}`: "too large",
	} {
		w := httptest.NewRecorder()
		s.controlHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/call", strings.NewReader(body)))
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Contains(t, w.Body.String(), says)
	}
}

func TestPage(t *testing.T) {
	r := startServer(t)
	r.connect("<script>alert(1)</script>")
	require.Eventually(t, func() bool { return len(r.executors()) == 1 }, 10*time.Second, time.Millisecond)
	get := func(remote, host string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, "/", nil)
		q.RemoteAddr, q.Host = remote, host
		r.publicHandler().ServeHTTP(w, q)
		return w
	}
	w := get("127.0.0.1:5", "localhost:7070")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "&lt;script&gt;alert(1)&lt;/script&gt;")
	assert.NotContains(t, w.Body.String(), "<script>")
	assert.NotContains(t, w.Body.String(), testToken)
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	assert.Equal(t, http.StatusOK, get("[::1]:5", "[::1]:7070").Code)
	assert.Equal(t, http.StatusForbidden, get("192.0.2.1:5", "127.0.0.1").Code, "from elsewhere")
	assert.Equal(t, http.StatusForbidden, get("127.0.0.1:5", "evil.example:7070").Code, "under another name")
}

func TestServeMakesATokenAndSaysWhere(t *testing.T) {
	dir, err := os.MkdirTemp("", "brain")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	o := serveOptions{listen: "127.0.0.1:0", stateDir: dir, logLevel: "info", logFormat: "console"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it starts, and ends at once
	var out bytes.Buffer
	require.NoError(t, serve(ctx, o, &out, io.Discard))
	path := filepath.Join(dir, "token")
	token, err := cli.ReadToken(path)
	require.NoError(t, err)
	assert.Contains(t, out.String(), "token file, made now: "+path)
	assert.Contains(t, out.String(), "--token-file "+path)
	assert.NotContains(t, out.String(), token)

	out.Reset()
	require.NoError(t, serve(ctx, o, &out, io.Discard))
	assert.Contains(t, out.String(), "token file: "+path, "kept")

	require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
	err = serve(ctx, o, &out, io.Discard)
	assert.ErrorContains(t, err, "less than 16 characters")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))

	o.tokenFile = filepath.Join(dir, "other")
	o.listen = "192.0.2.1:1"
	assert.ErrorContains(t, serve(ctx, o, &out, io.Discard), "choose another address with --listen")
	var exit *cli.Exit
	assert.False(t, errors.As(serve(ctx, o, &out, io.Discard), &exit), "exit code 1")
}

// What is printed can be dialled: the executor refuses ws:// to an address that is not
// of this machine, and nobody can dial 0.0.0.0 everywhere.
func TestDialAddress(t *testing.T) {
	for _, c := range []struct{ listen, addr, dial, further string }{
		{"127.0.0.1:7070", "127.0.0.1:7070", "127.0.0.1:7070", ""},
		{"localhost:7070", "[::1]:7070", "[::1]:7070", ""},
		{"0.0.0.0:0", "[::]:7070", "127.0.0.1:7070", ""},
		{"0.0.0.0:0", "0.0.0.0:7070", "127.0.0.1:7070", ""},
		{":0", "[::]:7070", "127.0.0.1:7070", ""},
		{"[::]:0", "[::]:7070", "[::1]:7070", ""},
		{"192.0.2.1:0", "192.0.2.1:7070", "192.0.2.1:7070", " --insecure"},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.addr)
		require.NoError(t, err)
		dial, further := dialAddress(c.listen, addr)
		assert.Equal(t, []string{c.dial, c.further}, []string{dial, further}, c.listen)
	}
	dir, err := os.MkdirTemp("", "brain")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, serve(ctx, serveOptions{listen: "0.0.0.0:0", stateDir: dir, logLevel: "info", logFormat: "console"}, &out, io.Discard))
	assert.Regexp(t, `connect with: executor run --brain ws://127\.0\.0\.1:\d+/executor --token-file \S+\n`, out.String())
	assert.Regexp(t, `from another machine: --brain wss://HOST/executor .* ws://HOST:\d+/executor with --insecure`, out.String())
}
