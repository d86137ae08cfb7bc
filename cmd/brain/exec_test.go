//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/process"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

// withProcesses runs an executor that runs processes.
func withProcesses(r *running) (dir string) {
	dir = r.t.TempDir()
	ex, err := executor.New(executor.Options{
		URL:        "ws://" + r.addr + "/executor",
		Token:      func(context.Context) (string, error) { return testToken, nil },
		Name:       "one",
		Workspace:  executor.Workspace{Roots: []capabilities.Root{{Path: dir}}},
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(r.t, err)
	require.NoError(r.t, ex.Register(process.New(process.Options{LoginEnv: map[string]string{}})))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = ex.Run(ctx)
	}()
	r.t.Cleanup(func() { cancel(); <-ran })
	return dir
}

// heard is an output that tests wait for.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	came chan struct{} // closed when it holds want
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p)
	if h.came != nil && h.want != "" && strings.Contains(h.text.String(), h.want) {
		close(h.came)
		h.came = nil
	}
	return len(p), nil
}

func listenFor(text string) (*heard, <-chan struct{}) {
	h := &heard{want: text, came: make(chan struct{})}
	return h, h.came
}

// listenFor is for what comes next.
func (h *heard) listenFor(text string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	came := make(chan struct{})
	h.want, h.came = text, came
	return came
}

func (r *running) exec(stdin io.Reader, q execRequest) (stdout, stderr string, err error) {
	var out, errs heard
	q.WaitMS = 10_000
	x := execution{client: r.client, stdin: stdin, stdout: &out, stderr: &errs}
	err = x.run(r.t.Context(), q)
	return out.text.String(), errs.text.String(), err
}

func bash(script string) execRequest { return execRequest{Argv: []string{"bash", "-c", script}} }

func TestExec(t *testing.T) {
	r := startServer(t)
	dir := withProcesses(r)
	out, errs, err := r.exec(strings.NewReader("typed\n"), bash(`read -r x; echo "got $x"; echo err >&2; pwd; exit 7`))
	assert.Equal(t, 7, cli.Code(err))
	real, _ := os.Readlink(dir)
	if real == "" {
		real = dir
	}
	assert.Equal(t, "got typed\n"+real+"\n", out)
	assert.Equal(t, "err\n", errs)
	require.Eventually(t, func() bool { return len(r.brain.Executors()[0].Sessions()) == 0 }, 10*time.Second, 10*time.Millisecond)

	_, _, err = r.exec(strings.NewReader(""), bash(`kill -9 $$`))
	assert.Equal(t, 137, cli.Code(err))
	_, _, err = r.exec(strings.NewReader(""), execRequest{Argv: []string{"no-such-program"}})
	assert.ErrorContains(t, err, "command not found")
	q := bash(`echo $X; pwd`)
	q.Env, q.Cwd = map[string]string{"X": "y"}, "/etc"
	_, _, err = r.exec(strings.NewReader(""), q)
	assert.ErrorContains(t, err, "workspace_boundary")
	// Somebody else holds the output: what came before the exit is there, and nobody waits for ever.
	out, _, err = r.exec(strings.NewReader(""), bash(`echo before; sleep 700 & exit 0`))
	assert.NoError(t, err)
	assert.Equal(t, "before\n", out)
}

// What was not allowed is said in words.
func TestExecDenied(t *testing.T) {
	denied := protocol.Errorf(protocol.CodeForbidden, "process.start is denied by the policy")
	assert.Equal(t, "the program was not run: process.start is denied by the policy", notRun(fmt.Errorf("start: %w", denied)))
	denied = protocol.Errorf(protocol.CodeForbidden, "the local user said no; it was not run").WithReason(protocol.ReasonLocalConfirmationDenied)
	assert.Equal(t, "the program was not run (local_confirmation_denied): the local user said no", notRun(denied))
	assert.Equal(t, "resource_unavailable: full", notRun(protocol.Errorf(protocol.CodeResourceUnavailable, "full")))
}

// Megabytes there and back, every byte once.
func TestExecCopies(t *testing.T) {
	r := startServer(t)
	withProcesses(r)
	text := strings.Repeat("0123456789abcde\n", 60_000)
	out, _, err := r.exec(strings.NewReader(text), execRequest{Argv: []string{"cat"}})
	require.NoError(t, err)
	assert.True(t, text == out, "%d bytes of %d", len(out), len(text))
}

// Whoever reads slowly gets all of it, also long after the end of the program.
func TestExecToASlowReader(t *testing.T) {
	r := startServer(t)
	withProcesses(r)
	out := &slowWriter{pause: 2 * afterExit}
	x := execution{client: r.client, stdin: strings.NewReader(""), stdout: out, stderr: io.Discard}
	err := x.run(t.Context(), execRequest{Argv: []string{"seq", "100000"}, WaitMS: 10_000})
	require.NoError(t, err)
	assert.Equal(t, 588_895, out.n)
}

// slowWriter takes its first megabyte slowly.
type slowWriter struct {
	pause time.Duration
	n     int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-time.After(w.pause)
	w.pause /= 2
	w.n += len(p)
	return len(p), nil
}

// Signals reach a program that does not read its input.
func TestExecSignals(t *testing.T) {
	r := startServer(t)
	withProcesses(r)
	stdin, typing := io.Pipe()
	defer typing.Close()
	go func() {
		for { // more than anybody holds
			if _, err := typing.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}()
	signals := make(chan os.Signal, 2)
	out, ready := listenFor("ready")
	x := execution{client: r.client, stdin: stdin, stdout: out, stderr: io.Discard, signals: signals}
	ended := make(chan error, 1)
	q := bash(`trap 'echo interrupted' INT; echo ready; while :; do sleep 0.02; done`)
	q.WaitMS = 10_000
	go func() { ended <- x.run(t.Context(), q) }()
	<-ready
	interrupted := out.listenFor("interrupted")
	signals <- os.Interrupt
	<-interrupted
	signals <- os.Interrupt
	assert.Equal(t, 143, cli.Code(<-ended))
	assert.Contains(t, out.text.String(), "interrupted")
	_ = stdin.Close()
}

// The process ends with the command that asked for it.
func TestExecGivenUp(t *testing.T) {
	r := startServer(t)
	withProcesses(r)
	ctx, cancel := context.WithCancel(t.Context())
	out, ready := listenFor("ready")
	stdin, typing := io.Pipe()
	x := execution{client: r.client, stdin: stdin, stdout: out, stderr: io.Discard}
	ended := make(chan error, 1)
	q := bash(`echo ready; sleep 700`)
	q.WaitMS = 10_000
	go func() { ended <- x.run(ctx, q) }()
	<-ready
	cancel()
	assert.Error(t, <-ended)
	_ = typing.Close()
	require.Eventually(t, func() bool { return len(r.brain.Executors()[0].Sessions()) == 0 }, 10*time.Second, 10*time.Millisecond)
}

func TestExecPTY(t *testing.T) {
	r := startServer(t)
	withProcesses(r)
	stdin, typing := io.Pipe()
	defer typing.Close()
	q := bash(`[ -t 1 ] && stty size`)
	q.PTY, q.Cols, q.Rows = true, 91, 31
	out, _, err := r.exec(stdin, q)
	require.NoError(t, err)
	assert.Equal(t, "31 91\r\n", out)
}
