package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
)

// What is known by name is what the capabilities register.
func TestGatedNames(t *testing.T) {
	r := capabilities.NewRegistry(nil)
	defer r.Close()
	for _, c := range standard.All(standard.Config{}) {
		require.NoError(t, r.Install(c))
	}
	names := r.ToolNames()
	for _, m := range r.Methods() {
		names = append(names, m.Spec.Name)
	}
	assert.Subset(t, gatedNames(), names, "git may be missing here")
	assert.LessOrEqual(t, len(gatedNames()), len(names)+1)
}

// A rule about a tool that there is not is said, with the one that was meant.
func TestPolicyWarnings(t *testing.T) {
	s := defaultSettings()
	s.ExecTools = []string{`{"name":"deploy","command":["/bin/true"]}`}
	s.Policy = []string{`[{"tool":"bahs","action":"deny"},{"tool":["bash","deploy","process.*","*"],"action":"ask"},{"command":"rm","action":"deny"},{"tool":["proces.*","zzzzzz"],"action":"deny"}]`}
	assert.Equal(t, []string{
		"policy: rule 1 (deny tool bahs): there is no tool bahs, so that the rule decides nothing about it; did you mean bash?",
		"policy: rule 4 (deny tool proces.*,zzzzzz): there is no tool proces.*, so that the rule decides nothing about it",
		"policy: rule 4 (deny tool proces.*,zzzzzz): there is no tool zzzzzz, so that the rule decides nothing about it",
	}, policyWarnings(&s))
	s.Policy = []string{"{"}
	assert.Empty(t, policyWarnings(&s), "which is an error elsewhere")

	file := writeFile(t, "config.yaml", "policy:\n- {tool: bahs, action: deny}\n")
	isolate(t)
	c := newRoot()
	var out bytes.Buffer
	c.SetArgs([]string{"config", "check", "--config", file, "--brain", "ws://127.0.0.1:1/", "--state-dir", t.TempDir()})
	c.SetOut(&out)
	_ = c.Execute()
	assert.Contains(t, out.String(), "there is no tool bahs")
}
