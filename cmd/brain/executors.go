package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func executorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "executors",
		Short: "List the executors the brain knows",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir(cmd)
			if err != nil {
				return err
			}
			var list []executorInfo
			if err := newClient(dir).Do(cmd.Context(), http.MethodGet, "/v1/executors", nil, &list); err != nil {
				return err
			}
			if cli.JSON(cmd) {
				return cli.WriteJSON(cmd.OutOrStdout(), list)
			}
			return printExecutors(cmd.OutOrStdout(), list, time.Now())
		},
	}
}

// printExecutors prints a table. What executors say about themselves is quoted: it
// must not control the terminal.
func printExecutors(w io.Writer, list []executorInfo, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no executor has connected yet")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXECUTOR\tNAME\tSYSTEM\tVERSION\tSTATE\tCPU\tMEMORY\tSESSIONS\tPROCESSES\tTOOLS")
	q := capabilities.QuoteName
	for _, e := range list {
		state := "connected"
		if !e.Connected {
			state = "away for " + now.Sub(e.LastSeen.Time).Round(time.Second).String()
		}
		tools := make([]string, len(e.Tools))
		for i, name := range e.Tools {
			tools[i] = q(name)
		}
		cpu, memory := "-", "-"
		if e.Load != nil {
			cpu, memory = fmt.Sprintf("%.0f%%", e.Load.CPUPercent), fmt.Sprintf("%.0f%%", e.Load.MemoryPercent)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", q(e.ID), q(e.Name), q(e.OS+"/"+e.Arch), q(e.Version),
			state, cpu, memory, len(e.Sessions), e.Processes, strings.Join(tools, ","))
	}
	return t.Flush()
}
