package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// Where the agent is found: the flag, the variable, the file, the default, the system's.
func TestClientOf(t *testing.T) {
	configtest.Isolate(t)
	file := configtest.WriteFile(t, "config.yaml", "state_dir: /from/file\n")
	broken := configtest.WriteFile(t, "config.yaml", "stat_dir: /from/file\n")
	for _, c := range []struct {
		args []string
		env  string
		dir  string
		says string
	}{
		{nil, "", cli.DefaultStateDir("executor"), ""},
		{[]string{"--state-dir", "/flag"}, "/env", "/flag", ""},
		{nil, "/env", "/env", ""},
		{[]string{"--config", file}, "", "/from/file", ""},
		{[]string{"--config", broken}, "", "", `unknown key "stat_dir"; did you mean "state_dir"?`},
		{[]string{"--config", broken, "--state-dir", "/flag"}, "", "/flag", ""},
		{[]string{"--state-dir", ""}, "/env", "", "--state-dir is empty"},
	} {
		t.Setenv("EXECUTOR_STATE_DIR", c.env)
		cmd := &cobra.Command{Use: "ask"}
		given := askFlags(cmd)
		require.NoError(t, cmd.ParseFlags(c.args))
		client, err := clientOf(cmd, given)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.dir, client.Dir)
	}
}

func TestAskingNobody(t *testing.T) {
	configtest.Isolate(t)
	dir := t.TempDir()
	for _, name := range []string{"status", "drain", "stop"} {
		c := newRoot()
		var out bytes.Buffer
		c.SetArgs([]string{name, "--state-dir", dir})
		c.SetOut(&out)
		err := c.ExecuteContext(context.Background())
		assert.EqualError(t, err, "no executor runs with the state directory "+dir+"; start one with executor run, or name its --state-dir")
		assert.Equal(t, cli.ExitFailed, cli.Code(err))
		assert.Empty(t, out.String())
	}
	c := newRoot()
	c.SetArgs([]string{"drain", "--deadline", "0s", "--state-dir", dir})
	assert.Equal(t, cli.ExitUsage, cli.Code(c.Execute()))
	assert.NoDirExists(t, filepath.Join(dir, "control.sock"))
}
