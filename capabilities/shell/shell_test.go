//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	os.Setenv("EXECUTOR_TOKEN", "the-executors-own")
	os.Setenv("SOME_API_KEY", "sk-0123456789abcdef0123")
	goleak.VerifyTestMain(m)
}

// bench is a session with the capability installed.
type bench struct {
	t   *testing.T
	dir string
	*capabilitytest.Session
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	if o.LoginEnv == nil {
		o.LoginEnv = map[string]string{}
	}
	s := capabilitytest.NewHost(t, New(o)).NewSession(t, capabilitytest.Options{Env: map[string]string{"SESSION_VARIABLE": "of the session"}})
	return &bench{t: t, dir: s.Workspace().Dir(), Session: s}
}

// result is a tool.result as a brain reads it.
type result struct {
	program.Report
	outcome string
	text    string // of the tool itself, without the words of the error
	isError bool
	err     *protocol.Error // the refusal, or the error of the result
}

func (b *bench) call(ctx context.Context, input any) result {
	b.t.Helper()
	got, err := capabilitytest.CallContext(ctx, b.t, b.Session, "bash", input)
	if err != nil {
		var e *protocol.Error
		require.ErrorAs(b.t, err, &e)
		return result{err: e}
	}
	r := result{outcome: got.Outcome, isError: got.IsError}
	blocks := got.Content
	if got.Error != nil {
		r.err = protocol.Errorf(got.Error.Code, "%s", got.Error.Message).WithReason(got.Error.Reason)
		assert.False(b.t, got.Error.Retryable, "a command is not repeated blindly")
		blocks = blocks[:len(blocks)-1]
	}
	for _, c := range blocks {
		r.text += c.Text
	}
	if got.Structured != nil {
		require.NoError(b.t, json.Unmarshal(got.Structured, &r.Report))
	}
	return r
}

func (b *bench) run(command string) result {
	b.t.Helper()
	return b.call(context.Background(), map[string]any{"command": command})
}

func (b *bench) limited(command string, ms int) result {
	b.t.Helper()
	return b.call(context.Background(), map[string]any{"command": command, "timeout_ms": ms})
}

// unique is a number of seconds that nobody else on this machine sleeps for. It does not end in 0, which
// perl would leave out.
func unique(n int) string { return fmt.Sprintf("%d.%d1", n, os.Getpid()) }

// freePort is a port of this machine that nobody listens on.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// running says whether a process with this command line is there.
func running(t *testing.T, pattern string) bool {
	t.Helper()
	err := exec.Command("pgrep", "-f", pattern).Run()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit) && exit.ExitCode() == 1, "%v", err)
	return err == nil
}

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return New(Options{}) })
}

func TestResults(t *testing.T) {
	b := newBench(t, Options{})
	for name, test := range map[string]struct {
		command        string
		stdout, stderr string
		code           int
		text           string
	}{
		"both streams":        {`echo out; echo err >&2; exit 3`, "out\n", "err\n", 3, "out\n[stderr]\nerr\n[exit code 3]\n"},
		"nothing":             {`true`, "", "", 0, "[no output, exit code 0]\n"},
		"case 6":              {`grep zzz /dev/null`, "", "", 1, "[exit code 1]\n"},
		"case 5":              {`sleep 0.2 & wait; echo END`, "END\n", "", 0, "END\n"},
		"case 19":             {`exec 1>&-; sleep 0.1; echo LATE >&2; exit 4`, "", "LATE\n", 4, "LATE\n[exit code 4]\n"},
		"case 24":             {`printf 'cleanup \xe2'; sleep 0.1; printf '\x80\x94 end\n'`, "cleanup — end\n", "", 0, "cleanup — end\n"},
		"case 24, stderr":     {`{ printf '\xe2'; sleep 0.1; printf '\x80\x94\n'; } >&2`, "", "—\n", 0, "—\n"},
		"case 26":             {`printf 'h\0e\0l\0l\0o\0'`, "hello", "", 0, "hello\n[5 NUL bytes of the output were removed]\n"},
		"case 28":             {`printf '\xff\xfe\x80abc\n'; exit 3`, "\ufffd\ufffd\ufffdabc\n", "", 3, "\ufffd\ufffd\ufffdabc\n[3 bytes of the output were not UTF-8 and are shown as U+FFFD]\n[exit code 3]\n"},
		"case 47, heredoc":    {"cat <<EOF\na\nEOF", "a\n", "", 0, "a\n"},
		"case 47, quoted":     {"cat - <<'PY'\nprint(1)\nPY", "print(1)\n", "", 0, "print(1)\n"},
		"case 47, comment":    {`echo hi # note`, "hi\n", "", 0, "hi\n"},
		"case 47, backslash":  {`echo hi \`, "hi\n", "", 0, "hi\n"},
		"case 47, background": {`sleep 0.05 &`, "", "", 0, "[no output, exit code 0]\n"},
		"case 149":            {`: '` + strings.Repeat("x", 300_000) + `'; echo ok`, "ok\n", "", 0, "ok\n"},
		"standard input":      {`cat; readlink /proc/self/fd/0`, "/dev/null\n", "", 0, "/dev/null\n"},
		"no terminal":         {`tty; : </dev/tty || echo none`, "not a tty\nnone\n", "bash: line 1: /dev/tty: No such device or address\n", 0, ""},
		"unfinished quote":    {`echo 'unclosed`, "", "bash: -c: line 1: unexpected EOF while looking for matching `''\n", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.run(test.command)
			require.Nil(t, r.err)
			assert.Equal(t, test.stdout, r.Stdout)
			assert.Equal(t, test.stderr, r.Stderr)
			require.NotNil(t, r.ExitCode)
			assert.Equal(t, test.code, *r.ExitCode)
			assert.Equal(t, test.code != 0, r.isError)
			assert.Equal(t, protocol.OutcomeSucceeded, r.outcome)
			assert.False(t, r.TimedOut || r.Truncated)
			assert.Empty(t, r.Survivors)
			if test.text != "" && name != "case 47, background" {
				assert.Equal(t, test.text, r.text)
			}
		})
	}
}

// The structured result has every field, also the empty ones.
func TestStructuredShape(t *testing.T) {
	got, err := capabilitytest.Call(t, newBench(t, Options{}).Session, "bash", map[string]any{"command": "true"})
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(got.Structured, &fields))
	assert.Contains(t, fields, "duration_ms")
	delete(fields, "duration_ms")
	assert.Equal(t, map[string]any{"stdout": "", "stderr": "", "exit_code": 0.0, "timed_out": false, "truncated": false,
		"background": []any{}, "survivors": []any{}}, fields)
}

// Cases 1 and 2: the call ends with its shell; what goes on is listed, reaches no other call, and ends
// with the session.
func TestBackground(t *testing.T) {
	for i, command := range []string{
		`{ while :; do echo tick; sleep 0.05; done; } & echo done`,
		`sleep 8101 >/dev/null & echo done`,
		`setsid sleep 8101 & echo done`,
		`( sleep 8101 & ); echo done`,
		`coproc sleep 8101; echo done`,
		`sleep 8101 >/dev/null 2>&1 & echo done`,
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			command := strings.ReplaceAll(command, "8101", unique(8101+i))
			b := newBench(t, Options{})
			started := time.Now()
			r := b.run(command)
			assert.Less(t, time.Since(started), prompt)
			require.Nil(t, r.err)
			assert.Equal(t, 0, *r.ExitCode)
			assert.Contains(t, r.Stdout, "done\n")
			require.NotEmpty(t, r.Background)
			assert.Positive(t, r.Background[0].PID)
			assert.Contains(t, r.text, "[still running in the background: pid "+strconv.Itoa(r.Background[0].PID))
			assert.Equal(t, "NEXT\n", b.run(`sleep 0.2; echo NEXT`).Stdout)
			b.End()
			assert.False(t, running(t, `sleep `+unique(8101+i)))
			state, _ := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(r.Background[0].PID)).Output()
			assert.Contains(t, []string{"", "Z"}, strings.TrimSpace(string(state)), "gone, or left to init to be reaped")
		})
	}
}

// prompt is much less than what is not waited for, and enough for a busy machine.
const prompt = 20 * time.Second

var counter atomic.Int64 // makes the sleeps of parallel tests different ones

// Cases 5, 7, 8, 18, 23, X6: a timeout ends everything, is told as one, and keeps what was printed.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		command        string
		stdout, stderr string
	}{
		"case 7":            {`sleep 8201 & wait`, "", ""},
		"case 8, session":   {`setsid sleep 8201 & wait`, "", ""},
		"case 8, job":       {`set -m; sleep 8201 & wait`, "", ""},
		"case 8, two forks": {`perl -e 'use POSIX; fork and exit; setsid(); fork and exit; exec q(sleep),8201'; sleep 60`, "", ""},
		"case 18":           {`echo BEFORE; trap 'echo CLEANUP >&2; exit 9' TERM; sleep 8201 & wait`, "BEFORE\n", "CLEANUP\n"},
		"case 23, dots":     {`while :; do echo .; sleep 0.1; done`, ".\n", ""},
		"case X6":           {`trap 'exit 0' TERM; sleep 8201 & wait`, "", ""},
		"ignores TERM":      {`trap '' TERM; echo deaf; sleep 8201; sleep 8201`, "deaf\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Options{Grace: 300 * time.Millisecond})
			number := unique(82_000 + int(counter.Add(1)))
			started := time.Now()
			r := b.limited(strings.ReplaceAll(test.command, "8201", number), 500)
			assert.Less(t, time.Since(started), prompt)
			require.NotNil(t, r.err)
			assert.ErrorIs(t, r.err, protocol.ErrTimeout)
			assert.Equal(t, protocol.OutcomeFailed, r.outcome)
			assert.Equal(t, "timeout", r.err.Data.Reason)
			assert.True(t, r.TimedOut)
			assert.Nil(t, r.ExitCode)
			assert.Empty(t, r.ExitSignal)
			assert.Empty(t, r.Survivors)
			assert.Contains(t, r.Stdout, test.stdout)
			assert.Contains(t, r.Stderr, test.stderr)
			assert.Regexp(t, `\[timed out after \d+ ms; the command was ended\]\n$`, r.text)
			assert.False(t, running(t, "sleep "+number))
		})
	}
}

// Case 23: a flood is bounded in memory and ended in time.
func TestFloodTimesOut(t *testing.T) {
	b := newBench(t, Options{SpillBytes: 1 << 20})
	started := time.Now()
	r := b.limited(`yes`, 500)
	assert.Less(t, time.Since(started), prompt)
	assert.True(t, r.TimedOut && r.Truncated)
	assert.True(t, strings.HasPrefix(r.text, "y\ny\n"))
	assert.Contains(t, r.text, "holds the first 1048576 bytes of the output")
	info, err := os.Stat(filepath.Join(b.dir, r.OutputFile))
	require.NoError(t, err)
	assert.Equal(t, int64(1<<20), info.Size())
	assert.Less(t, len(r.text), protocol.DefaultInlineResult)
	sent := 0
	for _, p := range capabilitytest.Notified(t, b.Host.Peer, protocol.ToolProgress) {
		sent += len(p.Data)
	}
	assert.Positive(t, sent)
	assert.LessOrEqual(t, sent, 2*(64<<10), "the connection is not flooded")
}

// Case 9: a canceled command that ignores SIGTERM has let go of its port when the call ends.
func TestCancel(t *testing.T) {
	port := freePort(t)
	for range 2 {
		b := newBench(t, Options{Grace: 200 * time.Millisecond})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			defer cancel()
			capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ToolProgress, func(p protocol.ToolProgressParams) bool {
				return p.Stream == protocol.StreamStdout && string(p.Data) == "bound\n"
			})
		})
		r := b.call(ctx, map[string]any{"command": `trap '' TERM; perl -MIO::Socket::INET -e '$|=1; my $s = IO::Socket::INET->new(LocalAddr=>"127.0.0.1:` + port + `",Listen=>1) or die "taken\n"; print "bound\n"; sleep 60' & wait`})
		wg.Wait()
		assert.Equal(t, protocol.OutcomeCanceled, r.outcome)
		assert.ErrorIs(t, r.err, protocol.ErrCanceled)
		assert.Equal(t, "bound\n", r.Stdout)
		assert.Empty(t, r.Survivors)
		assert.False(t, r.TimedOut)
		assert.Contains(t, r.text, "[canceled after")
	}
}

func TestDeadline(t *testing.T) {
	b := newBench(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	r := b.call(ctx, map[string]any{"command": `echo so far; sleep 60`})
	assert.ErrorIs(t, r.err, protocol.ErrTimeout)
	assert.ErrorContains(t, r.err, "deadline")
	assert.Equal(t, "so far\n", r.Stdout)
	assert.True(t, r.TimedOut)
}

// Case 10: nothing changes the workspace after the failure was told.
func TestNothingAfterTheEnd(t *testing.T) {
	b := newBench(t, Options{})
	b.limited(`(sleep 0.6; touch sentinel) & sleep 60`, 300)
	time.Sleep(600 * time.Millisecond)
	assert.NoFileExists(t, filepath.Join(b.dir, "sentinel"))
}

// Case 13: a cancel at the moment of the end: one answer or the other.
func TestCancelRacesTheExit(t *testing.T) {
	b := newBench(t, Options{})
	for i := range 40 {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Duration(i)*200*time.Microsecond+2*time.Millisecond, nil)
		canceling, stop := context.WithCancel(context.Background())
		context.AfterFunc(ctx, stop)
		r := b.call(canceling, map[string]any{"command": `exit 7`})
		if r.err != nil {
			assert.ErrorIs(t, r.err, protocol.ErrCanceled)
			assert.Nil(t, r.ExitCode)
		} else {
			require.NotNil(t, r.ExitCode)
			assert.Equal(t, 7, *r.ExitCode)
			assert.True(t, r.isError)
		}
		<-canceling.Done()
		cancel()
	}
}

// Case X5.
func TestSignal(t *testing.T) {
	r := newBench(t, Options{}).run(`kill -9 $$`)
	require.Nil(t, r.err)
	assert.Equal(t, 137, *r.ExitCode)
	assert.Equal(t, "SIGKILL", r.ExitSignal)
	assert.True(t, r.isError)
	assert.Equal(t, "[ended by SIGKILL, exit code 137]\n", r.text)
}

// Case 20: beginning, end, exact count, and the whole of it in a file.
func TestLongOutput(t *testing.T) {
	b := newBench(t, Options{})
	r := b.run(`seq 1 200000; echo 'FAILED t_x - 3 failed, 10 passed'; exit 1`)
	require.Nil(t, r.err)
	assert.Equal(t, 1, *r.ExitCode)
	assert.True(t, r.Truncated)
	assert.LessOrEqual(t, len(r.text), protocol.DefaultInlineResult)
	assert.True(t, strings.HasPrefix(r.text, "1\n2\n3\n"))
	assert.True(t, strings.HasSuffix(r.text, "\nFAILED t_x - 3 failed, 10 passed\n[exit code 1]\n"))
	whole, err := os.ReadFile(filepath.Join(b.dir, r.OutputFile))
	require.NoError(t, err)
	head, rest, ok := strings.Cut(r.Stdout, "[… ")
	require.True(t, ok)
	note, tail, _ := strings.Cut(rest, " …]\n")
	omitted, _, _ := strings.Cut(note, " ")
	n, err := strconv.Atoi(omitted)
	require.NoError(t, err)
	assert.Equal(t, len(whole), len(head)+len(tail)+n)
	assert.True(t, strings.HasPrefix(string(whole), head) && strings.HasSuffix(string(whole), tail))
	assert.Contains(t, note, r.OutputFile)
}

// Where no file can be made, the result says so and is there all the same.
func TestLongOutputInReadOnlyWorkspace(t *testing.T) {
	dir := t.TempDir()
	workspace, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir, ReadOnly: true}})
	require.NoError(t, err)
	defer workspace.Close()
	host := capabilitytest.NewHost(t, New(Options{LoginEnv: map[string]string{}}))
	b := &bench{t: t, dir: dir, Session: host.NewSession(t, capabilitytest.Options{Workspace: workspace})}
	defer b.End()
	r := b.run(`seq 1 200000; echo VERDICT`)
	require.Nil(t, r.err)
	assert.True(t, r.Truncated)
	assert.Empty(t, r.OutputFile)
	assert.Contains(t, r.text, "VERDICT\n[the whole output could not be kept: open spill file: ")
}

// Both streams long: each gets its share, and the text stays within the limit.
func TestLongOnBothStreams(t *testing.T) {
	r := newBench(t, Options{InlineBytes: 6 << 10}).run(`seq 1 20000; echo OUT; seq 1 20000 >&2; echo ERR >&2`)
	assert.LessOrEqual(t, len(r.text), 6<<10)
	assert.Contains(t, r.Stdout, "\nOUT\n")
	assert.True(t, strings.HasSuffix(r.Stderr, "\nERR\n"))
	assert.Greater(t, len(r.Stderr), 1000)
	assert.Greater(t, len(r.Stdout), 2000)
}

// Case 29: redraws cost nothing.
func TestProgressBar(t *testing.T) {
	b := newBench(t, Options{})
	r := b.run(`perl -e 'printf "\rDownloading %5.1f%%", $_/200 for 0..20000'; echo; echo VERDICT`)
	assert.Equal(t, "Downloading 100.0%\nVERDICT\n", r.Stdout)
	assert.False(t, r.Truncated)
	raw, err := os.ReadFile(filepath.Join(b.dir, r.OutputFile))
	require.NoError(t, err)
	assert.Greater(t, len(raw), 380_000, "the raw bytes are kept")
}

// Case 36: neither the executor's credentials nor what looks like any.
func TestEnvironment(t *testing.T) {
	b := newBench(t, Options{LoginEnv: map[string]string{"PATH": "/login/tools:/usr/bin:/bin"}})
	r := b.call(context.Background(), map[string]any{"command": `env | sort`, "env": map[string]string{"GIVEN_TOKEN": "explicit", "PAGER": "less"}})
	require.Nil(t, r.err)
	assert.NotContains(t, r.Stdout, "the-executors-own")
	assert.NotContains(t, r.Stdout, "SOME_API_KEY")
	assert.NotContains(t, strings.ReplaceAll(r.Stdout, "EXECUTOR_SPAWN_ID", ""), "EXECUTOR_")
	for _, line := range []string{"SESSION_VARIABLE=of the session", "GIVEN_TOKEN=explicit", "PAGER=less", "GIT_TERMINAL_PROMPT=0", "EDITOR=true", "TERM=dumb", "PWD=" + b.dir} {
		assert.Contains(t, r.Stdout, line+"\n")
	}
	assert.Contains(t, r.Stdout, "PATH=/login/tools:/usr/bin:/bin")
}

// Case 40: a program that only the login shell's PATH has is found; one that is nowhere is named.
func TestLoginPath(t *testing.T) {
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(tools, "mytool"), []byte("#!/bin/sh\necho mine\n"), 0o700))
	b := newBench(t, Options{LoginEnv: map[string]string{"PATH": tools}})
	assert.Equal(t, "mine\n", b.run("mytool").Stdout)
	r := b.run("nosuchtool")
	assert.Equal(t, 127, *r.ExitCode)
	assert.Contains(t, r.Stderr, "command not found")
	r = b.call(context.Background(), map[string]any{"command": "true", "env": map[string]string{"PATH": "/nowhere"}})
	require.NotNil(t, r.err)
	assert.Equal(t, protocol.ReasonSpawnFailed, r.err.Data.Reason)
	assert.ErrorContains(t, r.err, "PATH=/nowhere")
}

// Cases 42 and 81: inside the roots, and there.
func TestDirectory(t *testing.T) {
	b := newBench(t, Options{})
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "sub"), 0o755))
	require.NoError(t, os.Symlink("/tmp", filepath.Join(b.dir, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600))
	require.NoError(t, os.Mkdir(b.dir+"-secret", 0o755))
	t.Cleanup(func() { os.Remove(b.dir + "-secret") })
	in := func(cwd string) result {
		return b.call(context.Background(), map[string]any{"command": "pwd; touch was-here", "cwd": cwd})
	}
	assert.Equal(t, b.dir+"\n", in("").Stdout)
	assert.Equal(t, b.dir+"/sub\n", in("sub").Stdout)
	assert.Equal(t, b.dir+"/sub\n", in(b.dir+"/sub/../sub").Stdout)
	for _, outside := range []string{"..", "/", b.dir + "-secret", "out", "sub/../../"} {
		r := in(outside)
		require.NotNil(t, r.err, outside)
		assert.Equal(t, protocol.ReasonWorkspaceBoundary, r.err.Data.Reason, outside)
	}
	assert.NoFileExists(t, b.dir+"-secret/was-here")
	r := in("gone")
	require.NotNil(t, r.err)
	assert.ErrorIs(t, r.err, protocol.ErrNotFound)
	assert.ErrorContains(t, r.err, "gone")
	require.NotNil(t, in("file").err)

	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "d/x"), 0o755))
	assert.Equal(t, "hello\n", b.run(`cd d/x && rm -rf ../x && echo hello`).Stdout)
	assert.Equal(t, b.dir+"\n", b.run(`pwd`).Stdout, "and the next call is not affected")
}

// Case 31: git asks nobody.
func TestNoPrompts(t *testing.T) {
	b := newBench(t, Options{})
	started := time.Now()
	r := b.run(`git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m && git -c user.name=a -c user.email=a@b commit -q --amend --allow-empty && git log; read -r line; echo "read: $?"`)
	assert.Less(t, time.Since(started), 5*time.Second)
	assert.Contains(t, r.Stdout, "Author: a <a@b>")
	assert.Contains(t, r.Stdout, "read: 1\n")
}

func TestInputIsChecked(t *testing.T) {
	b := newBench(t, Options{})
	for input, want := range map[string]string{
		`{}`:                                      "command",
		`{"command":""}`:                          "command",
		`{"command":" \n"}`:                       "command",
		`{"command":"a\u0000b"}`:                  "NUL",
		`{"command":"true","timeout_ms":-1}`:      "timeout_ms",
		`{"command":"true","timeout_ms":600001}`:  "600000",
		`{"command":"true","timeout_ms":9e18}`:    "timeout_ms",
		`{"command":"true","timeout":5}`:          "timeout_ms",
		`{"command":"true","env":{"A=B":"x"}}`:    "env",
		`{"command":"true","env":{"A":"\u0000"}}`: "env",
		`{"command":"true","cwd":"a\u0000b"}`:     "NUL",
		`{"command":7}`:                           "command",
	} {
		r := b.call(context.Background(), json.RawMessage(input))
		require.NotNil(t, r.err, input)
		assert.ErrorIs(t, r.err, protocol.ErrInvalidParams, input)
		assert.ErrorContains(t, r.err, want, input)
	}
}

// Parallel calls of one session do not mix.
func TestParallelCalls(t *testing.T) {
	b := newBench(t, Options{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			n := strconv.Itoa(i)
			r := b.run(`for i in 1 2 3; do echo ` + n + `; sleep 0.01; done; exit ` + n)
			if assert.NotNil(t, r.ExitCode) {
				assert.Equal(t, i, *r.ExitCode)
				assert.Equal(t, strings.Repeat(n+"\n", 3), r.Stdout)
			}
		})
	}
	wg.Wait()
}

// Case 151, smaller: a script written by one call runs at once while others are being started.
func TestFreshScripts(t *testing.T) {
	each := 4
	if os.Getenv("EXECUTOR_STRESS") != "" {
		each = 25
	}
	b := newBench(t, Options{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("s%d-%d", w, i)
				assert.Equal(t, "ran\n", b.run(`printf '#!/bin/sh\necho ran\n' > `+name+`; chmod +x `+name+`; ./`+name).Stdout)
			}
		})
	}
	wg.Wait()
}

func TestSessionsEndOnlyTheirOwn(t *testing.T) {
	one, two := newBench(t, Options{}), newBench(t, Options{})
	one.run(`sleep ` + unique(8301) + ` >/dev/null 2>&1 &`)
	two.run(`sleep ` + unique(8302) + ` >/dev/null 2>&1 &`)
	one.End()
	assert.False(t, running(t, "sleep "+unique(8301)))
	assert.True(t, running(t, "sleep "+unique(8302)))
	r := one.run(`true`)
	assert.ErrorIs(t, r.err, protocol.ErrSessionNotActive)
}

func TestAdvertised(t *testing.T) {
	b := newBench(t, Options{})
	assert.Equal(t, []string{"bash", "run_shell", "shell_task_kill", "shell_task_list", "shell_task_output"}, b.Host.Registry.ToolNames())
	raw := b.Host.Registry.Capabilities()[protocol.CapabilityShell]
	assert.JSONEq(t, `{"enabled":true}`, string(raw))
}
