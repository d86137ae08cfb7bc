//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/shell"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// Case 45, over a real connection: the shell and its tasks do not notice that it is cut, a wake comes
// once, and a drain waits for what runs in the background.
func TestOverReconnects(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, faults, network := t.TempDir(), rpctest.NewFaults(), rpctest.Listen()
	wakes := make(chan protocol.SessionWakeParams, 10)
	b := brain.New(brain.Options{HeartbeatInterval: time.Second, OnWake: func(p protocol.SessionWakeParams) error {
		wakes <- p
		return nil
	}})
	server := &http.Server{Handler: b}
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(network) })
	ex, err := executor.New(executor.Options{
		Name: "test", Workspace: executor.Workspace{Roots: []capabilities.Root{{Path: dir}}},
		Dial: func(ctx context.Context, _ string) (rpc.Frames, error) {
			return faults.Dial(ctx, "ws://brain/", network.DialOptions())
		},
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	require.NoError(t, ex.Register(shell.New(shell.Options{LoginEnv: map[string]string{}})))
	left := make(chan struct{})
	work.Go(func() {
		defer close(left)
		assert.NoError(t, ex.Run(ctx))
	})
	x, err := b.WaitExecutor(ctx)
	require.NoError(t, err)
	s, err := x.Assign(ctx, protocol.SessionAssignParams{})
	require.NoError(t, err)

	call := func(tool string, input map[string]any) (result struct {
		Output, Cwd, State string
		TaskID             string `json:"task_id"`
		StateLost          bool   `json:"state_lost"`
	}) {
		t.Helper()
		got, err := s.Call(ctx, tool, input)
		require.NoError(t, err)
		require.NotNil(t, got.Structured, "%v", got.Content)
		require.NoError(t, json.Unmarshal(got.Structured, &result))
		return result
	}
	call("run_shell", map[string]any{"command": "mkdir sub; cd sub; X=kept"})
	task := call("run_shell", map[string]any{"command": "while [ ! -e go ]; do sleep 0.02; done; echo done", "run_in_background": true, "notify": true})
	faults.CutNow()
	r := call("run_shell", map[string]any{"command": "echo $X; pwd; touch go"})
	faults.CutNow()
	assert.Equal(t, "kept\n"+dir+"/sub\n", r.Output)
	assert.False(t, r.StateLost)
	w := <-wakes
	assert.Equal(t, s.ID(), w.SessionID)
	assert.Contains(t, string(w.Payload), task.TaskID)
	assert.Equal(t, "done\n", call("shell_task_output", map[string]any{"task_id": task.TaskID, "wait_ms": 5000}).Output)

	call("run_shell", map[string]any{"command": "sleep 0.4; touch finished", "run_in_background": true})
	require.NoError(t, ex.Drain(ctx))
	<-left
	assert.FileExists(t, dir+"/sub/finished")
	work.Go(func() { _ = b.Close("test ends") })
	_ = server.Close()
	_ = network.Close()
	cancel()
	work.Wait()
	assert.Empty(t, wakes)
}
