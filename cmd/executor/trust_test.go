package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/executor/approval"
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
	rules, err := policyRules(s.Policy)
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

// What the brain says cannot pass for the executor's own words.
func TestPrintApprovals(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := approval.Item{ID: "abc", Tool: "bash\x1b[2J", What: "rm x\nabc  read, waits\r\n\x1b]0;x\x07\u202etxt", Dir: "/w\n", Session: "s\x1b", Since: now.Add(-time.Minute), Expires: now.Add(9 * time.Minute), Rule: "trust ask", Why: "x\ny"}
	var out bytes.Buffer
	require.NoError(t, printApprovals(&out, []approval.Item{item}, now))
	assert.Equal(t, "abc  bash\\x1b[2J, has waited for 1m0s, is denied in 9m0s\n  | rm x\n  | abc  read, waits\n  | \\x1b]0;x\\x07\\u202etxt\n  in       $'/w\\n'\n  session  $'s\\x1b'\n  because  trust ask: x y\n\nexecutor approve ID [--session|--always], or executor deny ID\n", out.String())
	out.Reset()
	require.NoError(t, printApprovals(&out, nil, now))
	assert.Equal(t, "no call waits for you\n", out.String())
}
