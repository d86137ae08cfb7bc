package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/executor"
)

// ask runs a command of the executor's to its end.
func (s *site) ask(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	p := s.start("executor", args...)
	code = p.exit()
	return p.stdout.String(), p.stderr.String(), code
}

func (s *site) status() (status control.Status) {
	s.t.Helper()
	out, errs, code := s.ask("status", "--output", "json")
	require.Equal(s.t, 0, code, errs)
	require.NoError(s.t, json.Unmarshal([]byte(out), &status), out)
	return status
}

func TestStatusDrainAndStop(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	agent := s.run()
	agent.says("registered")
	status := s.status()
	assert.Equal(t, agent.cmd.Process.Pid, status.PID)
	assert.True(t, status.Ready)
	require.Len(t, status.Brains, 1)
	b := status.Brains[0]
	assert.Equal(t, executor.StateReady, b.State)
	assert.Equal(t, "ws://"+s.addr+"/executor", b.Brain)
	assert.NotEmpty(t, b.ConnectionID)
	assert.Greater(t, b.LeaseLeftMS, int64(1000))
	info, err := os.Stat(filepath.Join(status.StateDir, "control.sock"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	call := s.start("brain", "call", "bash", `{"command":"touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"}`)
	s.waitFor("begun")
	// A command of the executor's own may look, and not stop it.
	out, _, code := s.brain("call", "bash", fmt.Sprintf(`{"command":%q}`, filepath.Join(s.bin, "executor")+" stop --state-dir "+status.StateDir))
	assert.NotZero(t, code)
	assert.Contains(t, out, "a command that this executor has started may not control it")
	text, errs, code := s.ask("status")
	require.Equal(t, 0, code, errs)
	assert.Regexp(t, `1 call running`, text)
	assert.Regexp(t, `: bash, for \d+s`, text)

	drain := s.start("executor", "drain")
	drain.says(`waiting for 1 call \(bash\)`)
	s.waitState(executor.StateDraining)
	require.NoError(t, os.WriteFile(filepath.Join(s.work, "go"), nil, 0o600))
	assert.Equal(t, 0, drain.exit(), drain.stderr.String())
	assert.Contains(t, drain.stdout.String(), "the executor has left after")
	assert.Equal(t, 0, agent.exit())
	assert.Equal(t, 0, call.exit())
	assert.Equal(t, "done\n", call.stdout.String(), "it finished, and its result arrived")
	assert.NoFileExists(t, filepath.Join(status.StateDir, "control.sock"))

	out, errs, code = s.ask("status", "--output", "json")
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	var object struct {
		Error string `json:"error"`
		Code  int    `json:"exit_code"`
	}
	require.NoError(t, json.Unmarshal([]byte(errs), &object), errs)
	assert.Contains(t, object.Error, "no executor runs with the state directory")

	// Killed with its socket left behind, and started again; stopped with what runs.
	agent = s.run()
	agent.says("registered")
	agent.signal(syscall.SIGKILL)
	agent.exit()
	assert.FileExists(t, filepath.Join(status.StateDir, "control.sock"))
	_, errs, code = s.ask("status")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "no executor runs with")
	agent = s.run()
	agent.says("registered")
	call = s.start("brain", "call", "bash", `{"command":"touch again; sleep 1000"}`)
	s.waitFor("again")
	out, errs, code = s.ask("stop", "--output", "json")
	require.Equal(t, 0, code, errs)
	var left struct {
		Left bool `json:"left"`
		Exit int  `json:"executor_exit_code"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &left), out)
	assert.True(t, left.Left)
	assert.Equal(t, 0, agent.exit())
	call.exit()
	assert.Contains(t, call.stdout.String()+call.stderr.String(), "the executor was shut down")
}

// A deadline ends the wait; a kill is told from having left.
func TestDrainDeadlineAndKill(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	for _, kill := range []bool{false, true} {
		agent := s.run()
		agent.says("registered")
		begun := fmt.Sprint("begun", kill)
		call := s.start("brain", "call", "bash", `{"command":"touch `+begun+`; sleep 1000"}`)
		s.waitFor(begun)
		limit := "300ms"
		if kill {
			limit = "1000s"
		}
		drain := s.start("executor", "drain", "--deadline", limit)
		drain.says("waiting for 1 call")
		if kill {
			agent.signal(syscall.SIGKILL)
			assert.Equal(t, 1, drain.exit())
			assert.Contains(t, drain.stderr.String(), "the executor was ended before it had finished")
			agent.exit()
			call.signal(syscall.SIGTERM)
			call.exit()
			continue
		}
		assert.Equal(t, 0, drain.exit(), drain.stderr.String())
		assert.Equal(t, 0, agent.exit())
		call.exit()
	}
}

func (s *site) waitState(want executor.State) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.status().Brains[0].State == want }, 20*time.Second, 50*time.Millisecond)
}

func TestReady(t *testing.T) {
	for states, want := range map[string]bool{
		"": false, "ready": true, "ready ready": true, "ready stopped": true, "stopped": false, "ready waiting": false, "draining": false, "ready draining": false,
	} {
		var brains []control.BrainStatus
		for _, state := range strings.Fields(states) {
			brains = append(brains, control.BrainStatus{Status: executor.Status{State: executor.State(state)}})
		}
		assert.Equal(t, want, ready(brains), states)
	}
}
