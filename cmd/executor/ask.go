package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

const (
	// askPatience is how long a running agent may take to begin an answer.
	askPatience = 10 * time.Second
	// systemStateDir is where the service of the system keeps its state.
	systemStateDir = "/var/lib/executor"
)

// askFlags adds the flags by which a running agent is found: those of the same names of
// executor run.
func askFlags(c *cobra.Command) (given *config.Settings) {
	given = new(config.Default())
	all := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(all, given)
	c.Flags().AddFlag(all.Lookup("state-dir"))
	c.Flags().AddFlag(all.Lookup(config.FileFlag))
	return given
}

// clientOf makes the client for the running agent that the flags, the variables and the
// configuration file mean. The file is not looked at where one of the others says the
// directory, so that a broken one keeps nobody from asking. Where nothing says it, and no
// agent of this user runs, the system's service is asked.
func clientOf(cmd *cobra.Command, given *config.Settings) (*cli.Client, error) {
	client := func(dir string) (*cli.Client, error) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, cli.Usagef("state directory: %w", err)
		}
		return &cli.Client{Program: "executor", Start: "executor run", Dir: abs, Patience: askPatience}, nil
	}
	variables, _ := config.ReadVariables(os.Environ())
	dir := variables["EXECUTOR_STATE_DIR"]
	if cmd.Flags().Changed("state-dir") {
		dir = given.StateDir
		if dir == "" {
			return nil, cli.NoStateDir("executor")
		}
	}
	if dir != "" {
		return client(config.ExpandHome(dir))
	}
	s, _, err := config.Resolve(cmd.Flags(), given, os.Environ())
	if err != nil {
		return nil, err
	}
	usual := cli.DefaultStateDir("executor")
	if s.StateDir == usual && runtime.GOOS != "windows" && !there(usual) && there(systemStateDir) {
		return client(systemStateDir)
	}
	if s.StateDir == "" {
		return nil, cli.NoStateDir("executor")
	}
	return client(s.StateDir)
}

// there reports whether a state directory has a control socket, or hides whether it has.
func there(dir string) bool {
	_, err := os.Lstat(cli.ControlSocket(dir))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// askCommand is a command that asks the running agent. do is given the client.
func askCommand(c *cobra.Command, do func(cmd *cobra.Command, client *cli.Client) error) *cobra.Command {
	given := askFlags(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := clientOf(cmd, given)
		if err != nil {
			return err
		}
		return do(cmd, client)
	}
	return c
}

func statusCommand() *cobra.Command {
	return askCommand(&cobra.Command{
		Use:   "status",
		Short: "Show what the running executor does",
		Long: `Show what the running executor does: for each brain the state, the connection and its
lease, sessions, running calls, processes, results that are owed, and the last errors.

It is asked over the control socket in its state directory, as the same user or as root.
The exit code is 0 when it answers, whatever its state, and 1 when none runs.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		var s control.Status
		if err := client.Do(cmd.Context(), http.MethodGet, "/status", nil, &s); err != nil {
			return err
		}
		if cli.JSON(cmd) {
			return cli.WriteJSON(cmd.OutOrStdout(), s)
		}
		return control.PrintStatus(cmd.OutOrStdout(), s, time.Now())
	})
}
