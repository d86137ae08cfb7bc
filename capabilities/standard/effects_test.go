package standard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/exec"
	"github.com/agent-executor/executor/capabilities/standard"
)

// reads are the methods that pass no gate, and why.
var reads = map[string]string{
	"process.read":      "output of what was decided on",
	"process.list":      "what runs",
	"process.subscribe": "output of what was decided on",
	"process.ack":       "how far it was read",
}

// Every tool and every method says what it is going to do, so that a policy can decide by it.
func TestEverythingSaysItsEffect(t *testing.T) {
	r := capabilities.NewRegistry(nil)
	defer r.Close()
	config := standard.Config{Roots: []capabilities.Root{{Path: t.TempDir()}}, ExecTools: []exec.Tool{{Name: "unit", Command: []string{"make", "test"}}}}
	for _, c := range standard.All(config) {
		require.NoError(t, r.Install(c), c.Name())
	}
	inputs := map[string]string{
		"bash": `{"command":"x"}`, "run_shell": `{"command":"x"}`, "unit": `{"args":["a"]}`, "git": `{"subcommand":"commit"}`,
		"shell_task_output": `{"task_id":"t"}`, "shell_task_kill": `{"task_id":"t"}`, "shell_task_list": `{}`,
		"read": `{"path":"x"}`, "write": `{"path":"x","content":""}`, "edit": `{"path":"x","old_string":"a","new_string":"b"}`, "multi_edit": `{"edits":[{"path":"x","old_string":"a","new_string":"b"}]}`,
		"delete": `{"path":"x"}`, "mkdir": `{"path":"x"}`, "set_executable": `{"path":"x"}`, "move": `{"from":"x","to":"y"}`, "copy": `{"from":"x","to":"y"}`,
		"diff": `{"path_a":"x","path_b":"y"}`, "stat": `{"path":"x"}`, "list_files": `{}`, "glob": `{"pattern":"*"}`, "grep": `{"pattern":"x"}`,
	}
	for _, name := range r.ToolNames() {
		input, known := inputs[name]
		require.True(t, known, "say here with what input %s is called", name)
		tool, _ := r.Tool(name)
		_, effect, err := tool.PrepareEffect(json.RawMessage(input))
		require.NoError(t, err, name)
		e := effect()
		assert.True(t, e.Runs() || len(e.Paths) > 0 || e.Follows || e.ReadOnly, "%s says nothing about what it does", name)
		if tool.Capability() == "files" {
			assert.NotEmpty(t, e.Paths, name)
		}
		if info := tool.Info(); info.Annotations.Destructive {
			assert.False(t, e.ReadOnly, name)
		}
	}
	unit, _ := r.Tool("unit")
	_, effect, err := unit.PrepareEffect(json.RawMessage(inputs["unit"]))
	require.NoError(t, err)
	assert.Equal(t, []string{"make", "test", "a"}, effect().Argv)

	for _, m := range r.Methods() {
		raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "wire", m.Spec.Name+".json"))
		require.NoError(t, err)
		var golden struct {
			Request      struct{ Params json.RawMessage }
			Notification struct{ Params json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(raw, &golden))
		params := golden.Request.Params
		if params == nil {
			params = golden.Notification.Params
		}
		p, err := m.Prepare(params, nil)
		require.NoError(t, err, m.Spec.Name)
		_, harmless := reads[m.Spec.Name]
		assert.Equal(t, harmless, p.Effect.ReadOnly, "%s: what changes something passes the gate, what reads is listed here", m.Spec.Name)
		if !harmless {
			assert.NotEmpty(t, p.ID, m.Spec.Name)
			assert.True(t, p.Effect.Runs() || p.Effect.Follows, m.Spec.Name)
		}
	}
}
