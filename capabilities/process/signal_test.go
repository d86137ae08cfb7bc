//go:build unix

package process

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	require.NoError(t, err)
	return n
}

// gone says whether a process is not there, or dead.
func gone(pid int64) bool {
	if syscall.Kill(int(pid), 0) != nil {
		return true
	}
	text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

func TestInterrupt(t *testing.T) {
	b := newBench(t, Options{})
	b.start(sh("p", `trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done`))
	b.until("p", "", "ready")
	s := b.signal(protocol.ProcessInterrupt, "p", -1)
	assert.True(t, s.Accepted)
	assert.Contains(t, b.all("p", ""), "caught")
	e := b.ended("p")
	assert.Equal(t, 6, *e.ExitCode)
	assert.Empty(t, e.Reason)
	assert.Equal(t, protocol.ProcessExited, b.signal(protocol.ProcessInterrupt, "p", 0).State, "afterwards it only answers")

	b.start(sh("r", `echo ready; exec sleep 60`))
	b.until("r", "", "ready")
	b.signal(protocol.ProcessInterrupt, "r", -1)
	e = b.ended("r")
	assert.Equal(t, "SIGINT", e.ExitSignal)
	assert.Equal(t, "interrupted", e.Reason)

	b.start(sh("q", `trap '' INT; echo ready; while :; do sleep 0.05; done`))
	b.until("q", "", "ready")
	b.signal(protocol.ProcessInterrupt, "q", 60_000)
	b.signal(protocol.ProcessInterrupt, "q", 50) // the earlier end holds
	b.signal(protocol.ProcessInterrupt, "q", 60_000)
	e = b.ended("q")
	assert.Equal(t, protocol.ProcessKilled, e.State)
	assert.Equal(t, "SIGTERM", e.ExitSignal)
	assert.Equal(t, "terminated", e.Reason)
}

// No member of the tree survives, whatever it did to leave it (cases 7 and 8).
func TestTerminateTheTree(t *testing.T) {
	b := newBench(t, Options{})
	b.start(sh("p", `(trap '' TERM; echo $BASHPID; exec setsid sleep 700) & setsid bash -c 'echo $$; sleep 700' & sleep 700 & echo $!; echo $$; echo ready; wait`))
	b.until("p", "", "ready\n")
	s := b.signal(protocol.ProcessTerminate, "p", 200)
	assert.Equal(t, protocol.ProcessKilled, s.State)
	assert.Equal(t, "SIGTERM", s.ExitSignal)
	assert.Equal(t, "terminated", s.Reason)
	for line := range strings.Lines(b.all("p", "")) {
		if line != "ready\n" {
			assert.True(t, gone(number(t, line)), line)
		}
	}
}

func TestTerminate(t *testing.T) {
	b := newBench(t, Options{})
	b.start(sh("p", `trap '' TERM; echo ready; while :; do sleep 0.05; done`))
	b.until("p", "", "ready")
	slow := make(chan protocol.ProcessState, 1)
	go func() { slow <- b.signal(protocol.ProcessTerminate, "p", 50_000) }()
	select {
	case <-slow:
		t.Fatal("it was answered before the end")
	case <-time.After(200 * time.Millisecond):
	}
	started := time.Now()
	s := b.signal(protocol.ProcessTerminate, "p", 0) // sooner
	assert.Equal(t, "SIGKILL", s.ExitSignal)
	assert.Equal(t, s, <-slow)
	assert.Less(t, time.Since(started), 20*time.Second)
	assert.Equal(t, s, b.signal(protocol.ProcessTerminate, "p", -1))

	// A program that ends in its own way has its own exit code.
	b.start(sh("q", `trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done`))
	b.until("q", "", "ready")
	s = b.signal(protocol.ProcessTerminate, "q", -1)
	assert.Equal(t, protocol.ProcessExited, s.State)
	assert.Equal(t, 3, *s.ExitCode)
	assert.Equal(t, "terminated", s.Reason)

	// What an ended process left running.
	b.run(sh("r", `sleep 700 >/dev/null 2>&1 & echo $!`))
	left := number(t, b.all("r", ""))
	assert.False(t, gone(left))
	assert.Equal(t, protocol.ProcessExited, b.signal(protocol.ProcessTerminate, "r", -1).State)
	assert.True(t, gone(left))
}

// Whoever waits for the end can go away; the end comes all the same.
func TestTerminateGivenUp(t *testing.T) {
	b := newBench(t, Options{})
	b.start(sh("p", `trap '' TERM; echo ready; while :; do sleep 0.05; done`))
	b.until("p", "", "ready")
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := capabilitytest.Do(ctx, b.Session, protocol.ProcessTerminate, protocol.ProcessSignalParams{SessionID: b.ID(), ProcessID: "p", GraceMS: at(300)})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, "SIGKILL", b.ended("p").ExitSignal)
}

func TestTimeout(t *testing.T) {
	b := newBench(t, Options{})
	p := sh("p", `sleep 700 & echo $!; wait`)
	p.TimeoutMS = 200
	s := b.run(p)
	assert.Equal(t, protocol.ProcessKilled, s.State)
	assert.Equal(t, "timeout", s.Reason)
	assert.Equal(t, "SIGTERM", s.ExitSignal)
	assert.True(t, gone(number(t, b.all("p", ""))))

	p = sh("q", `trap 'exit 0' TERM; sleep 30 & wait`) // X6
	p.TimeoutMS = 200
	s = b.run(p)
	assert.Equal(t, protocol.ProcessKilled, s.State)
	assert.Equal(t, "timeout", s.Reason)

	s = b.run(sh("r", `kill -9 $$`)) // X5
	assert.Equal(t, protocol.ProcessKilled, s.State)
	assert.Equal(t, "SIGKILL", s.ExitSignal)
	assert.Nil(t, s.ExitCode)
	assert.Empty(t, s.Reason)
}

func TestSessionEnd(t *testing.T) {
	b := newBench(t, Options{})
	b.start(sh("p", `setsid sleep 700 & echo $!; trap 'exit 4' TERM; echo $$; echo ready; while :; do sleep 0.05; done`))
	out := b.until("p", "", "ready\n")
	b.run(sh("q", `sleep 700 >/dev/null 2>&1 & echo $!`))
	left := number(t, b.all("q", ""))
	b.End()
	e := b.ended("p")
	assert.Equal(t, 4, *e.ExitCode)
	assert.Equal(t, "session_ended", e.Reason)
	assert.True(t, gone(left))
	for line := range strings.Lines(out) {
		if line != "ready\n" {
			assert.True(t, gone(number(t, line)), line)
		}
	}
	_, err := b.try(sh("r", "true"))
	requireError(t, err, protocol.CodeSessionNotActive, "")
}

// A race of an end from outside with the exit gives one state (case 13).
func TestTerminateRacesExit(t *testing.T) {
	b := newBench(t, Options{})
	for i := 0; i < 40; i += full(1, 2) {
		id := strconv.Itoa(i)
		b.start(sh(id, `sleep 0.02; exit 7`))
		time.Sleep(time.Duration(10+i) * time.Millisecond)
		s := b.signal(protocol.ProcessTerminate, id, -1)
		if s.State == protocol.ProcessExited {
			assert.Equal(t, 7, *s.ExitCode)
			assert.Empty(t, s.ExitSignal)
		} else {
			assert.Equal(t, protocol.ProcessKilled, s.State)
			assert.Nil(t, s.ExitCode)
			assert.NotEmpty(t, s.ExitSignal)
		}
		e := b.ended(id)
		assert.Equal(t, s.State, e.State)
	}
}
