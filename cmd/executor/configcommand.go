package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// configPrecedence is said wherever the file is spoken of.
const configPrecedence = `A flag wins over a variable, a variable over the file, the file over the default. The file is
the one named by --config or EXECUTOR_CONFIG, else $XDG_CONFIG_HOME/executor/config.yaml
(~/.config/executor/config.yaml), else /etc/executor/config.yaml. One file is read: the user's own
wins over the system's as a whole, they are not merged.`

func configCommand() *cobra.Command {
	return cli.Group("config", "Write, check or show the configuration", "Write, check or show the configuration of executor run.\n\n"+configPrecedence,
		configInitCommand(), configCheckCommand(), configShowCommand())
}

func configCheckCommand() *cobra.Command {
	given := config.Default()
	c := &cobra.Command{
		Use:   "check",
		Short: "Say all that is wrong with the configuration",
		Long: `Say all that is wrong with the configuration: in the file with the line and column, in
variables and in the flags given, which are those of executor run. What only a start would find is
looked at too: the files and directories that are named. It changes nothing and connects nowhere;
executor doctor does. Exit code 2 when something is wrong; warnings change nothing.

` + configPrecedence,
		Example: "  executor config check --config /etc/executor/config.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := config.ResolveAll(cmd.Flags(), &given, os.Environ())
			return checkConfig(r, cmd.OutOrStdout(), cli.JSON(cmd))
		},
	}
	config.AddFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// checkConfig prints what is wrong. The error has been said already.
func checkConfig(r *config.Resolved, w io.Writer, asJSON bool) error {
	if len(r.Problems) == 0 { // else what it says is not what was meant
		agent.Check(r)
	}
	if r.Ignored != "" {
		r.Warn(fmt.Sprintf("%s is not read: %s wins over it", r.Ignored, r.File))
	}
	err := config.PrintCheck(r, w, asJSON)
	if err == nil && len(r.Problems) > 0 {
		err = &cli.Exit{Code: cli.ExitUsage, Err: r.Err(), Quiet: true}
	}
	return err
}

func configInitCommand() *cobra.Command {
	given := config.Default()
	var force bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration file with every setting explained",
		Long: `Write a configuration file with every setting explained: commented out with its default, but
for those that are given as flags, which are those of executor run. It goes to --config, else to the
user's default place, whose directories are made. A file that is there is only replaced with --force.`,
		Example: `  executor config init --brain wss://brain.example/executor --token-file ~/.config/executor/token --root ~/project`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := config.Init(cmd.Flags(), &given, force)
			if err != nil {
				return err
			}
			if cli.JSON(cmd) {
				return cli.WriteJSON(cmd.OutOrStdout(), struct {
					File string `json:"file"`
				}{path})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is written; edit it, then run: executor config check%s && executor doctor%s\n",
				cli.Line(path), config.FileArgument(path), config.FileArgument(path))
			return err
		},
	}
	config.AddFlags(c.Flags(), &given)
	c.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	c.Flags().SortFlags = false
	return c
}

func configShowCommand() *cobra.Command {
	given := config.Default()
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the effective settings, and where each comes from",
		Long: `Show the effective settings of executor run with the same flags, and where each comes from: a
flag, a variable, a line of the file, or the default. What may be secret is not shown.

` + configPrecedence,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := config.ResolveAll(cmd.Flags(), &given, os.Environ())
			for _, text := range r.Warnings {
				if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", cli.Line(text)); err != nil {
					return err
				}
			}
			if err := r.Err(); err != nil {
				return err
			}
			return config.Show(r, cmd.OutOrStdout(), cli.JSON(cmd))
		},
	}
	config.AddFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}
