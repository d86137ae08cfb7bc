package control

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// PrintStatus prints a status for people. What the brain says is quoted: it must not
// control the terminal.
func PrintStatus(w io.Writer, s Status, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "executor %s, pid %d, up for %s\n", capabilities.QuoteName(s.Version), s.PID, cli.Ago(s.Started, now))
	fmt.Fprintf(t, "  state directory\t%s\n", capabilities.QuoteName(s.StateDir))
	if s.Config != "" {
		fmt.Fprintf(t, "  configuration\t%s\n", capabilities.QuoteName(s.Config))
	}
	if s.ApprovalsWaiting > 0 {
		fmt.Fprintf(t, "  waiting for you\t%s; see executor approvals\n", cli.Count(s.ApprovalsWaiting, "call", "calls"))
	}
	if s.AuditLost > 0 {
		fmt.Fprintf(t, "  AUDIT LOG\t%d lines lost %s\n", s.AuditLost, cli.Line(s.AuditProblem))
	}
	for _, b := range s.Brains {
		printBrain(t, b, now)
	}
	return t.Flush()
}

func printBrain(t io.Writer, b BrainStatus, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	state := string(b.State)
	if !b.Since.IsZero() {
		state += " for " + cli.Ago(b.Since, now)
	}
	fmt.Fprintf(t, "\nbrain %s\n", capabilities.QuoteName(b.Brain))
	line("state", "%s", state)
	if b.State == executor.StateWaiting {
		line("next attempt", "in %v, after %s in a row", max(0, b.NextAttempt.Sub(now)).Round(100*time.Millisecond), cli.Count(b.Attempts, "failed one", "failed ones"))
	}
	if b.DrainReason != "" {
		line("draining", "%s; cancels what runs in %v", cli.Line(b.DrainReason), max(0, b.DrainUntil.Sub(now)).Round(time.Second))
	}
	if b.ExecutorID != "" {
		line("executor", "%s", capabilities.QuoteName(b.ExecutorID))
	}
	if b.ConnectionID != "" {
		line("connection", "%s, for %s; the brain answered %s ago", capabilities.QuoteName(b.ConnectionID), cli.Ago(b.Connected, now), cli.Ago(b.LastContact, now))
	}
	line("lease", "%s", leaseText(b.LeaseLeftMS))
	line("work", "%s, %s, %s", cli.Count(len(b.Sessions), "session", "sessions"), cli.Count(b.CallsRunning, "call running", "calls running"), cli.Count(b.Processes, "process", "processes"))
	line("results", "%d owed, %d lost; journal %s", b.ResultsOwed, b.ResultsLost, size(b.JournalBytes))
	if b.Degraded != "" {
		line("DEGRADED", "%s", cli.Line(b.Degraded))
	}
	if b.OverdueMS > 0 {
		line("STUCK", "for %v, restart it", (time.Duration(b.OverdueMS) * time.Millisecond).Round(time.Second))
	}
	for _, x := range b.Sessions {
		line("session", "%s: %s, %s, %s", capabilities.QuoteName(x.ID), x.State, cli.Count(x.Calls, "call", "calls"), cli.Count(x.Processes, "process", "processes"))
		for _, c := range x.Running {
			line("  call", "%s: %s, for %s", capabilities.QuoteName(c.ID), capabilities.QuoteName(c.Tool), cli.Ago(c.Since, now))
		}
		if more := x.Calls - len(x.Running); more > 0 && len(x.Running) > 0 {
			line("  call", "and %d more", more)
		}
	}
	for _, e := range b.Errors {
		times := ""
		if e.Times > 1 {
			times = fmt.Sprintf(" (%d times)", e.Times)
		}
		line("error", "%s ago: %s%s", cli.Ago(e.At, now), cli.Line(e.Text), times)
	}
}

func leaseText(ms int64) string {
	if ms <= 0 {
		return "none"
	}
	return fmt.Sprintf("%v left", (time.Duration(ms) * time.Millisecond).Round(100*time.Millisecond))
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// WaitsFor says what keeps a program from leaving; "" when nothing does.
func WaitsFor(s Status) string {
	calls, processes, owed := 0, 0, 0
	tools := map[string]bool{}
	var names []string
	for _, b := range s.Brains {
		calls, processes, owed = calls+b.CallsRunning, processes+b.Processes, owed+b.ResultsOwed
		for _, x := range b.Sessions {
			for _, c := range x.Running {
				if !tools[c.Tool] {
					tools[c.Tool] = true
					names = append(names, c.Tool)
				}
			}
		}
	}
	var parts []string
	if calls > 0 {
		text := cli.Count(calls, "call", "calls")
		if len(names) > 0 {
			text += " (" + strings.Join(names, ", ") + ")"
		}
		parts = append(parts, text)
	}
	if processes > 0 {
		parts = append(parts, cli.Count(processes, "process", "processes"))
	}
	if owed > 0 {
		parts = append(parts, cli.Count(owed, "result to be delivered", "results to be delivered"))
	}
	return strings.Join(parts, ", ")
}
