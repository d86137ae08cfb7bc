package main

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// sessionInfo is one session as it is listed.
type sessionInfo struct {
	ID        string            `json:"id"`
	Executor  string            `json:"executor_id"`
	Name      string            `json:"executor_name"`
	Connected bool              `json:"connected"` // the executor is
	Status    string            `json:"status"`    // what the executor said last; "" before that
	Detail    string            `json:"detail,omitempty"`
	Processes int               `json:"processes"` // that the brain has started and knows no end of
	Metadata  map[string]string `json:"metadata,omitempty"`
}

func (s *server) sessions() []sessionInfo {
	list := []sessionInfo{}
	for _, x := range s.brain.Executors() {
		for _, session := range x.Sessions() {
			status, detail := session.Status()
			list = append(list, sessionInfo{ID: session.ID(), Executor: x.ID(), Name: x.Info().Name, Connected: x.Connected(),
				Status: status, Detail: detail, Processes: session.Running(), Metadata: session.Assignment().Metadata})
		}
	}
	return list
}

func sessionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions that executors have",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir(cmd)
			if err != nil {
				return err
			}
			var list []sessionInfo
			if err := newClient(dir).Do(cmd.Context(), http.MethodGet, "/v1/sessions", nil, &list); err != nil {
				return err
			}
			if cli.JSON(cmd) {
				return cli.WriteJSON(cmd.OutOrStdout(), list)
			}
			return printSessions(cmd.OutOrStdout(), list)
		},
	}
}

// printSessions prints a table. What others say about themselves is quoted.
func printSessions(w io.Writer, list []sessionInfo) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "there is no session")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tEXECUTOR\tNAME\tSTATE\tPROCESSES\tCLIENT")
	q := capabilities.QuoteName
	for _, s := range list {
		state := s.Status
		switch {
		case !s.Connected:
			state = "executor is away"
		case state == "":
			state = "-"
		}
		client := s.Metadata["client_name"]
		if client == "" {
			client = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", q(s.ID), q(s.Executor), q(s.Name), cli.Line(state), s.Processes, q(client))
	}
	return t.Flush()
}
