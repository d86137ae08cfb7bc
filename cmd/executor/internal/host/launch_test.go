package host

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func TestLaunchOf(t *testing.T) {
	l, err := launchOf(new(config.Default()))
	require.NoError(t, err)
	assert.Equal(t, standard.Launch{}, l, "by default children are started as they are")

	s := config.Default()
	s.RunAs, s.Rlimit, s.OOMScoreAdjust = "bob:staff", []string{"nofile=1k", "core=0"}, 0
	s.LaunchPrefix, s.Nice = []string{"box", "--bind", "/a:/b", "--"}, -5
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
	for says, change := range map[string]func(*config.Settings){
		"run as no-such-user-here: there is no such account": func(s *config.Settings) { s.RunAs = "no-such-user-here" },
		"launch prefix": func(s *config.Settings) { s.LaunchPrefix = []string{"no-such-program --"} },
	} {
		s := config.Default()
		change(&s)
		err := ConfigureChildren(standard.NewChildren(), &s, nil)
		assert.ErrorContains(t, err, says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err))
	}
}
