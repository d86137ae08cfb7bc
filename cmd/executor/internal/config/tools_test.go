package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/exec"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func TestExecTools(t *testing.T) {
	want := []exec.Tool{
		{Name: "test", Command: []string{"make", "test"}, Description: "Run the <tests>: all", Timeout: 5 * time.Minute},
		{Name: "uv", Command: []string{"uv"}},
	}
	for name, given := range map[string]struct {
		args, environ []string
		file          string
	}{
		"file": {file: "exec_tools:\n  - name: test\n    command: [make, test]\n    description: 'Run the <tests>: all'\n    timeout: 5m\n  - {name: uv, command: [uv]}\n"},
		"flags": {args: []string{"--exec-tools", `{"name":"test","command":["make","test"],"description":"Run the <tests>: all","timeout":"5m"}`,
			"--exec-tools", `{"name":"uv","command":["uv"]}`}},
		"one flag": {args: []string{"--exec-tools", `[{"name":"test","command":["make","test"],"description":"Run the <tests>: all","timeout":"5m"},{"name":"uv","command":["uv"]}]`}},
		"variable": {environ: []string{`EXECUTOR_EXEC_TOOLS={"name":"test","command":["make","test"],"description":"Run the <tests>: all","timeout":"5m"}` + "\n" + `{"name":"uv","command":["uv"]}`}},
	} {
		s, _, err := resolveWith(t, given.args, given.environ, given.file)
		require.NoError(t, err, name)
		got, err := ExecTools(s.ExecTools)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	s, _, err := resolveWith(t, nil, nil, "exec_tools:\n")
	require.NoError(t, err)
	assert.Empty(t, s.ExecTools)
}

func TestWrongToolsNameTheirSource(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		file, says    string
	}{
		{file: "name: x\nexec_tools:\n  - name: Make\n    command: [make]\n", says: `config.yaml:3: exec_tools: tool 1: name: "Make" is no name for a tool`},
		{file: "exec_tools: {name: make}\n", says: "config.yaml:1: exec_tools: tool 1: command: is missing"},
		{file: "exec_tools: {name: make, comand: [make]}\n", says: `exec_tools: unknown key "comand"; did you mean "command"?`},
		{file: "exec_tools: {name: make, command: make}\n", says: "exec_tools: command: want a list, not a JSON string"},
		{file: "exec_tools: {name: make, command: [1]}\n", says: "exec_tools: command: want a text, not a JSON number"},
		{file: "exec_tools: {name: make, command: [make], timeout: 5}\n", says: "exec_tools: timeout: want a text, not a JSON number"},
		{file: "exec_tools: {name: make, command: [make], timeout: soon}\n", says: `exec_tools: tool "make": timeout: "soon": want a time like 30s`},
		{file: "exec_tools: [make]\n", says: "exec_tools: want a value or a list of values"},
		{args: []string{"--exec-tools", "make"}, says: "--exec-tools: not JSON: "},
		{args: []string{"--exec-tools", `{"name":"a","command":["a"]} x`}, says: "--exec-tools: not JSON: "},
		{args: []string{"--exec-tools", `[{"name":"a","command":["a"]}] x`}, says: "--exec-tools: something follows the JSON"},
		{environ: []string{`EXECUTOR_EXEC_TOOLS={"name":"a","command":["a"]}` + "\n" + `{"name":"a","command":["b"]}`}, says: `EXECUTOR_EXEC_TOOLS: tool 2: name: there is a tool "a" already`},
		{args: []string{"--git-subcommands", "add,push"}, says: `--git-subcommands: "push" cannot be allowed; there are add, describe, ls-files, rev-parse`},
	} {
		_, _, err := resolveWith(t, c.args, c.environ, c.file)
		assert.ErrorContains(t, err, c.says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err), c.says)
	}
}
