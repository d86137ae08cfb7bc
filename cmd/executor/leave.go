package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

func drainCommand() *cobra.Command {
	var limit time.Duration
	c := askCommand(&cobra.Command{
		Use:   "drain",
		Short: "Let the running executor finish its calls and leave",
		Long: `Let the running executor finish its calls and leave: it takes no new work, waits for
running calls and processes, delivers their results, ends its sessions and exits. What it
waits for is said meanwhile. The exit code is 0 when it has left; when this command is
interrupted, the executor goes on leaving.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		if limit < 0 || limit == 0 && cmd.Flags().Changed("deadline") {
			return cli.Usagef("--deadline %v: want more than 0; executor stop waits for nothing", limit)
		}
		return awaitLeaving(cmd, client, "/drain", control.DrainRequest{DeadlineMS: limit.Milliseconds()})
	})
	c.Flags().DurationVar(&limit, "deadline", 0, "cancel what still runs after this `TIME`; one that is set already is only made shorter (default: the executor's --drain-timeout)")
	return c
}

func stopCommand() *cobra.Command {
	return askCommand(&cobra.Command{
		Use:   "stop",
		Short: "Stop the running executor now",
		Long: `Stop the running executor now: calls are cancelled and processes terminated, what they
have done is reported, and the executor exits. The exit code is 0 when it has left.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		return awaitLeaving(cmd, client, "/stop", struct{}{})
	})
}

// awaitLeaving asks the executor to leave and says what it waits for, until it has left.
func awaitLeaving(cmd *cobra.Command, client *cli.Client, path string, request any) error {
	began := time.Now()
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := client.Stream(cmd.Context(), http.MethodPost, path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer answer.Close()
	var last control.Leaving
	for lines := json.NewDecoder(answer); !last.Left; {
		var line control.Leaving
		if err := lines.Decode(&line); err != nil {
			return lost(cmd.Context(), err)
		}
		last = line
		if line.Status != nil && !cli.JSON(cmd) {
			if what := control.WaitsFor(*line.Status); what != "" {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "waiting for %s\n", cli.Line(what))
			}
		}
	}
	_, _ = io.Copy(io.Discard, answer) // until the executor has closed it
	took := time.Since(began)
	if last.Systemd && !cli.JSON(cmd) {
		defer fmt.Fprintln(cmd.ErrOrStderr(), "it ran as a service of systemd, which may start it again; systemctl stop ends it for good")
	}
	if cli.JSON(cmd) {
		return cli.WriteJSON(cmd.OutOrStdout(), struct {
			Left     bool   `json:"left"`
			WaitedMS int64  `json:"waited_ms"`
			ExitCode int    `json:"executor_exit_code"`
			Error    string `json:"executor_error,omitempty"`
		}{true, took.Milliseconds(), last.ExitCode, last.Error})
	}
	how := ""
	if last.ExitCode != 0 {
		how = fmt.Sprintf(", with exit code %d: %s", last.ExitCode, cli.Line(last.Error))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the executor has left after %v%s\n", took.Round(100*time.Millisecond), how)
	return err
}

func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the executor was ended before it had finished")
	}
	return fmt.Errorf("the executor does not say any more whether it has left: %w", err)
}
