package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/executor/internal/service"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

const (
	checkTime  = 5 * time.Second
	doctorTime = 13 * time.Second // for all
)

func doctorCommand() *cobra.Command {
	given := config.Default()
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the executor could work here, and say what to do where not",
		Long: `Check whether executor run with the same flags could work here, and say what to do where not: the
configuration, the way to the brain up to the registration, the state directory, the roots, and what
commands need. Each check is ok, warn or fail; skip is what could not be looked at, and why.

Nothing is changed: the brain is asked with probe=1, which registers nobody and displaces no executor
that runs. A token command is run, as at every connect. Exit code 1 when a check fails; warnings
change nothing. It takes at most 15 seconds, also with a brain that does not answer.

What is checked is what this user, here, could do. For a system service: executor service status
prints a command that runs the doctor as the service is run.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hide := cli.NewRedactor(cmd.OutOrStdout())
			r := config.ResolveAll(cmd.Flags(), &given, os.Environ())
			reports := diagnose(cmd.Context(), r, hide)
			err := printDoctor(reports, hide, cli.JSON(cmd))
			if err == nil && doctor.Failed(reports) {
				err = &cli.Exit{Code: cli.ExitFailed, Err: fmt.Errorf("a check failed"), Quiet: true}
			}
			return err
		},
	}
	config.AddFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// diagnose makes all checks of the settings, and runs them.
func diagnose(ctx context.Context, r *config.Resolved, hide *cli.Redactor) []doctor.Report {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	checks := append(agent.Checks(r, hide), doctor.Check{Name: "systemd", Run: service.Check})
	return doctor.Run(ctx, checks, checkTime)
}

func printDoctor(reports []doctor.Report, w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, struct {
			OK     bool            `json:"ok"` // nothing failed
			Checks []doctor.Report `json:"checks"`
		}{!doctor.Failed(reports), reports})
	}
	width := 0
	for _, r := range reports {
		width = max(width, len([]rune(r.Name)))
	}
	count := map[doctor.Status]int{}
	var b strings.Builder
	indent := strings.Repeat(" ", 6+width+2)
	for _, r := range reports {
		count[r.Status]++
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", r.Status, width, r.Name, cli.Line(r.Text))
		for _, text := range r.Details {
			fmt.Fprintf(&b, "%s%s\n", indent, cli.Line(text))
		}
		if r.Remedy != "" {
			fmt.Fprintf(&b, "%s-> %s\n", indent, cli.Line(r.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s: %d ok, %d warn, %d fail, %d skip\n", map[bool]string{true: "Something failed", false: "All is well"}[doctor.Failed(reports)],
		count[doctor.OK], count[doctor.Warn], count[doctor.Fail], count[doctor.Skip])
	_, err := io.WriteString(w, b.String())
	return err
}
