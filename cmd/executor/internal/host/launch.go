package host

import (
	"os"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// launchOf is how the settings want commands to be started.
func launchOf(s *config.Settings) (l standard.Launch, err error) {
	if s.RunAs != "" {
		if l.RunAs, err = standard.ParseRunAs(s.RunAs); err != nil {
			return l, err
		}
	}
	for _, text := range s.Rlimit {
		limit, err := standard.ParseLimit(text)
		if err != nil {
			return l, err
		}
		l.Limits = append(l.Limits, limit)
	}
	if l.Sandbox, err = Sandbox(s); err != nil {
		return l, err
	}
	l.Nice, l.Prefix = s.Nice, s.LaunchPrefix
	switch s.OOMScoreAdjust {
	case config.Default().OOMScoreAdjust: // also where the system has no such thing
	case 0:
		l.OOMScore = -1
	default:
		l.OOMScore = s.OOMScoreAdjust
	}
	return l, nil
}

// ConfigureChildren sets how the settings want commands to be started. mask makes what changes their output; nil for nothing. What cannot be
// done here ends the program now.
func ConfigureChildren(children *standard.Children, s *config.Settings, mask func(env []string) standard.Masker) error {
	l, err := launchOf(s)
	l.Mask = mask
	if err == nil {
		err = children.Configure(l)
	}
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	return nil
}

// Sandbox is the sandbox that the settings want for commands; nil for none.
func Sandbox(s *config.Settings) (*standard.Sandbox, error) {
	if s.Sandbox == standard.SandboxOff {
		switch {
		case s.SandboxNetwork != standard.NetworkOpen:
			return nil, cli.Usagef("sandbox_network is given, but there is no sandbox; turn it on with --sandbox auto")
		case len(s.SandboxRead) > 0:
			return nil, cli.Usagef("sandbox_read is given, but there is no sandbox; turn it on with --sandbox auto")
		}
		return nil, nil
	}
	roots, err := config.Roots(s.Root)
	if err != nil {
		return nil, err
	}
	p := &standard.Sandbox{Mode: s.Sandbox, Network: s.SandboxNetwork, Read: s.SandboxRead}
	for _, r := range roots {
		p.Roots = append(p.Roots, standard.SandboxRoot{Path: r.Path, ReadOnly: r.ReadOnly})
	}
	p.Hidden = append(p.Hidden, s.StateDir, s.EnvironmentKeyFile, os.Getenv("CREDENTIALS_DIRECTORY"))
	p.Hidden = append(p.Hidden, s.TokenFiles...)
	return p, nil
}
