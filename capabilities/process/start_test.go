//go:build unix

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShortCommand(t *testing.T) {
	b := newBench(t, Options{})
	s := b.run(sh("p", `printf out; printf err >&2; exit 3`))
	assert.Equal(t, protocol.ProcessExited, s.State)
	assert.Equal(t, 3, *s.ExitCode)
	assert.Empty(t, s.ExitSignal)
	assert.Empty(t, s.Reason)
	assert.True(t, s.Accepted)
	assert.NotZero(t, s.PID)
	assert.False(t, s.EndedAt.Before(s.StartedAt.Time))
	assert.Equal(t, protocol.ProcessCursors{Stdout: 3, Stderr: 3}, s.Cursors)
	assert.Equal(t, protocol.StderrSeparate, s.Stderr)
	assert.Equal(t, "out", b.all("p", ""))
	assert.Equal(t, "err", b.all("p", protocol.StreamStderr))

	status := b.ended("p")
	assert.Equal(t, protocol.ProcessExited, status.State)
	assert.Equal(t, 3, *status.ExitCode)
	assert.Equal(t, s.EndedAt, status.EndedAt)
	assert.False(t, status.ObservedAt.IsZero())
}

func TestMergedStderr(t *testing.T) {
	b := newBench(t, Options{})
	p := sh("p", `echo 1; echo 2 >&2; echo 3`)
	p.Stderr = protocol.StderrMerge
	s := b.run(p)
	assert.Equal(t, protocol.StderrMerge, s.Stderr)
	assert.Equal(t, "1\n2\n3\n", b.all("p", ""))
	assert.Empty(t, b.all("p", protocol.StreamStderr))
}

// A process is started once, however often and however simultaneously it is asked for.
func TestStartOnce(t *testing.T) {
	b := newBench(t, Options{})
	p := sh("p", `echo run >> counter; echo ran; sleep 60`)
	var all sync.WaitGroup
	pids := make([]int, 20)
	for i := range pids {
		all.Go(func() {
			if s, err := b.try(p); assert.NoError(t, err) {
				pids[i] = s.PID
			}
		})
	}
	all.Wait()
	for _, pid := range pids {
		assert.Equal(t, pids[0], pid)
	}
	same := p
	same.IOMode, same.Stdin, same.Stderr, same.OnFull = protocol.IOModePipes, protocol.StdinClosed, protocol.StderrSeparate, protocol.OnFullDrop
	same.WaitMS = 1
	assert.Equal(t, pids[0], b.start(same).PID, "what is absent means the same as its default")

	other := p
	other.Env = map[string]string{"X": "1"}
	_, err := b.try(other)
	requireError(t, err, protocol.CodeConflict, protocol.ReasonProcessIDSpecMismatch)

	b.until("p", "", "ran")
	b.signal(protocol.ProcessTerminate, "p", 0)
	again := b.start(p)
	assert.Equal(t, protocol.ProcessKilled, again.State, "also after the end")
	text, err := os.ReadFile(filepath.Join(b.dir, "counter"))
	require.NoError(t, err)
	assert.Equal(t, "run\n", string(text))
}

func TestStartRefuses(t *testing.T) {
	b := newBench(t, Options{})
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "plain"), nil, 0o600))
	for name, c := range map[string]struct {
		change func(*protocol.ProcessStartParams)
		code   protocol.Code
		reason string
		says   string
	}{
		"no program":    {func(p *protocol.ProcessStartParams) { p.Argv = []string{""} }, protocol.CodeInvalidParams, "", "argv"},
		"nothing":       {func(p *protocol.ProcessStartParams) { p.Argv = nil }, protocol.CodeInvalidParams, "", "exactly one"},
		"NUL":           {func(p *protocol.ProcessStartParams) { p.Argv = []string{"a\x00b"} }, protocol.CodeInvalidParams, "", "NUL"},
		"variable":      {func(p *protocol.ProcessStartParams) { p.Env = map[string]string{"a=b": "c"} }, protocol.CodeInvalidParams, "", "a=b"},
		"mode":          {func(p *protocol.ProcessStartParams) { p.IOMode = "tty" }, protocol.CodeInvalidParams, "", "io_mode"},
		"outside":       {func(p *protocol.ProcessStartParams) { p.Cwd = "/etc" }, protocol.CodeForbidden, protocol.ReasonWorkspaceBoundary, "/etc"},
		"sibling":       {func(p *protocol.ProcessStartParams) { p.Cwd = b.dir + "-secret" }, protocol.CodeForbidden, protocol.ReasonWorkspaceBoundary, ""}, // case 81
		"no directory":  {func(p *protocol.ProcessStartParams) { p.Cwd = "plain" }, protocol.CodeNotFound, "", "plain"},
		"missing":       {func(p *protocol.ProcessStartParams) { p.Cwd = "nowhere" }, protocol.CodeNotFound, "", "nowhere"},
		"unknown":       {func(p *protocol.ProcessStartParams) { p.Argv = []string{"no-such-program"} }, protocol.CodeResourceUnavailable, protocol.ReasonSpawnFailed, "command not found"},
		"not a program": {func(p *protocol.ProcessStartParams) { p.Argv = []string{"./plain"} }, protocol.CodeResourceUnavailable, protocol.ReasonSpawnFailed, "permission denied"},
		"too long": {func(p *protocol.ProcessStartParams) { p.Argv = []string{"echo", strings.Repeat("x", 3<<20)} }, protocol.CodeResourceUnavailable,
			protocol.ReasonSpawnFailed, "argument list too long"},
		"install": {func(p *protocol.ProcessStartParams) {
			p.Argv, p.PackageInstall = nil, &protocol.PackageInstall{Manager: "apt", Packages: []string{"x"}}
		}, protocol.CodeCapabilityUnavailable, "", "package_install"},
		"transfer": {func(p *protocol.ProcessStartParams) {
			p.Argv, p.FileTransfer = nil, &protocol.FileTransfer{Direction: "upload"}
		},
			protocol.CodeCapabilityUnavailable, "", "file_transfer"},
		"credentials": {func(p *protocol.ProcessStartParams) {
			p.GitCredentials = []protocol.GitCredential{{Host: "h", Token: "t"}}
		},
			protocol.CodeCapabilityUnavailable, "", "git_credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sh("p", "true")
			c.change(&p)
			_, err := b.try(p)
			e := requireError(t, err, c.code, c.reason)
			assert.Contains(t, e.Message, c.says)
			if c.code == protocol.CodeCapabilityUnavailable {
				assert.Equal(t, "process."+c.says, e.Data.Capability)
			}
			assert.False(t, e.Data.Retryable)
		})
	}
	assert.Empty(t, b.list(), "nothing is left of what did not start")
	assert.Equal(t, protocol.ProcessExited, b.run(sh("p", "true")).State, "and its id is free")
}

func TestDirectoryAndEnvironment(t *testing.T) {
	t.Setenv("SOME_SECRET_IN_A_VALUE", "x the-secret y")
	b := newBench(t, Options{Secrets: []string{"the-secret"}})
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "sub"), 0o700))
	p := sh("p", `pwd; env`)
	p.Cwd = "sub"
	p.Env = map[string]string{"EXPLICIT": "one", "EDITOR": "mine"}
	b.run(p)
	out := b.all("p", "")
	assert.True(t, strings.HasPrefix(out, filepath.Join(b.dir, "sub")+"\n"))
	for _, line := range []string{"SESSION_VARIABLE=of the session", "EXPLICIT=one", "EDITOR=mine", "GIT_TERMINAL_PROMPT=0", "TERM=dumb"} {
		assert.Contains(t, out, line+"\n")
	}
	assert.NotContains(t, out, "the-executors-own") // case 36
	assert.NotContains(t, out, "SOME_API_KEY")
	assert.NotContains(t, out, "the-secret")
}

func TestLimits(t *testing.T) {
	b := newBench(t, Options{MaxProcesses: 2})
	b.start(sh("a", "sleep 60"))
	b.start(sh("b", "sleep 60"))
	_, err := b.try(sh("c", "true"))
	e := requireError(t, err, protocol.CodeResourceUnavailable, "")
	assert.True(t, e.Data.Retryable)
	assert.Equal(t, protocol.ProcessRunning, b.start(sh("a", "sleep 60")).State, "a repeat is none more")
	b.signal(protocol.ProcessTerminate, "a", 0)
	b.run(sh("c", "true")) // what has ended does not count
}

// A process belongs to its session (X10).
func TestOtherSession(t *testing.T) {
	h := capabilitytest.NewHost(t, New(Options{LoginEnv: map[string]string{}}))
	mine, other := benchOn(t, h), benchOn(t, h)
	mine.start(sh("p", "sleep 60"))
	_, err := other.read(protocol.ProcessReadParams{ProcessID: "p"})
	requireError(t, err, protocol.CodeNotFound, "")
	_, err = other.write(protocol.ProcessWriteParams{ProcessID: "p"})
	requireError(t, err, protocol.CodeNotFound, "")
	for _, m := range []protocol.Method[protocol.ProcessSignalParams, protocol.ProcessState]{protocol.ProcessInterrupt, protocol.ProcessTerminate} {
		_, err = capabilitytest.Do(other.ctx, other.Session, m, protocol.ProcessSignalParams{SessionID: other.ID(), ProcessID: "p"})
		requireError(t, err, protocol.CodeNotFound, "")
	}
	assert.Empty(t, other.list())
	assert.Equal(t, protocol.ProcessExited, other.run(sh("p", "true")).State, "the id is free there")
	assert.Equal(t, protocol.ProcessRunning, mine.list()[0].State)
}

// Of those that have ended the newest are kept (case 139), and what is gone is not started again.
func TestFinishedAreForgotten(t *testing.T) {
	b := newBench(t, Options{KeepFinished: 3})
	b.start(sh("live", "sleep 60"))
	for i := range 6 {
		b.run(sh(fmt.Sprint(i), "echo run >> counter"))
	}
	var ids []string
	for _, s := range b.list() {
		ids = append(ids, s.ProcessID)
	}
	assert.Equal(t, []string{"live", "3", "4", "5"}, ids)
	_, err := b.read(protocol.ProcessReadParams{ProcessID: "2"})
	requireError(t, err, protocol.CodeNotFound, "")
	_, err = b.try(sh("2", "echo run >> counter"))
	requireError(t, err, protocol.CodeNotFound, "")
	text, err := os.ReadFile(filepath.Join(b.dir, "counter"))
	require.NoError(t, err)
	assert.Equal(t, 6, strings.Count(string(text), "run"))
}

func TestFinishedAreForgottenInTime(t *testing.T) {
	b := newBench(t, Options{KeepFor: 1})
	b.run(sh("p", "true"))
	assert.Empty(t, b.list())
}
