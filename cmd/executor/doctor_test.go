package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
)

// A whole run, with real processes: all is well, an executor that runs is displaced by
// nothing, and nothing is changed.
func TestDoctorBesideARunningExecutor(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	agent := s.run("--log-format", "json")
	agent.says(`"msg":"registered"`)
	root := filepath.Join(s.home, "project")
	require.NoError(t, os.Mkdir(root, 0o700))
	args := []string{"doctor", "--brain", "ws://" + s.addr + "/executor", "--root", root, "--token-file", s.tokenFile()}
	d := s.start("executor", args...)
	require.Equal(t, 0, d.exit(), d.stdout.String())
	out := d.stdout.String()
	assert.Contains(t, out, "ok    registration       the brain would take this executor; none was registered\n")
	assert.Regexp(t, `ok +state directory +\S+; an executor runs, pid \d+; `, out)
	assert.Contains(t, out, "All is well: ")

	d = s.start("executor", append(args, "--output", "json")...)
	require.Equal(t, 0, d.exit())
	var got struct {
		OK     bool
		Checks []doctor.Report
	}
	require.NoError(t, json.Unmarshal([]byte(d.stdout.String()), &got))
	assert.True(t, got.OK)
	assert.Len(t, got.Checks, 22)

	out, errs, code := s.brain("call", "bash", `{"command":"echo still here"}`)
	assert.Equal(t, "still here\n", out, errs)
	assert.Zero(t, code)
	assert.Equal(t, 1, strings.Count(agent.stderr.String(), `"msg":"registered"`), "it was not displaced")
	out, _, _ = s.brain("executors", "--output", "json")
	assert.Equal(t, 1, strings.Count(out, `"name"`), out)

	d = s.start("executor", "doctor", "--brain", "ws://127.0.0.1:1/", "--token-file", s.tokenFile(), "--output=json")
	assert.Equal(t, 1, d.exit())
	assert.Contains(t, d.stdout.String(), `"ok": false`)
	assert.Empty(t, d.stderr.String())
}
