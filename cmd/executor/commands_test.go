package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
)

// A command that is made alone is the same as among all the others.
func TestRootForOneCommand(t *testing.T) {
	configtest.Isolate(t)
	all := newRoot()
	for _, c := range commands() {
		want, _, err := all.Find([]string{c.name})
		require.NoError(t, err)
		require.Equal(t, c.name, want.Name())
		root := rootFor([]string{c.name, "--help"})
		got, _, err := root.Find([]string{c.name})
		require.NoError(t, err)
		assert.Equal(t, want.UsageString(), got.UsageString())
		assert.Equal(t, want.CommandPath(), got.CommandPath())
	}
	for _, args := range [][]string{nil, {"help"}, {"--output", "json", "run"}, {"rnu"}, {"__complete", "run", ""}, {"completion", "bash"}, {"man", "dir"}} {
		assert.Greater(t, len(rootFor(args).Commands()), len(commands()), args)
	}
}
