package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
)

// An exec tool whose program is not there is a warning: it may come yet. One with the name of another tool is not.
func TestCheckExecTools(t *testing.T) {
	home := configtest.Isolate(t)
	token := filepath.Join(home, "token")
	require.NoError(t, os.WriteFile(token, []byte(configtest.Token), 0o600))
	r := configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/executor", "--token-file", token, "--state-dir", filepath.Join(home, "state"),
		"--exec-tools", `[{"name": "gone", "command": ["/none/such"]}, {"name": "plain", "command": ["`+token+`"]}, {"name": "named", "command": ["no-such-program"]}]`)
	Check(r)
	assert.Empty(t, r.Problems)
	warnings := strings.Join(r.Warnings, "\n")
	assert.Contains(t, warnings, "exec_tools: gone: /none/such is no program that can be run: ")
	assert.Contains(t, warnings, "exec_tools: plain: "+token+" is no program that can be run: ")
	assert.NotContains(t, warnings, "named", "which may be in the PATH of a session")

	r = configtest.Resolve(t, "--brain", "ws://127.0.0.1:1/executor", "--token-file", token, "--state-dir", filepath.Join(home, "state"),
		"--exec-tools", `{"name": "read", "command": ["/bin/sh"]}`)
	Check(r)
	require.Len(t, r.Problems, 1)
	assert.Contains(t, r.Problems[0].Text, `the name "read" is taken: files has a tool of that name`)
}
