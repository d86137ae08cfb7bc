package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

func callCommand() *cobra.Command {
	var q callRequest
	var wait time.Duration
	c := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Call a tool of an executor and print its result",
		Long: `Call a tool of an executor and print its result.

The call gets a session of its own, which ends with it. With --session it gets the
session of that name, which is made if it is not there, and stays.

The exit code is 0 when the tool did what was asked and the answer is no error.
Ctrl-C cancels the call.`,
		Example: `  brain call bash '{"command":"uname -a"}'`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Tool, q.WaitMS = args[0], wait.Milliseconds()
			input := "{}"
			if len(args) == 2 {
				input = args[1]
			}
			if err := checkInput(input); err != nil {
				return err
			}
			q.Input = json.RawMessage(input)
			dir, err := stateDir(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			var result protocol.ToolResultParams
			if err := newClient(dir).Do(ctx, http.MethodPost, "/v1/call", q, &result); err != nil {
				if errors.Is(err, context.Canceled) {
					return cli.WithCode(cli.ExitFailed, errors.New("interrupted; the call is cancelled"))
				}
				return err
			}
			return printResult(cmd.OutOrStdout(), result, q.Tool, cli.JSON(cmd))
		},
	}
	f := c.Flags()
	f.StringVar(&q.Executor, "executor", "", "`ID` or name of the executor (default: the one that is connected)")
	f.StringVar(&q.Session, "session", "", "`ID` of the session to call in (default: one for this call)")
	f.DurationVar(&wait, "wait", 10*time.Second, "`TIME` to wait for the executor to be connected")
	return c
}

// checkInput finds out before anything is asked whether the input is an object.
func checkInput(input string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(input), &object); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return cli.Usagef("the input is not JSON: %w (after %d bytes); write it like '{\"command\":\"ls\"}'", err, syntax.Offset)
		}
		return cli.Usagef("the input is JSON, but no object; write it like '{\"command\":\"ls\"}'")
	}
	if object == nil {
		return cli.Usagef("the input is JSON, but no object; write it like '{\"command\":\"ls\"}'")
	}
	return nil
}

// printResult prints the text of a result; the error says how it ended when that is
// not well.
func printResult(w io.Writer, r protocol.ToolResultParams, tool string, asJSON bool) error {
	if asJSON {
		if err := cli.WriteJSON(w, r); err != nil {
			return err
		}
	} else if err := printContent(w, r.Content); err != nil {
		return err
	}
	if r.Outcome == protocol.OutcomeSucceeded && !r.IsError {
		return nil
	}
	return &cli.Exit{Code: cli.ExitFailed, Err: ending(r, tool), Quiet: asJSON}
}

// printContent prints blocks of text, and a line for each of the others. Only where
// no terminal is does text go out as it came.
func printContent(w io.Writer, content []protocol.Content) error {
	text := func(s string) string { return s }
	if cli.IsTerminal(w) {
		text = cli.Text
	}
	for _, c := range content {
		var s string
		switch c.Type {
		case protocol.ContentText:
			s = text(c.Text)
		case protocol.ContentImage:
			s = fmt.Sprintf("[image %s, %d bytes]", cli.Line(c.MIMEType), len(c.Data))
		default:
			s = fmt.Sprintf("[%s %s]", cli.Line(c.Type), cli.Line(c.Name+c.URL+c.ArtifactID))
		}
		if s == "" {
			continue
		}
		if s[len(s)-1] != '\n' {
			s += "\n"
		}
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return nil
}

// ending says in one line how a call ended that did not end well.
func ending(r protocol.ToolResultParams, tool string) error {
	if r.Error != nil {
		return fmt.Errorf("%s %s: %s: %s", tool, r.Outcome, r.Error.Reason, r.Error.Message)
	}
	var command struct {
		ExitCode   *int   `json:"exit_code"`
		ExitSignal string `json:"exit_signal"`
	}
	notCommand := json.Unmarshal(r.Structured, &command) // of other tools it is something else
	switch {
	case r.Outcome != protocol.OutcomeSucceeded:
		return fmt.Errorf("%s %s", tool, r.Outcome)
	case notCommand != nil:
	case command.ExitSignal != "":
		return fmt.Errorf("%s was ended by %s", tool, command.ExitSignal)
	case command.ExitCode != nil:
		return fmt.Errorf("%s ended with exit code %d", tool, *command.ExitCode)
	}
	return fmt.Errorf("%s answered with an error", tool)
}
