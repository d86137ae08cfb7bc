//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// taskAnswer is a result about a task as a brain reads it.
type taskAnswer struct {
	taskResult
	text string
	err  *protocol.Error
}

func (b *bench) taskCall(ctx context.Context, tool string, input any) taskAnswer {
	b.t.Helper()
	got, err := capabilitytest.CallContext(ctx, b.t, b.Session, tool, input)
	if err != nil {
		var e *protocol.Error
		require.True(b.t, errors.As(err, &e), "%v", err)
		return taskAnswer{err: e}
	}
	var a taskAnswer
	if got.Error != nil {
		return taskAnswer{err: protocol.Errorf(got.Error.Code, "%s", got.Error.Message).WithReason(got.Error.Reason)}
	}
	for _, c := range got.Content {
		a.text += c.Text
	}
	require.NoError(b.t, json.Unmarshal(got.Structured, &a.taskResult))
	return a
}

func (b *bench) background(command string) taskAnswer {
	b.t.Helper()
	a := b.taskCall(context.Background(), "run_shell", map[string]any{"command": command, "run_in_background": true})
	require.Nil(b.t, a.err)
	assert.Equal(b.t, protocol.ProcessRunning, a.State)
	assert.Nil(b.t, a.ExitCode)
	return a
}

func (b *bench) read(id string, waitMS int) taskAnswer {
	b.t.Helper()
	return b.taskCall(context.Background(), "shell_task_output", map[string]any{"task_id": id, "wait_ms": waitMS})
}

func (b *bench) killTask(id string) taskAnswer {
	b.t.Helper()
	return b.taskCall(context.Background(), "shell_task_kill", map[string]any{"task_id": id})
}

// readAll reads until the task has ended and all is read.
func (b *bench) readAll(id string) (text string, last taskAnswer) {
	b.t.Helper()
	for range 1000 {
		last = b.read(id, 5000)
		require.Nil(b.t, last.err)
		text += last.Output
		if last.State != protocol.ProcessRunning && last.Unread == 0 {
			return text, last
		}
	}
	b.t.Fatal("the task does not end")
	return "", last
}

func TestTaskOutput(t *testing.T) {
	b := newBench(t, Options{})
	task := b.background(`printf partial; while [ ! -e go ]; do sleep 0.02; done; echo ' line'; echo err >&2; printf '\xe2'; sleep 0.2; printf '\x80\x94'; exit 3`)
	assert.Regexp(t, `^task-[0-9a-f]{8}$`, task.TaskID)
	assert.Contains(t, task.text, task.TaskID+" runs in the background in "+b.dir)
	a := b.read(task.TaskID, 5000)
	assert.Equal(t, "partial", a.Output, "a line that is not complete")
	assert.Equal(t, protocol.ProcessRunning, a.State)
	started := time.Now()
	a = b.read(task.TaskID, 100)
	assert.Empty(t, a.Output, "each byte once")
	assert.GreaterOrEqual(t, time.Since(started), 100*time.Millisecond)
	assert.Empty(t, b.read(task.TaskID, 0).Output)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	text, a := b.readAll(task.TaskID)
	assert.Equal(t, " line\nerr\n—", text, "case 24")
	assert.Equal(t, protocol.ProcessExited, a.State)
	assert.Equal(t, 3, *a.ExitCode)
	assert.Regexp(t, `\[task task-\w+ has ended with exit code 3, after \d+ ms\]\n$`, a.text)
	assert.Equal(t, 3, *b.read(task.TaskID, 0).ExitCode, "it stays readable")
	assert.Zero(t, b.read(task.TaskID, 0).InvalidBytes)
}

// One that has closed its output is waited for all the same.
func TestTaskWithoutOutput(t *testing.T) {
	b := newBench(t, Options{})
	task := b.background(`exec >&- 2>&-; sleep 0.4; exit 2`)
	for a := b.read(task.TaskID, 100); a.State == protocol.ProcessRunning; a = b.read(task.TaskID, 60_000) {
		assert.Empty(t, a.Output)
	}
	assert.Equal(t, 2, *b.read(task.TaskID, 0).ExitCode)
}

// A task begins where the persistent shell is, with what that exports, and changes nothing there.
func TestTaskSurroundings(t *testing.T) {
	b := newBench(t, Options{})
	run := func(command string) string {
		text, _ := b.readAll(b.background(command).TaskID)
		return text
	}
	assert.Equal(t, b.dir+" of the session\n", run(`pwd | tr '\n' ' '; echo $SESSION_VARIABLE`), "before the shell")
	b.sh(`mkdir sub; cd sub; export A='one
two'; B=hidden; f(){ echo f; }; export -f f; env(){ echo mine; }; alias env='echo alias'`)
	assert.Equal(t, b.dir+"/sub one\ntwo f\n", run(`pwd | tr '\n' ' '; echo "$A$B $(f)"; cd /; export A=other`))
	assert.Equal(t, b.dir+"/sub one\n", b.sh(`echo "$PWD $A" | head -1`).Output)
	assert.Equal(t, "-\n", run(`readlink /proc/self/fd/0 | sed 's,/dev/null,-,'`))

	// While the shell is busy: what is known.
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		b.sh(`export A=three; echo begun; while [ ! -e go ]; do sleep 0.02; done`)
	}()
	capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ToolProgress, func(p protocol.ToolProgressParams) bool { return string(p.Data) == "begun\n" })
	assert.Equal(t, b.dir+"/sub one\ntwo\n", run(`echo "$PWD $A"; touch go`))
	<-busy
	assert.Equal(t, "three\n", run(`echo "$A"`))

	// A shell that cannot be asked is no obstacle.
	b.sh(`rm -rf ../sub; PATH=; enable -n builtin command`)
	assert.Equal(t, b.dir+"\n", run(`pwd`))
	assert.True(t, b.sh(`:`).StateLost)
}

// Cases 7, 8, 9: TERM, a grace, KILL, to all of it; answered when it is gone.
func TestTaskKill(t *testing.T) {
	b := newBench(t, Options{TaskGrace: 200 * time.Millisecond})
	for name, command := range map[string]string{
		"plain":        `echo before; sleep 8801`,
		"cleans up":    `trap 'echo after; exit 0' TERM; echo before; sleep 8801 & wait`,
		"ignores TERM": `trap '' TERM; echo before; sleep 8801; sleep 8801`,
		"session":      `echo before; setsid sleep 8801 & wait`,
		"has ended":    `echo before; setsid sleep 8801 &`,
	} {
		t.Run(name, func(t *testing.T) {
			number := unique(88_000 + int(counter.Add(1)))
			task := b.background(strings.ReplaceAll(command, "8801", number))
			assert.Equal(t, "before\n", b.read(task.TaskID, 5000).Output)
			require.Eventually(t, func() bool { return running(t, "sleep "+number) }, 5*time.Second, 20*time.Millisecond)
			if name == "has ended" {
				require.Eventually(t, func() bool { return b.read(task.TaskID, 0).State == protocol.ProcessExited }, 5*time.Second, 5*time.Millisecond)
			}
			a := b.killTask(task.TaskID)
			require.Nil(t, a.err)
			assert.False(t, running(t, "sleep "+number))
			assert.Empty(t, a.Survivors)
			switch name {
			case "has ended":
				assert.Equal(t, protocol.ProcessExited, a.State)
				assert.Empty(t, a.Reason)
				return
			case "cleans up":
				assert.Equal(t, "after\n", a.Output)
				assert.Equal(t, 0, *a.ExitCode)
			case "ignores TERM":
				assert.Equal(t, "SIGKILL", a.ExitSignal)
				assert.Equal(t, 137, *a.ExitCode)
			}
			assert.Equal(t, protocol.ProcessKilled, a.State)
			assert.Equal(t, reasonKilled, a.Reason)
			assert.Equal(t, protocol.ProcessKilled, b.killTask(task.TaskID).State, "again")
		})
	}
	// A kill whose caller does not wait goes on.
	task := b.background(`trap '' TERM; echo deaf; while :; do sleep 0.02; done`)
	b.read(task.TaskID, 5000)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	assert.NotNil(t, b.taskCall(ctx, "shell_task_kill", map[string]any{"task_id": task.TaskID}).err)
	_, a := b.readAll(task.TaskID)
	assert.Equal(t, protocol.ProcessKilled, a.State)
}

func TestTaskTimeout(t *testing.T) {
	b := newBench(t, Options{Grace: 100 * time.Millisecond})
	a := b.taskCall(context.Background(), "run_shell", map[string]any{"command": `trap 'exit 0' TERM; sleep 60 & wait`, "run_in_background": true, "timeout_ms": 200})
	require.Nil(t, a.err)
	_, a = b.readAll(a.TaskID)
	assert.Equal(t, protocol.ProcessKilled, a.State)
	assert.Equal(t, reasonTimeout, a.Reason)
}

// Case 22: bounded, drained, and the loss is told. What is read comes in pieces.
func TestTaskFlood(t *testing.T) {
	b := newBench(t, Options{TaskBytes: 64 << 10, InlineBytes: 8 << 10})
	task := b.background(`seq 1 100000; echo VERDICT`)
	require.Eventually(t, func() bool { return !b.isRunning(task.TaskID) }, 10*time.Second, 10*time.Millisecond)
	a := b.read(task.TaskID, 0)
	assert.True(t, a.Truncated)
	assert.Equal(t, int64(588_895+len("VERDICT\n")-64<<10), a.DroppedBytes)
	assert.Contains(t, a.text, "bytes of output came faster than they were read")
	assert.Contains(t, a.text, "bytes more are to be read: call shell_task_output again]")
	assert.LessOrEqual(t, len(a.text), 8<<10)
	text, last := b.readAll(task.TaskID)
	text = a.Output + text
	assert.True(t, strings.HasSuffix(text, "\n99999\n100000\nVERDICT\n"))
	assert.Len(t, text, 64<<10)
	assert.False(t, last.Truncated)
}

func (b *bench) isRunning(id string) bool {
	for _, e := range b.listTasks() {
		if e.TaskID == id {
			return e.State == protocol.ProcessRunning
		}
	}
	return false
}

func (b *bench) listTasks() []taskEntry {
	b.t.Helper()
	got, err := capabilitytest.Call(b.t, b.Session, "shell_task_list", nil)
	require.NoError(b.t, err)
	var list struct{ Tasks []taskEntry }
	require.NoError(b.t, json.Unmarshal(got.Structured, &list))
	return list.Tasks
}

// Case 139: those that have ended are bounded, those that run are there and bounded too.
func TestTaskLimits(t *testing.T) {
	b := newBench(t, Options{MaxTasks: 2, KeepTasks: 3})
	assert.Empty(t, b.listTasks())
	command := "sleep " + unique(8901)
	long := b.background(command + ` #long`)
	var ids []string
	for i := range 5 {
		task := b.background(`sleep 0.2; echo ` + strconv.Itoa(i))
		b.readAll(task.TaskID)
		require.Eventually(t, func() bool { return !b.isRunning(task.TaskID) }, 5*time.Second, time.Millisecond)
		ids = append(ids, task.TaskID)
	}
	require.Eventually(t, func() bool { return len(b.listTasks()) == 4 }, 5*time.Second, time.Millisecond)
	list := b.listTasks()
	assert.Equal(t, long.TaskID, list[0].TaskID)
	assert.Equal(t, command+" #long", list[0].Command)
	assert.Equal(t, protocol.ProcessRunning, list[0].State)
	assert.Equal(t, ids[2:], []string{list[1].TaskID, list[2].TaskID, list[3].TaskID})
	a := b.read(ids[0], 0)
	assert.ErrorIs(t, a.err, protocol.ErrNotFound)
	assert.ErrorContains(t, a.err, "shell_task_list")

	second := b.background("sleep " + unique(8902))
	a = b.taskCall(context.Background(), "run_shell", map[string]any{"command": "true", "run_in_background": true})
	assert.ErrorIs(t, a.err, protocol.ErrResourceUnavailable)
	assert.ErrorContains(t, a.err, "2 tasks run in this session, which is the limit; end one with shell_task_kill first")
	b.killTask(second.TaskID)
	b.killTask(b.background("sleep " + unique(8903)).TaskID)

	// Case X10: the tasks of another session are none of this one's.
	other := newBench(t, Options{})
	assert.ErrorIs(t, other.read(long.TaskID, 0).err, protocol.ErrNotFound)
	assert.ErrorIs(t, other.killTask(long.TaskID).err, protocol.ErrNotFound)
	other.End()
	assert.True(t, running(t, command))
	b.End()
	assert.False(t, running(t, command))
	assert.ErrorIs(t, b.read(long.TaskID, 0).err, protocol.ErrSessionNotActive)
}

// The end of a task is announced when that is asked for, to a brain that comes back too, and once.
func TestTaskWake(t *testing.T) {
	b := newBench(t, Options{})
	var tries atomic.Int64
	taken := make(chan protocol.SessionWakeParams, 10)
	b.Host.Peer.OnCall = func(_ context.Context, method string, params json.RawMessage) (any, error) {
		assert.Equal(t, protocol.SessionWake.Name, method)
		if tries.Add(1) == 1 {
			return nil, protocol.Errorf(protocol.CodeExecutorBusy, "not now").WithRetryable(true)
		}
		var p protocol.SessionWakeParams
		assert.NoError(t, json.Unmarshal(params, &p))
		taken <- p
		return protocol.AcceptedResult{Accepted: true}, nil
	}
	quiet := b.background(`echo quiet`)
	b.readAll(quiet.TaskID)
	a := b.taskCall(context.Background(), "run_shell", map[string]any{"command": "echo loud; exit 4", "run_in_background": true, "notify": true})
	require.Nil(t, a.err)
	p := <-taken
	assert.Equal(t, b.ID(), p.SessionID)
	assert.Equal(t, "wake-"+a.TaskID, p.WakeID)
	assert.Equal(t, "task", p.Source)
	assert.JSONEq(t, `{"task_id":"`+a.TaskID+`","state":"exited","exit_code":4,"command":"echo loud; exit 4"}`, string(p.Payload))
	assert.Equal(t, int64(2), tries.Load())

	// A brain that refuses is not asked again, and the session's end does not wait for one that says nothing.
	b.Host.Peer.OnCall = func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		if tries.Add(1) == 3 {
			return nil, protocol.ErrMethodNotFound
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for want := range 2 {
		b.taskCall(context.Background(), "run_shell", map[string]any{"command": "true", "run_in_background": true, "notify": true})
		require.Eventually(t, func() bool { return tries.Load() == int64(want+3) }, 5*time.Second, time.Millisecond)
	}
	started := time.Now()
	b.End()
	assert.Less(t, time.Since(started), 3*time.Second)
	assert.Empty(t, taken)
}

func TestTaskInputIsChecked(t *testing.T) {
	b := newBench(t, Options{})
	for _, c := range []struct{ tool, input, want string }{
		{"run_shell", `{"command":" "}`, "command"},
		{"run_shell", `{"command":"a\u0000b"}`, "NUL"},
		{"run_shell", `{"command":"true","notify":true}`, "run_in_background"},
		{"run_shell", `{"command":"true","timeout_ms":600001}`, "600000"},
		{"run_shell", `{"command":"true","background":true}`, "run_in_background"},
		{"shell_task_output", `{}`, "task_id"},
		{"shell_task_output", `{"task_id":"x","wait_ms":-1}`, "wait_ms"},
		{"shell_task_output", `{"task_id":"x","wait_ms":600001}`, "600000"},
		{"shell_task_kill", `{"task":"x"}`, "task_id"},
		{"shell_task_list", `{"task_id":"x"}`, "task_id"},
	} {
		a := b.taskCall(context.Background(), c.tool, json.RawMessage(c.input))
		require.NotNil(t, a.err, c.input)
		assert.ErrorIs(t, a.err, protocol.ErrInvalidParams, c.input)
		assert.ErrorContains(t, a.err, c.want, c.input)
	}
}

// A task is work of the session from its start to its end, so that a drain waits for it.
func TestTaskIsWork(t *testing.T) {
	host := capabilitytest.NewHost(t, New(Options{LoginEnv: map[string]string{}}))
	dir := t.TempDir()
	workspace, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	defer workspace.Close()
	ended := make(chan struct{})
	var begun atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	session := capabilities.NewSession(ctx, capabilities.SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s"}, Workspace: workspace, Peer: host.Peer,
		Working: func() func() {
			begun.Add(1)
			return func() { close(ended) }
		}})
	require.NoError(t, host.Registry.StartSession(ctx, session))
	tool, ok := host.Registry.Tool("run_shell")
	require.True(t, ok)
	run, err := tool.Prepare(json.RawMessage(`{"command":"while [ ! -e go ]; do sleep 0.02; done","run_in_background":true}`))
	require.NoError(t, err)
	call := capabilities.NewCall(capabilities.CallConfig{Session: session, ID: "c", Tool: tool})
	_, err = run(ctx, call)
	require.NoError(t, err)
	require.NoError(t, call.Close())
	assert.Equal(t, int64(1), begun.Load())
	select {
	case <-ended:
		t.Error("ended before the task")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	<-ended
	cancel()
	host.Registry.EndSession(session)
}
