package standard_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/capabilities/standard"
)

func names(caps []capabilities.Capability) []string {
	list := []string{}
	for _, c := range caps {
		list = append(list, c.Name())
	}
	return list
}

func TestAllCanBeInstalledTogether(t *testing.T) {
	r := capabilities.NewRegistry(nil)
	defer r.Close()
	for _, c := range standard.All(standard.Config{Roots: []capabilities.Root{{Path: t.TempDir()}}}) {
		require.NoError(t, r.Install(c), c.Name())
	}
	assert.Subset(t, r.ToolNames(), []string{"read", "write"})
}

// Every folder beside this one that is a capability has its line in the list.
func TestEveryCapabilityIsListed(t *testing.T) {
	notCapabilities := map[string]bool{"standard": true, "capabilitytest": true, "internal": true}
	entries, err := os.ReadDir("..")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, name := range names(standard.All(standard.Config{})) {
		listed[name] = true
	}
	for _, e := range entries {
		main := filepath.Join("..", e.Name(), e.Name()+".go")
		if _, err := os.Stat(main); e.IsDir() && !notCapabilities[e.Name()] && err == nil {
			assert.True(t, listed[e.Name()], "capabilities/%s has no line in All", e.Name())
		}
	}
}

// Every capability that comes with the executor keeps the contract of them all.
func TestEveryCapabilityKeepsTheContract(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	for i, name := range names(standard.All(standard.Config{})) {
		t.Run(name, func(t *testing.T) {
			capabilitytest.Run(t, func() capabilities.Capability { return standard.All(standard.Config{})[i] })
		})
	}
}

func TestSelect(t *testing.T) {
	all := standard.All(standard.Config{})
	every := names(all)
	require.GreaterOrEqual(t, len(every), 2)
	for _, c := range []struct {
		list []string
		want []string
	}{
		{nil, every},
		{[]string{"files"}, []string{"files"}},
		{[]string{"files", "shell"}, []string{"shell", "files"}}, // their own order
		{[]string{"files", "files"}, []string{"files"}},
		{[]string{"shell", "files", "-shell"}, []string{"files"}},
		{[]string{"-shell"}, every[1:]},
		{[]string{"-shell", "shell"}, every},
	} {
		got, err := standard.Select(all, c.list)
		require.NoError(t, err, c.list)
		assert.Equal(t, c.want, names(got), c.list)
	}
	assert.Equal(t, every, names(all), "the list given is not changed")
}

func TestSelectRefuses(t *testing.T) {
	all := standard.All(standard.Config{})
	for _, c := range []struct {
		list []string
		says string
	}{
		{[]string{"shel"}, `there is no capability "shel"; did you mean "shell"?`},
		{[]string{"-flies"}, `there is no capability "flies"; did you mean "files"?`},
		{[]string{"zzzzzz"}, `there is no capability "zzzzzz"; there are shell`},
		{[]string{"shell", "-shell"}, "leaves no capability"},
		{[]string{""}, "there is no capability"},
	} {
		_, err := standard.Select(all, c.list)
		assert.ErrorContains(t, err, c.says)
	}
}
