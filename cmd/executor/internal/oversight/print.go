package oversight

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/approval"
)

// PrintApprovals prints what waits. What it says comes from the brain, perhaps from a model that wants to be
// approved: each of its lines stands behind a bar, and nothing in it controls the terminal.
func PrintApprovals(w io.Writer, items []approval.Item, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "no call waits for you")
		return err
	}
	for i, item := range items {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printItem(w, item, now)
	}
	_, err := fmt.Fprintln(w, "\nexecutor approve ID [--session|--always], or executor deny ID")
	return err
}

func printItem(w io.Writer, item approval.Item, now time.Time) {
	fmt.Fprintf(w, "%s  %s, has waited for %s, is denied in %s\n", item.ID, cli.Line(item.Tool), cli.Ago(item.Since, now), max(0, item.Expires.Sub(now)).Round(time.Second))
	quoted(w, item.What)
	if item.Dir != "" {
		fmt.Fprintf(w, "  in       %s\n", capabilities.QuoteName(item.Dir))
	}
	fmt.Fprintf(w, "  session  %s\n", capabilities.QuoteName(item.Session))
	why := cli.Line(item.Rule)
	if item.Why != "" {
		why += ": " + cli.Line(item.Why)
	}
	fmt.Fprintf(w, "  because  %s\n", why)
}

// quoted prints a text that is not the executor's own, so that it is seen where it begins and ends.
func quoted(w io.Writer, text string) {
	for line := range strings.Lines(cli.Text(text)) {
		fmt.Fprintf(w, "  | %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// PrintRules prints what was allowed always.
func PrintRules(w io.Writer, rules []approval.Rule) error {
	if len(rules) == 0 {
		_, err := fmt.Fprintln(w, "nothing is allowed always")
		return err
	}
	for _, r := range rules {
		fmt.Fprintf(w, "%s  %s, since %s\n", r.ID, cli.Line(r.Tool), r.Added.Local().Format(time.DateTime))
		quoted(w, r.What)
		if r.Dir != "" {
			fmt.Fprintf(w, "  in       %s\n", capabilities.QuoteName(r.Dir))
		}
	}
	_, err := fmt.Fprintln(w, "\nexecutor approvals --forget ID takes one back")
	return err
}
