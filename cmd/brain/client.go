package main

import "github.com/agent-executor/executor/cmd/internal/cli"

// newClient asks the brain that uses a state directory.
func newClient(dir string) *cli.Client {
	return &cli.Client{Program: "brain", Start: "brain serve", Dir: dir}
}
