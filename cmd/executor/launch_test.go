package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func TestLaunchOf(t *testing.T) {
	l, err := launchOf(new(defaultSettings()))
	require.NoError(t, err)
	assert.Equal(t, standard.Launch{}, l, "by default children are started as they are")

	s, _, err := resolveWith(t, []string{"--run-as", "bob:staff", "--rlimit", "nofile=1k", "--rlimit", "core=0", "--oom-score-adjust", "0"},
		[]string{"EXECUTOR_LAUNCH_PREFIX=box\n--bind\n/a:/b\n--"}, "nice: -5\n")
	require.NoError(t, err)
	l, err = launchOf(&s)
	require.NoError(t, err)
	assert.Equal(t, standard.Launch{
		RunAs:    &standard.RunAs{User: "bob", Group: "staff"},
		Limits:   []standard.Limit{{Name: "nofile", Value: 1024}, {Name: "core"}},
		Nice:     -5,
		OOMScore: -1,
		Prefix:   []string{"box", "--bind", "/a:/b", "--"},
	}, l)
}

// What cannot be done is an error of the configuration, before anything is started.
func TestConfigureChildrenRefuses(t *testing.T) {
	for says, change := range map[string]func(*settings){
		"run as no-such-user-here: there is no such account": func(s *settings) { s.RunAs = "no-such-user-here" },
		"launch prefix": func(s *settings) { s.LaunchPrefix = []string{"no-such-program --"} },
	} {
		s := working(t)
		change(&s)
		err := configureChildren(standard.NewChildren(), &s, cli.NewRedactor(io.Discard))
		assert.ErrorContains(t, err, says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err))
	}
}
