package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

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
	given := defaultSettings()
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
			r := resolveAll(cmd.Flags(), &given, os.Environ())
			return checkConfig(r, cmd.OutOrStdout(), cli.JSON(cmd))
		},
	}
	addFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// checkConfig prints what is wrong. The error has been said already.
func checkConfig(r *resolved, w io.Writer, asJSON bool) error {
	if len(r.problems) == 0 { // else what it says is not what was meant
		r.checkStart()
	}
	if r.ignored != "" {
		r.warn(fmt.Sprintf("%s is not read: %s wins over it", r.ignored, r.file))
	}
	err := printCheck(r, w, asJSON)
	if err == nil && len(r.problems) > 0 {
		err = &cli.Exit{Code: cli.ExitUsage, Err: r.err(), Quiet: true}
	}
	return err
}

func printCheck(r *resolved, w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, struct {
			OK       bool      `json:"ok"`
			File     string    `json:"file"` // "" = none
			Problems []problem `json:"problems"`
			Warnings []string  `json:"warnings"`
		}{len(r.problems) == 0, r.file, append([]problem{}, r.problems...), append([]string{}, r.warnings...)})
	}
	for _, p := range r.problems {
		if _, err := fmt.Fprintf(w, "problem: %s\n", cli.Line(p.say(true))); err != nil {
			return err
		}
	}
	for _, text := range r.warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", cli.Line(text)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", cli.Line(fileOrNone(r.file)), verdict(r))
	return err
}

func verdict(r *resolved) string {
	switch n := len(r.problems); n {
	case 0:
		return "ok, with " + plural(len(r.origins), "setting") + " that are not the default's"
	default:
		return plural(n, "problem")
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func fileOrNone(path string) string {
	if path == "" {
		return "no configuration file"
	}
	return path
}
