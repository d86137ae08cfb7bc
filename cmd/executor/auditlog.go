package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/audit"
)

func auditCommand() *cobra.Command {
	var session string
	var follow, verify bool
	var last int
	c := askCommand(&cobra.Command{
		Use:   "audit",
		Short: "Show what was asked for, how it was decided and how it ended",
		Long: `Show the audit log in the state directory: for each call who asked for what, which rule or
who decided how, and with what outcome it ended. The executor need not run.

Each line carries the hash of the one before it; --verify reads all of them and says which
are missing or changed, with exit code 1. What was decided and has no end before the next
start was cut off. With --output json each line is one object, as in the files.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		dir := filepath.Join(client.Dir, oversight.AuditDir)
		if verify {
			return verifyAudit(cmd, client.Dir, dir)
		}
		show := func(e audit.Entry) error {
			if session != "" && e.Session != session {
				return nil
			}
			return printEntry(cmd, e)
		}
		var err error
		if follow {
			err = audit.Follow(cmd.Context(), dir, last, show)
		} else {
			err = showLast(dir, last, session, show)
		}
		return noAudit(err, dir)
	})
	c.Flags().StringVar(&session, "session", "", "only of the session with this `ID`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	c.Flags().IntVarP(&last, "last", "n", 50, "how many of the newest lines, a `NUMBER`; 0 is all")
	c.Flags().BoolVar(&verify, "verify", false, "check that every line is there and as it was written")
	return c
}

func noAudit(err error, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no audit log in %s; an executor that runs writes one, name its --state-dir", capabilities.QuoteName(dir))
	}
	return err
}

// showLast shows the newest lines, of one session if it is named.
func showLast(dir string, last int, session string, show func(audit.Entry) error) error {
	var tail []audit.Entry
	err := audit.Read(dir, func(e audit.Entry) error {
		if session != "" && e.Session != session {
			return nil
		}
		if last <= 0 {
			return show(e)
		}
		if tail = append(tail, e); len(tail) > 2*last+64 {
			tail = append(tail[:0], tail[len(tail)-last:]...)
		}
		return nil
	})
	for _, e := range tail[max(0, len(tail)-last):] {
		if err == nil {
			err = show(e)
		}
	}
	return err
}

// auditReport is what audit --verify says.
type auditReport struct {
	audit.Report
	Cut bool `json:"cut_off"` // the torn line is not being written: a crash has cut it off, and the next start removes it
}

func verifyAudit(cmd *cobra.Command, state, dir string) error {
	r, err := audit.Verify(dir)
	if err != nil {
		return noAudit(err, dir)
	}
	report := auditReport{Report: r}
	if r.Torn > 0 {
		// Who holds the state directory may be writing it; without one it is no line, and none will come of it. That a
		// line which had been written is cut off is a problem already: the file head says which was the last.
		if lock, _, err := cli.LockState(state, "executor"); err == nil {
			_ = lock.Close()
			report.Cut = true
		}
	}
	if cli.JSON(cmd) {
		err = cli.WriteJSON(cmd.OutOrStdout(), report)
	} else {
		err = printReport(cmd.OutOrStdout(), report)
	}
	if err == nil && len(r.Problems) > 0 {
		return fmt.Errorf("the audit log is not as it was written")
	}
	return err
}

func printReport(w io.Writer, r auditReport) error {
	fmt.Fprintf(w, "%s in %s, number %d to %d\n", cli.Count(int(r.Lines), "line", "lines"), cli.Count(r.Files, "file", "files"), r.First, r.Last)
	if r.Rotated {
		fmt.Fprintf(w, "the lines before %d were too old to be kept\n", r.First)
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "%d lines could not be written at the time; the log says where\n", r.Lost)
	}
	switch {
	case r.Cut:
		fmt.Fprintf(w, "warning: %d bytes at the end are no whole line: a crash has cut it off, and the next start removes it and says so in the log\n", r.Torn)
	case r.Torn > 0:
		fmt.Fprintf(w, "%d bytes at the end are no whole line yet: it is being written\n", r.Torn)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "PROBLEM  %s\n", cli.Line(p))
	}
	if len(r.Problems) == 0 {
		_, err := fmt.Fprintln(w, "every line is there and as it was written")
		return err
	}
	return nil
}

func printEntry(cmd *cobra.Command, e audit.Entry) error {
	w := cmd.OutOrStdout()
	if cli.JSON(cmd) {
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	_, err := fmt.Fprintln(w, cli.Line(entryText(e)))
	return err
}

// entryText is a line for people.
func entryText(e audit.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-7s ", e.Time.Local().Format(time.DateTime), e.Event)
	if e.Tool != "" {
		fmt.Fprintf(&b, " %s %s in %s", e.Tool, e.Call, e.Session)
	}
	switch e.Event {
	case audit.EventDecided:
		fmt.Fprintf(&b, ": %s by %s", e.Decision, e.By)
		if e.Scope != "" && e.By != "policy" {
			fmt.Fprintf(&b, " (%s)", e.Scope)
		}
		if e.Who != "" {
			fmt.Fprintf(&b, ", %s", e.Who)
		}
		fmt.Fprintf(&b, "; %s", e.Rule)
	case audit.EventAsked:
		fmt.Fprintf(&b, ": as %s; %s", e.Approval, e.Rule)
	case audit.EventEnded:
		fmt.Fprintf(&b, ": %s", e.Outcome)
		if e.Reason != "" {
			fmt.Fprintf(&b, " (%s)", e.Reason)
		}
		fmt.Fprintf(&b, " in %d ms", e.DurationMS)
		if len(e.Mutations) > 0 {
			fmt.Fprintf(&b, "; %s", strings.Join(e.Mutations, ", "))
		}
	case audit.EventLost:
		fmt.Fprintf(&b, " %d lines could not be written: %s", e.Lines, e.Text)
	case audit.EventRemoved:
		fmt.Fprintf(&b, " %s", e.Text)
	case audit.EventTorn:
		fmt.Fprintf(&b, " a line was cut off, %d bytes", e.Bytes)
	case audit.EventStart, audit.EventStop:
		fmt.Fprintf(&b, " pid %d", e.PID)
		if e.Text != "" {
			fmt.Fprintf(&b, " %s", e.Text)
		}
	}
	if e.Input != "" {
		fmt.Fprintf(&b, "  %s", e.Input)
	}
	return b.String()
}
