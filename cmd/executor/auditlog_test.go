package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/audit"
)

// auditOf runs executor audit --verify on a state directory.
func auditOf(t *testing.T, state string, args ...string) (out string, err error) {
	t.Helper()
	c := newRoot()
	var b bytes.Buffer
	c.SetArgs(append([]string{"audit", "--verify", "--state-dir", state}, args...))
	c.SetOut(&b)
	c.SetErr(&b)
	err = c.Execute()
	return b.String(), err
}

func TestVerifyAudit(t *testing.T) {
	configtest.Isolate(t)
	state := t.TempDir()
	dir := filepath.Join(state, oversight.AuditDir)
	_, err := auditOf(t, state)
	assert.ErrorContains(t, err, "there is no audit log in "+dir)

	l, err := audit.Open(audit.Options{Dir: dir})
	require.NoError(t, err)
	for range 3 {
		_, err = l.Write(audit.Entry{Event: audit.EventDecided, Tool: "bash"})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	out, err := auditOf(t, state)
	require.NoError(t, err)
	assert.Equal(t, "5 lines in 1 file, number 1 to 5\nevery line is there and as it was written\n", out)

	// What a crash leaves is no tampering: a line that was not written whole.
	path := filepath.Join(dir, "audit-00000001.jsonl")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), `{"seq":6,"ti`...), 0o600))
	out, err = auditOf(t, state)
	require.NoError(t, err)
	assert.Contains(t, out, "warning: 12 bytes at the end are no whole line: a crash has cut it off")
	assert.Contains(t, out, "every line is there")
	out, err = auditOf(t, state, "--output", "json")
	require.NoError(t, err)
	var r auditReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.True(t, r.Cut)
	assert.Equal(t, int64(12), r.Torn)
	// While an executor runs it is the line that is being written.
	lock, _, err := cli.LockState(state, "executor")
	require.NoError(t, err)
	out, err = auditOf(t, state)
	require.NoError(t, err)
	assert.Contains(t, out, "no whole line yet: it is being written")
	require.NoError(t, lock.Close())

	// One that was written and is cut off now is another matter.
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-5], 0o600))
	out, err = auditOf(t, state)
	assert.ErrorContains(t, err, "not as it was written")
	assert.Equal(t, cli.ExitFailed, cli.Code(err))
	assert.Contains(t, out, "PROBLEM  the log ends with line 4, and line 5 was written")
	// And so is one without the file that says what the last was, or without the files.
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.NoError(t, os.Rename(filepath.Join(dir, "head"), filepath.Join(state, "head")))
	out, err = auditOf(t, state)
	assert.Error(t, err)
	assert.Contains(t, out, "PROBLEM  the file head")
	require.NoError(t, os.Rename(filepath.Join(state, "head"), filepath.Join(dir, "head")))
	require.NoError(t, os.Remove(path))
	out, err = auditOf(t, state)
	assert.Error(t, err)
	assert.Contains(t, out, "PROBLEM  there is no line")
	require.NoError(t, os.RemoveAll(dir))
	_, err = auditOf(t, state)
	assert.ErrorContains(t, err, "there is no audit log in "+dir)
}
