//go:build unix

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// remembering is a bench whose notes are in memory, in the workspace dir.
func remembering(t *testing.T, o Options, dir string, memory *capabilitytest.Memory) *bench {
	t.Helper()
	o.LoginEnv = map[string]string{}
	c := New(o)
	h := capabilitytest.NewHost(t, c)
	workspace, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = workspace.Close() })
	b := &bench{t: t, ctx: t.Context(), dir: dir, cap: c}
	b.Session = h.NewSession(t, capabilitytest.Options{Workspace: workspace, Memory: memory})
	return b
}

func (b *bench) count(file string) int {
	text, err := os.ReadFile(filepath.Join(b.dir, file))
	require.NoError(b.t, err)
	return strings.Count(string(text), "run\n")
}

// After a restart of the executor a process that ran has failed, one that had ended has its own end,
// and none runs a second time, whatever is asked of it.
func TestRestart(t *testing.T) {
	dir, memory := t.TempDir(), &capabilitytest.Memory{}
	b := remembering(t, Options{}, dir, memory)
	runs := sh("runs", `echo run >> counter; echo ready; sleep 700`)
	runs.Stdin = protocol.StdinOpen
	ends, fails := sh("ends", `echo run >> counter; echo some output; exit 3`), protocol.ProcessStartParams{ProcessID: "fails", Argv: []string{"no-such-program"}}
	b.start(runs)
	b.until("runs", "", "ready\n")
	before := b.run(ends)
	_, err := b.try(fails)
	require.Error(t, err)

	b = remembering(t, Options{}, dir, memory.Copy())
	lost, ended := b.ended("runs"), b.ended("ends")
	assert.Equal(t, protocol.ProcessFailed, lost.State)
	assert.Equal(t, "executor_restarted", lost.Reason)
	assert.False(t, lost.EndedAt.IsZero())
	assert.Equal(t, protocol.ProcessExited, ended.State)
	assert.Equal(t, 3, *ended.ExitCode)

	list := b.list()
	require.Len(t, list, 2)
	assert.Equal(t, "runs", list[0].ProcessID)
	assert.Equal(t, before, list[1], "what had ended is as it was")
	again := b.start(runs)
	assert.Equal(t, list[0], again)
	assert.Equal(t, protocol.ProcessFailed, again.State)
	assert.Equal(t, before, b.run(ends))
	other := runs
	other.Argv = []string{"true"}
	_, err = b.try(other)
	requireError(t, err, protocol.CodeConflict, protocol.ReasonProcessIDSpecMismatch)
	_, err = b.try(fails)
	requireError(t, err, protocol.CodeResourceUnavailable, protocol.ReasonSpawnFailed)

	for _, cursor := range []int64{0, 6, 1 << 40} {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "runs", Cursor: cursor, WaitMS: 60_000})
		require.NoError(t, err)
		assert.True(t, r.EOF)
		assert.True(t, r.Gap, "nobody knows how much is missing")
		assert.Equal(t, cursor, r.NextCursor)
		assert.Equal(t, "executor_restarted", r.Reason)
		r, err = b.read(protocol.ProcessReadParams{ProcessID: "ends", Cursor: cursor})
		require.NoError(t, err)
		assert.True(t, r.EOF)
		assert.Equal(t, cursor < 12, r.Gap)
		assert.Equal(t, max(cursor, 12), r.NextCursor)
		assert.Equal(t, 3, *r.ExitCode)
	}
	for _, m := range []protocol.Method[protocol.ProcessSignalParams, protocol.ProcessState]{protocol.ProcessInterrupt, protocol.ProcessTerminate} {
		assert.Equal(t, again, b.signal(m, "runs", 0))
	}
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "runs", Data: []byte("x")})
	requireError(t, err, protocol.CodeConflict, "")
	requireError(t, b.resize("runs", 80, 24), protocol.CodeConflict, "")
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "runs", Cursor: 6, WindowBytes: 100}))
	capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ProcessOutput, func(p protocol.ProcessOutputParams) bool { return p.EOF && p.Cursor == 6 })
	require.NoError(t, b.ack("runs", 6))
	b.run(sh("new", "echo run >> counter"))
	assert.Equal(t, 3, b.count("counter"))
}

// A restart behind a restart changes nothing, but for what ran between them.
func TestRestartAgain(t *testing.T) {
	dir, memory := t.TempDir(), &capabilitytest.Memory{}
	p := sh("p", `echo run >> counter; echo ready; sleep 700`)
	b := remembering(t, Options{}, dir, memory)
	b.start(p)
	b.until("p", "", "ready\n")
	var states []string
	for i := range 3 {
		memory = memory.Copy()
		b = remembering(t, Options{}, dir, memory)
		assert.Equal(t, "executor_restarted", b.start(p).Reason)
		b.run(sh(fmt.Sprint(i), "true"))
		states = nil
		for _, s := range b.list() {
			states = append(states, s.ProcessID+" "+s.State)
		}
	}
	assert.Equal(t, []string{"p failed", "0 exited", "1 exited", "2 exited"}, states)
	assert.Equal(t, 1, b.count("counter"))
}

// Of many that have ended the newest are kept, the others not started again, and the notes are as many
// as those that are remembered.
func TestRestartOfMany(t *testing.T) {
	dir, memory := t.TempDir(), &capabilitytest.Memory{}
	at := time.Now().Add(-time.Minute)
	many := maxForgotten + 200
	for i := range many {
		memory.Note(notePrefix+fmt.Sprint(i), fmt.Appendf(nil, `{"spec":"%s","started_at":%q,"end":{"at":%q,"state":"exited","code":0}}`,
			strings.Repeat("A", 43)+"=", at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano), at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano)))
	}
	b := remembering(t, Options{}, dir, memory)
	list := b.list()
	require.Len(t, list, 64)
	assert.Equal(t, fmt.Sprint(many-1), list[63].ProcessID)
	assert.Len(t, memory.Notes(), maxForgotten+64)
	_, err := b.try(sh("500", "true"))
	requireError(t, err, protocol.CodeNotFound, "")
	b.run(sh("0", "true")) // so old that nobody repeats it
}

// A note that cannot be read is taken for one of a process that ran.
func TestRestartWithBadNote(t *testing.T) {
	memory := &capabilitytest.Memory{}
	memory.Note(notePrefix+"p", []byte("{"))
	b := remembering(t, Options{}, t.TempDir(), memory)
	_, err := b.try(sh("p", "true"))
	requireError(t, err, protocol.CodeConflict, protocol.ReasonProcessIDSpecMismatch)
	assert.Equal(t, "executor_restarted", b.list()[0].Reason)
}

// The note is there before the process can have done anything.
func TestNotedBeforeTheStart(t *testing.T) {
	memory := &capabilitytest.Memory{}
	b := remembering(t, Options{}, t.TempDir(), memory)
	for i := range 20 {
		id := fmt.Sprint(i)
		b.start(sh(id, "sleep 700"))
		require.Contains(t, memory.Notes(), notePrefix+id)
	}
}

// The lower of two limits holds, and the brain may change its own.
func TestLimitsOfTheBrain(t *testing.T) {
	var limits protocol.Limits
	c := New(Options{LoginEnv: map[string]string{}, MaxProcesses: 3, MaxReadBytes: 1000, MaxWrite: 1000, MaxReads: 2})
	b := &bench{t: t, ctx: t.Context(), cap: c}
	b.Session = capabilitytest.NewHost(t, c).NewSession(t, capabilitytest.Options{Limits: func() protocol.Limits { return limits }})
	limits = protocol.Limits{MaxProcessesPerSession: 1, MaxProcessReadBytes: 10, MaxProcessWriteBytes: 20, MaxConcurrentProcessReads: 1}
	p := sh("p", "cat")
	p.Stdin = protocol.StdinOpen
	b.start(p)
	_, err := b.try(sh("q", "sleep 700"))
	requireError(t, err, protocol.CodeResourceUnavailable, "")
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: make([]byte, 21)})
	requireError(t, err, protocol.CodePayloadTooLarge, "")
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte("01234567890123456789")})
	require.NoError(t, err)
	b.until("p", "", "01234567890123456789")
	r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", MaxBytes: 15})
	require.NoError(t, err)
	assert.Len(t, r.Data, 10)

	reads := make(chan error, 1)
	go func() {
		_, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: 20, WaitMS: 60_000})
		reads <- err
	}()
	require.Eventually(t, func() bool { return c.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	_, err = b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: 20, WaitMS: 1})
	requireError(t, err, protocol.CodeExecutorBusy, "")

	limits = protocol.Limits{MaxProcessesPerSession: 100, MaxProcessReadBytes: 1 << 20, MaxProcessWriteBytes: 1 << 20, MaxConcurrentProcessReads: 100}
	_, err = b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: 20, WaitMS: 1})
	require.NoError(t, err)
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: make([]byte, 1001)})
	requireError(t, err, protocol.CodePayloadTooLarge, "")
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: make([]byte, 1000)})
	require.NoError(t, err)
	require.NoError(t, <-reads)
	b.start(sh("q", "sleep 700"))
	b.start(sh("r", "sleep 700"))
	_, err = b.try(sh("s", "sleep 700"))
	requireError(t, err, protocol.CodeResourceUnavailable, "")
}
