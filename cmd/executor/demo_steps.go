package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

func (d *demo) register(ctx context.Context) (string, error) {
	var err error
	if d.dir, err = os.MkdirTemp("", "executor-demo-"); err != nil {
		return "", err
	}
	if d.dir, err = filepath.EvalSymlinks(d.dir); err != nil {
		return "", err
	}
	d.workspace = filepath.Join(d.dir, "workspace")
	if err := os.Mkdir(d.workspace, 0o700); err != nil {
		return "", err
	}
	log, err := cli.Logger(&d.log, "info", "console")
	if err != nil {
		return "", err
	}
	token := rand.Text()
	if err := d.startBrain(token); err != nil {
		return "", err
	}
	url := "ws://" + d.listener.Addr().String() + "/executor"
	d.say("brain listens on %s", url)

	roots := []capabilities.Root{{Path: d.workspace}}
	d.ex, err = executor.New(executor.Options{
		URL:        url,
		Token:      func(context.Context) (string, error) { return token, nil },
		Name:       "demo",
		StateDir:   filepath.Join(d.dir, "state"),
		Workspace:  executor.Workspace{Roots: roots},
		MinBackoff: 100 * time.Millisecond,
		MaxBackoff: time.Second,
		Logger:     log.Named("executor"),
	})
	if err != nil {
		return "", err
	}
	if err := d.ex.Register(standard.All(standard.Config{Roots: roots})...); err != nil {
		return "", err
	}
	runCtx, stop := context.WithCancel(context.Background())
	d.stop, d.ran = stop, make(chan error, 1)
	go func() { d.ran <- d.ex.Run(runCtx) }()

	x, err := d.brain.WaitExecutor(ctx)
	if err != nil {
		return "", fmt.Errorf("%w; the executor says: %s", err, d.ex.Status().LastError)
	}
	<-d.connected
	tools, err := x.Capabilities().Tools()
	if err != nil {
		return "", err
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return fmt.Sprintf("executor %s is registered; its tools: %s", x.ID(), strings.Join(names, ", ")), nil
}

func (d *demo) startBrain(token string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.listener = &cutter{Listener: l}
	d.brain = brain.New(brain.Options{
		Authenticate: func(r *http.Request) (brain.Principal, error) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				return brain.Principal{}, protocol.ErrUnauthorized
			}
			return brain.Principal{Name: "demo"}, nil
		},
		Results: &d.results,
		OnExecutor: func(_ *brain.Executor, connected bool) {
			if connected {
				d.connected <- struct{}{}
			}
		},
		OnProgress: func(p protocol.ToolProgressParams) {
			select {
			case d.progress <- p:
			default:
			}
		},
	})
	d.http = &http.Server{Handler: d.brain, ReadHeaderTimeout: 10 * time.Second}
	d.served = make(chan error, 1)
	go func() { d.served <- d.http.Serve(d.listener) }()
	return nil
}

func (d *demo) command(ctx context.Context) (string, error) {
	x, err := d.brain.WaitExecutor(ctx)
	if err != nil {
		return "", err
	}
	if d.session, err = x.Assign(ctx, protocol.SessionAssignParams{}); err != nil {
		return "", fmt.Errorf("assign session: %w", err)
	}
	d.say("session %s, in %s", d.session.ID(), d.workspace)
	out, err := d.bash(ctx, "demo-command", "uname -sm && pwd")
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if lines[len(lines)-1] != d.workspace {
		return "", fmt.Errorf("the command ran in %q, not in the workspace", lines[len(lines)-1])
	}
	return fmt.Sprintf("it printed %q, its exit code is 0", lines[0]), nil
}

// bash runs a command and returns what it printed. Anything but exit code 0 is an
// error.
func (d *demo) bash(ctx context.Context, id, command string) (string, error) {
	pending, err := d.startBash(ctx, id, command)
	if err != nil {
		return "", err
	}
	return printed(pending.Result(ctx))
}

func (d *demo) startBash(ctx context.Context, id, command string) (*brain.PendingCall, error) {
	d.say("$ %s", command)
	return d.start(ctx, id, "bash", map[string]any{"command": command})
}

func (d *demo) start(ctx context.Context, id, tool string, input map[string]any) (*brain.PendingCall, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	return d.session.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: tool, Input: raw})
}

func printed(r protocol.ToolResultParams, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	if r.Outcome != protocol.OutcomeSucceeded || r.IsError {
		return "", fmt.Errorf("the call %s: %s", r.Outcome, text.String())
	}
	return text.String(), nil
}

func (d *demo) file(ctx context.Context) (string, error) {
	const name, content = "notes.txt", "first line\nsecond line: ünïcode\n"
	d.say("write %s", name)
	pending, err := d.start(ctx, "demo-write", "write", map[string]any{"path": name, "content": content})
	if err != nil {
		return "", err
	}
	if _, err := printed(pending.Result(ctx)); err != nil {
		return "", err
	}
	d.say("read %s", name)
	if pending, err = d.start(ctx, "demo-read", "read", map[string]any{"path": name}); err != nil {
		return "", err
	}
	result, err := pending.Result(ctx)
	if _, err := printed(result, err); err != nil {
		return "", err
	}
	var read struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(result.Structured, &read); err != nil {
		return "", fmt.Errorf("result of read: %w", err)
	}
	disk, err := os.ReadFile(filepath.Join(d.workspace, name))
	if err != nil {
		return "", err
	}
	if read.Content != content || string(disk) != content {
		return "", fmt.Errorf("wrote %q, read %q, on disk is %q", content, read.Content, disk)
	}
	return fmt.Sprintf("%d bytes came back as they were written, and are so on disk", len(content)), nil
}

func (d *demo) stream(ctx context.Context) (string, error) {
	const id, lines = "demo-stream", 4
	pending, err := d.startBash(ctx, id, fmt.Sprintf("for i in $(seq %d); do echo line $i; sleep 0.2; done", lines))
	if err != nil {
		return "", err
	}
	began, live := time.Now(), 0
	for running := true; running; {
		select {
		case p := <-d.progress:
			if p.ToolCallID == id && len(p.Data) > 0 {
				live++
				d.say("| %s   after %d ms", strings.TrimSpace(string(p.Data)), time.Since(began).Milliseconds())
			}
		case <-pending.Done():
			running = false
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	out, err := printed(pending.Result(ctx))
	if err != nil {
		return "", err
	}
	if got := strings.Count(out, "line "); got != lines {
		return "", fmt.Errorf("the result has %d of %d lines", got, lines)
	}
	if live < 2 {
		return "", fmt.Errorf("%d pieces of output came while it ran; at least 2 were to be seen", live)
	}
	return fmt.Sprintf("output came in %d pieces before the result, which has all %d lines", live, lines), nil
}

func (d *demo) cut(ctx context.Context) (string, error) {
	const id = "demo-cut"
	before := d.listener.count()
	pending, err := d.startBash(ctx, id, "echo ran >> counter; echo started; sleep 1; echo finished")
	if err != nil {
		return "", err
	}
	for seen := false; !seen; {
		select {
		case p := <-d.progress:
			seen = p.ToolCallID == id && bytes.Contains(p.Data, []byte("started"))
		case <-pending.Done():
			_, err := pending.Result(ctx)
			return "", errors.Join(errors.New("the call ended before the connection was cut"), err)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	cutAt := time.Now()
	if n := d.listener.cut(); n == 0 {
		return "", errors.New("there was no connection to cut")
	}
	d.say("the command has started; connection cut")
	select {
	case <-d.connected:
	case <-ctx.Done():
		return "", fmt.Errorf("the executor did not come back: %s", d.ex.Status().LastError)
	}
	d.say("the executor is back after %d ms", time.Since(cutAt).Milliseconds())
	out, err := printed(pending.Result(ctx))
	if err != nil {
		return "", err
	}
	if !strings.Contains(out, "started\nfinished") {
		return "", fmt.Errorf("the result is %q", out)
	}
	counter, err := os.ReadFile(filepath.Join(d.workspace, "counter"))
	if err != nil {
		return "", err
	}
	runs, arrivals := bytes.Count(counter, []byte("ran\n")), d.results.arrived(id)
	if runs != 1 || arrivals != 1 || d.listener.count() == before {
		return "", fmt.Errorf("the command ran %d times, its result arrived %d times, over %d new connections", runs, arrivals, d.listener.count()-before)
	}
	return "the command ran once, and its result arrived once, over the new connection", nil
}

func (d *demo) drain(ctx context.Context) (string, error) {
	out, err := d.bash(ctx, "demo-left", "sleep 300 >/dev/null & echo $!")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(out, "\n")
	if d.left, err = strconv.Atoi(strings.TrimSpace(first)); err != nil {
		return "", fmt.Errorf("the command printed %q, not a process id", first)
	}
	d.say("process %d is left running; the executor is asked to leave", d.left)
	if err := d.ex.Drain(ctx); err != nil {
		return "", err
	}
	select {
	case err := <-d.ran:
		d.ran = nil
		if err != nil {
			return "", fmt.Errorf("run: %w", err)
		}
	case <-ctx.Done():
		return "", errors.New("the executor did not leave")
	}
	select {
	case <-d.session.Ended():
	case <-ctx.Done():
		return "", errors.New("the brain was not told that the session has ended")
	}
	if owed := d.ex.Status().ResultsOwed; owed != 0 {
		return "", fmt.Errorf("%d results are still owed", owed)
	}
	if runs(d.left) {
		return "", fmt.Errorf("process %d still runs", d.left)
	}
	return fmt.Sprintf("the session has ended, process %d with it, and no result is owed", d.left), nil
}

// runs reports whether there is such a process that does something; false where
// that cannot be asked.
func runs(pid int) bool {
	switch runtime.GOOS {
	case "windows":
		return false
	case "linux": // one that has ended may wait for its parent to notice
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := bytes.Cut(stat, []byte(") "))
		return err == nil && !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X"))
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}
