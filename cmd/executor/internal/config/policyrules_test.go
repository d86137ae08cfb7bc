package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/executor/policy"
)

func TestPolicyInTheFile(t *testing.T) {
	s, _, err := resolveWith(t, nil, nil, `
trust: ask
policy:
  - command: git push
    action: deny
    reason: I push myself
  - {tool: [write, edit], path: docs/**, action: allow}
  - session: {project: demo-*}
    action: ask
`)
	require.NoError(t, err)
	rules, err := PolicyRules(s.Policy)
	require.NoError(t, err)
	assert.Equal(t, []policy.Rule{
		{Command: policy.Words{"git", "push"}, Action: policy.Deny, Reason: "I push myself"},
		{Tool: policy.Names{"write", "edit"}, Path: policy.Names{"docs/**"}, Action: policy.Allow},
		{Session: map[string]string{"project": "demo-*"}, Action: policy.Ask},
	}, rules)
}

func TestPolicyThatCannotBe(t *testing.T) {
	for file, says := range map[string]string{
		"policy: [{command: x}]\n":                           ":1: policy: rule 1: action: is missing",
		"\npolicy:\n  - {action: deny}\n  - {acton: deny}\n": `:4: policy: rule 2: unknown key "acton"; did you mean "action"?`,
		"policy: [{action: deny, zzzzz: x}]\n":               `unknown key "zzzzz"; there are tool, command`,
		"policy: [{action: perhaps}]\n":                      `action: "perhaps": want allow, ask or deny`,
		"policy: [{action: deny, command: 'a; b'}]\n":        `command: "a; b" is not one plain command`,
		"policy: [{action: deny, command: 5}]\n":             "command: want a text or a list of words",
		"policy: [{action: deny, tool: {}}]\n":               "tool: want a text or a list of texts",
		"policy: [{action: deny, session: x}]\n":             "session: want an object of texts, not a JSON string",
		"policy: [{action: allow, command: x, exact: 5}]\n":  "exact: want true or false, not a JSON number",
		"policy: [{action: [x]}]\n":                          "action: want a text, not a JSON array",
		"policy: [{action: deny, path: '../x'}]\n":           "never matches",
		"policy: x\n":   "not JSON",
		"policy: [x]\n": "want a value or a list of values",
		"trust:\n":      "trust: empty; leave it out or say full, ask or read-only", "trust: ~\n": "trust: empty", "trust: ''\n": "trust: empty", "policy:\n": "policy: empty; leave it out", "policy: ~\n": "policy: empty", "policy: ''\n": "policy: empty",
		"policy:\n  - {action: x}\n  - {action: deny}\n  - {acton: deny}\n": "(and 1 more",
		"policy:\n  - {action: y}\n  - {acton: deny}\n":                     `:2: policy: rule 1: action: "y"`,
		"trust: red-only\n":      `trust: "red-only": did you mean "read-only"?`,
		"approval_timeout: 0s\n": "want more than 0",
		"audit_keep: 0\n":        "want more than 0",
	} {
		_, _, err := resolveWith(t, nil, nil, file)
		assert.ErrorContains(t, err, says, file)
	}
	_, _, err := resolveWith(t, []string{`--policy={"action":"deny"}{}`}, nil, "")
	assert.ErrorContains(t, err, "not JSON")
}

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
	s := Default()
	s.ExecTools = []string{`{"name":"deploy","command":["/bin/true"]}`}
	s.Policy = []string{`[{"tool":"bahs","action":"deny"},{"tool":["bash","deploy","process.*","*"],"action":"ask"},{"command":"rm","action":"deny"},{"tool":["proces.*","zzzzzz"],"action":"deny"}]`}
	assert.Equal(t, []string{
		"policy: rule 1 (deny tool bahs): there is no tool bahs, so that the rule decides nothing about it; did you mean bash?",
		"policy: rule 4 (deny tool proces.*,zzzzzz): there is no tool proces.*, so that the rule decides nothing about it",
		"policy: rule 4 (deny tool proces.*,zzzzzz): there is no tool zzzzzz, so that the rule decides nothing about it",
	}, PolicyWarnings(&s))
	s.Policy = []string{"{"}
	assert.Empty(t, PolicyWarnings(&s), "which is an error elsewhere")
}
