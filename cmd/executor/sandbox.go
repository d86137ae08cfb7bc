package main

import (
	"os"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// sandboxOf is the sandbox that the settings want for commands; nil for none.
func sandboxOf(s *settings) (*standard.Sandbox, error) {
	if s.Sandbox == standard.SandboxOff {
		switch {
		case s.SandboxNetwork != standard.NetworkOpen:
			return nil, cli.Usagef("sandbox_network is given, but there is no sandbox; turn it on with --sandbox auto")
		case len(s.SandboxRead) > 0:
			return nil, cli.Usagef("sandbox_read is given, but there is no sandbox; turn it on with --sandbox auto")
		}
		return nil, nil
	}
	roots, err := rootsOf(s.Root)
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
