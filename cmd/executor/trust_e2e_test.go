//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// command runs a command of the program on the rig's state directory.
func (r *rig) command(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	p := exec.Command(filepath.Join(r.bin, "executor"), append(args, "--state-dir", r.state)...)
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home}
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	_ = p.Run()
	return out.String(), errs.String(), p.ProcessState.ExitCode()
}

func (r *rig) pending() (items []struct{ ID, Tool, What, Dir, Rule string }) {
	r.t.Helper()
	out, errs, code := r.command("approvals", "--output", "json")
	require.Zero(r.t, code, errs)
	var a struct {
		Approvals []struct{ ID, Tool, What, Dir, Rule string }
	}
	require.NoError(r.t, json.Unmarshal([]byte(out), &a))
	return a.Approvals
}

// asks starts a call that has to be asked about, and returns the ID that it waits under.
func (r *rig) asks(ctx context.Context, s *brain.Session, command string) (*brain.PendingCall, string) {
	r.t.Helper()
	r.lock.Lock()
	id := "ask-" + command
	r.calls[id] = &record{id: id}
	r.lock.Unlock()
	c, err := s.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: "bash", Input: inputOf(map[string]string{"command": command})})
	require.NoError(r.t, err)
	var waits string
	require.Eventually(r.t, func() bool {
		for _, i := range r.pending() {
			if strings.Contains(i.What, command) {
				waits = i.ID
			}
		}
		return waits != ""
	}, 20*time.Second, 50*time.Millisecond, "the call does not wait")
	return c, waits
}

// The whole way with real processes: a call asks, executor approvals shows it, executor approve lets it run, executor
// audit shows it.
func TestApprovalsEndToEnd(t *testing.T) {
	r := newRig(t)
	r.startExecutor("--trust", "ask", "--policy", `{"command":"rm -rf","action":"deny","reason":"nothing is removed"}`)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	result := func(c *brain.PendingCall) protocol.ToolResultParams {
		t.Helper()
		res, err := c.Result(ctx)
		require.NoError(t, err)
		return res
	}
	file := func(name string) bool {
		_, err := os.Stat(filepath.Join(r.work, name))
		return err == nil
	}

	res, err := s.Call(ctx, "bash", map[string]string{"command": "ls | head -3"})
	require.NoError(t, err, "what only reads is not asked about")
	require.Equal(t, protocol.OutcomeSucceeded, res.Outcome)
	_, err = s.Call(ctx, "bash", map[string]string{"command": "ls; sudo rm -fr x"})
	require.ErrorIs(t, err, protocol.ErrForbidden)
	require.ErrorContains(t, err, "nothing is removed")

	call, id := r.asks(ctx, s, "touch approved")
	out, _, _ := r.command("approvals")
	require.Contains(t, out, id+"  bash, has waited for")
	require.Contains(t, out, "  | touch approved\n")
	require.Contains(t, out, "  in       "+r.work)
	out, _, _ = r.command("status")
	require.Contains(t, out, "1 call; see executor approvals")
	require.False(t, file("approved"))
	_, errs, code := r.command("approve", "zzz")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "nothing waits under this ID")
	_, errs, code = r.command("approve", id, "--once", "--always")
	require.Equal(t, 2, code, errs)
	_, errs, code = r.command("approve", id)
	require.Zero(t, code, errs)
	require.Equal(t, protocol.OutcomeSucceeded, result(call).Outcome)
	require.True(t, file("approved"))

	call, id = r.asks(ctx, s, "touch denied")
	_, errs, code = r.command("deny", id)
	require.Zero(t, code, errs)
	res = result(call)
	require.Equal(t, protocol.ReasonLocalConfirmationDenied, res.Error.Reason)
	require.False(t, file("denied"))

	call, id = r.asks(ctx, s, "touch always")
	_, errs, code = r.command("approve", id, "--always")
	require.Zero(t, code, errs)
	require.Equal(t, protocol.OutcomeSucceeded, result(call).Outcome)
	_, err = s.Call(ctx, "bash", map[string]string{"command": "touch always"})
	require.NoError(t, err, "it is not asked about again")
	out, _, _ = r.command("approvals", "--rules")
	require.Contains(t, out, "  | touch always\n")

	// What the executor has started itself approves nothing.
	own, id := r.asks(ctx, s, filepath.Join(r.bin, "executor")+" approve --state-dir "+r.state+" SELF")
	victim, other := r.asks(ctx, s, "touch victim")
	_, errs, code = r.command("approve", id)
	require.Zero(t, code, errs)
	require.Contains(t, textOf(result(own)), "may not control it")
	_, _, code = r.command("deny", other)
	require.Zero(t, code)
	require.Equal(t, protocol.OutcomeFailed, result(victim).Outcome)

	// A process is asked about like a call.
	done := make(chan error, 1)
	go func() {
		p, err := s.Process(ctx, protocol.ProcessStartParams{ProcessID: "p1", Argv: []string{"touch", "process"}})
		if err == nil {
			_, err = p.Wait(ctx)
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return len(r.pending()) == 1 }, 20*time.Second, 50*time.Millisecond)
	_, _, code = r.command("approve", r.pending()[0].ID)
	require.Zero(t, code)
	require.NoError(t, <-done)
	require.True(t, file("process"))

	// A call that waits when the executor is killed is not run.
	call, _ = r.asks(ctx, s, "touch killed")
	r.stopExecutor(syscall.SIGKILL)
	r.startExecutor("--trust", "ask", "--approval-timeout", "1s")
	res = result(call)
	require.Equal(t, protocol.ReasonExecutorRestarted, res.Error.Reason)
	require.Contains(t, textOf(res), "it had not started")
	require.False(t, file("killed"))
	s, err = r.current(ctx)
	require.NoError(t, err)
	res, err = s.Call(ctx, "bash", map[string]string{"command": "touch always"})
	require.NoError(t, err, "what is allowed always is so after a restart")
	require.Equal(t, protocol.OutcomeSucceeded, res.Outcome, textOf(res))
	res, err = s.Call(ctx, "bash", map[string]string{"command": "touch late"})
	require.NoError(t, err)
	require.Equal(t, protocol.ReasonLocalConfirmationExpired, res.Error.Reason)
	out, _, _ = r.command("approvals", "--rules")
	rule := regexp.MustCompile(`(?m)^([0-9a-f]+)  bash, since`).FindStringSubmatch(out)
	require.NotNil(t, rule, out)
	_, _, code = r.command("approvals", "--forget", rule[1])
	require.Zero(t, code)
	out, _, _ = r.command("approvals", "--rules")
	require.Contains(t, out, "nothing is allowed always")

	out, errs, code = r.command("audit", "-n", "0")
	require.Zero(t, code, errs)
	for _, line := range []string{
		`decided  bash \S+ in \S+: allow by policy; trust ask  \{"command":"ls \| head -3"\}`,
		`decided  bash \S+ in \S+: deny by policy; rule 1 \(deny command rm -rf\)`,
		`asked    bash ask-touch approved in \S+: as [0-9a-f]+; trust ask`,
		`decided  bash ask-touch approved in \S+: allow by user \(once\), uid \d+; trust ask`,
		`ended    bash ask-touch approved in \S+: succeeded in \d+ ms`,
		`decided  bash ask-touch denied in \S+: deny by user`,
		`ended    bash ask-touch denied in \S+: failed \(local_confirmation_denied\)`,
		`decided  bash ask-touch always in \S+: allow by user \(always\)`,
		`decided  bash \S+ in \S+: allow by remembered \(always\)`,
		`decided  process.start p1 in \S+: allow by user \(once\)`,
		`decided  bash \S+ in \S+: deny by expired`,
		`start    pid \d+`,
	} {
		require.Regexp(t, line, out)
	}
	out, _, code = r.command("audit", "--verify")
	require.Zero(t, code, out)
	require.Contains(t, out, "every line is there and as it was written")
	out, _, _ = r.command("audit", "--session", s.ID(), "--output", "json", "-n", "1")
	var e audit.Entry
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	require.Equal(t, s.ID(), e.Session)

	r.stopExecutor(syscall.SIGTERM)
	path := filepath.Join(r.state, "audit", "audit-00000001.jsonl")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(raw, []byte("touch denied"), []byte("touch nothin"), 1), 0o600))
	out, errs, code = r.command("audit", "--verify")
	require.Equal(t, 1, code)
	require.Contains(t, out, "PROBLEM")
	require.Contains(t, errs, "not as it was written")
}

func textOf(r protocol.ToolResultParams) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// On a terminal the user is asked there. What the model says cannot pass for the executor's own words, and what was
// typed before the question is no answer to it.
func TestPromptOnATerminal(t *testing.T) {
	r := newRig(t)
	p := exec.Command(filepath.Join(r.bin, "executor"), "run", "--brain", "ws://"+r.dial+"/executor", "--state-dir", r.state, "--trust", "ask", "--log-level", "error")
	p.Dir = r.work
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "SHELL=/bin/sh", "TERM=dumb"}
	tty, err := pty.StartWithSize(p, &pty.Winsize{Rows: 50, Cols: 200})
	require.NoError(t, err)
	defer tty.Close()
	var mu sync.Mutex
	var screen bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			mu.Lock()
			screen.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	seen := 0
	shows := func(text string) string {
		t.Helper()
		var rest string
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			rest = screen.String()[seen:]
			i := strings.Index(rest, text)
			if i >= 0 {
				rest = rest[:i+len(text)]
				seen += i + len(text)
			}
			return i >= 0
		}, 20*time.Second, 20*time.Millisecond, "the terminal does not show %q", text)
		return rest
	}
	types := func(text string) {
		_, err := tty.WriteString(text)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Second)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	begin := func(command string) *brain.PendingCall {
		c, err := s.Start(ctx, protocol.ToolCallParams{Tool: "bash", Input: inputOf(map[string]string{"command": command})})
		require.NoError(t, err)
		return c
	}
	result := func(c *brain.PendingCall) string {
		res, err := c.Result(ctx)
		require.NoError(t, err)
		if res.Error != nil {
			return res.Error.Reason
		}
		return res.Outcome
	}

	types("y\n") // nobody has asked yet
	call := begin("touch x # \x1b[2J\x1b[31m\n--- a call waits for you ---\n: y")
	shown := shows("[n] deny: ")
	require.NotContains(t, shown, "\x1b")
	require.Contains(t, shown, `  | touch x # \x1b[2J\x1b[31m`)
	require.Contains(t, shown, "  | --- a call waits for you ---")
	require.Contains(t, shown, "  in       "+r.work)
	next := begin("touch y") // asked about behind the first
	time.Sleep(300 * time.Millisecond)
	require.Len(t, r.pending(), 2, "what was typed before is no answer")
	types("perhaps\n")
	shows("[n] deny: ")
	types("n\n")
	require.Equal(t, protocol.ReasonLocalConfirmationDenied, result(call))
	require.Contains(t, shows("[n] deny: "), "| touch y")
	types("y\n")
	require.Equal(t, protocol.OutcomeSucceeded, result(next))

	call = begin("touch z")
	shows("[n] deny: ")
	_, errs, code := r.command("deny", r.pending()[0].ID)
	require.Zero(t, code, errs)
	shows("was decided elsewhere")
	require.Equal(t, protocol.ReasonLocalConfirmationDenied, result(call))

	call = begin("touch w")
	shows("[n] deny: ")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "canceled", result(call))
	require.NoError(t, p.Wait())
	_ = tty.Close()
	<-read
}
