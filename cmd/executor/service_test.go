package main

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServiceFile(t *testing.T) {
	f, err := os.Open("executor.service")
	require.NoError(t, err)
	defer f.Close()
	unit := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			unit[key] = value
		}
	}
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "60", "ExecReload": "/bin/kill -HUP $MAINPID",
		"KillMode": "mixed", "Delegate": "yes", "Restart": "always", "RestartPreventExitStatus": "2 3 4 5", "OOMPolicy": "continue",
		"StateDirectory": "executor", "StateDirectoryMode": "0700", "LoadCredential": "token:/etc/executor/token",
	} {
		assert.Equal(t, want, unit[key], key)
	}
	assert.True(t, strings.HasPrefix(unit["OOMScoreAdjust"], "-"))
	stop, err := time.ParseDuration(unit["TimeoutStopSec"] + "s")
	require.NoError(t, err)
	const rest = 15 * time.Second // ending the sessions, delivering what is owed
	assert.GreaterOrEqual(t, stop, defaultSettings().DrainTimeout+rest)
	fields := strings.Fields(unit["ExecStart"])
	require.GreaterOrEqual(t, len(fields), 2)
	c := newRoot()
	_, _, err = c.Find(fields[1:2])
	assert.NoError(t, err, "the command is there")
}
