//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// remembering is a bench in a directory, whose session has notes from before.
func remembering(t *testing.T, dir string, memory *capabilitytest.Memory, wakes chan<- protocol.SessionWakeParams) *bench {
	t.Helper()
	workspace, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = workspace.Close() })
	h := capabilitytest.NewHost(t, New(Options{LoginEnv: map[string]string{}}))
	h.Peer.OnCall = func(ctx context.Context, _ string, params json.RawMessage) (any, error) {
		var p protocol.SessionWakeParams
		assert.NoError(t, json.Unmarshal(params, &p))
		select {
		case wakes <- p:
		case <-ctx.Done():
		}
		return protocol.AcceptedResult{Accepted: true}, nil
	}
	s := h.NewSession(t, capabilitytest.Options{Workspace: workspace, Memory: memory})
	return &bench{t: t, dir: dir, Session: s}
}

// After a restart of the executor the shell is another one, where the one before was, and that is said.
func TestShellOverARestart(t *testing.T) {
	dir, memory := t.TempDir(), &capabilitytest.Memory{}
	b := remembering(t, dir, memory, nil)
	assert.False(t, b.sh("mkdir sub; cd sub; A=5").StateLost)

	b = remembering(t, dir, memory.Copy(), nil)
	r := b.sh("pwd; echo A=$A")
	assert.Equal(t, filepath.Join(dir, "sub")+"\nA=\n", r.Output)
	assert.True(t, r.StateLost)
	assert.Contains(t, r.text, "a new one took its place")
	assert.False(t, b.sh("cd ..").StateLost)

	require.NoError(t, os.Remove(filepath.Join(dir, "sub")))
	assert.Equal(t, dir, remembering(t, dir, memory.Copy(), nil).sh("true").Cwd)
}

// Tasks that a restart of the executor has ended are listed, and their end is announced to whoever has
// not been told of it.
func TestTasksOverARestart(t *testing.T) {
	dir, memory := t.TempDir(), &capabilitytest.Memory{}
	b := remembering(t, dir, memory, nil)
	runs := b.taskCall(t.Context(), "run_shell", map[string]any{"command": "sleep 700", "run_in_background": true, "notify": true})
	require.Nil(t, runs.err)
	id, old, wakes := runs.TaskID, memory.Copy(), make(chan protocol.SessionWakeParams, 2)

	b = remembering(t, dir, old, wakes)
	wake := <-wakes
	assert.Equal(t, "wake-"+id, wake.WakeID)
	var payload wakePayload
	require.NoError(t, json.Unmarshal(wake.Payload, &payload))
	assert.Equal(t, protocol.ProcessFailed, payload.State)
	assert.Equal(t, "executor_restarted", payload.Reason)
	list := b.listTasks()
	require.Len(t, list, 1)
	assert.Equal(t, "executor_restarted", list[0].Reason)
	for _, tool := range []string{"shell_task_output", "shell_task_kill"} {
		got, err := capabilitytest.CallContext(t.Context(), t, b.Session, tool, map[string]any{"task_id": id})
		require.NoError(t, err)
		assert.Contains(t, got.Content[0].Text, "has ended with the executor")
	}
}

// What a killed executor has left of its shells is removed by the next one, and nothing else is (case 134).
func TestLeftDirectoriesAreRemoved(t *testing.T) {
	dir, held, err := privateDir("")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	defer held.Close()
	left, err := os.MkdirTemp(filepath.Dir(dir), dirPrefix)
	require.NoError(t, err)
	fresh, err := os.MkdirTemp(filepath.Dir(dir), dirPrefix)
	require.NoError(t, err)
	defer os.RemoveAll(fresh)
	require.NoError(t, os.WriteFile(filepath.Join(left, "1"), nil, 0o600))
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{dir, left} {
		require.NoError(t, os.Chtimes(name, long, long))
	}

	another, held2, err := privateDir("")
	require.NoError(t, err)
	defer os.RemoveAll(another)
	defer held2.Close()
	assert.NoDirExists(t, left)
	assert.DirExists(t, dir, "it is locked")
	assert.DirExists(t, fresh, "it may be locked in a moment")
}
