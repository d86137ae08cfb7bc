package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/approval"
)

func approvalsCommand() *cobra.Command {
	var rules bool
	var forget string
	c := askCommand(&cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for you, or what you have allowed always",
		Long: `List the calls that wait for the local user, with what they are going to do and where:
those that the policy asks about, and those that the brain wants asked about. Each waits
until it is answered with executor approve or executor deny, or its time is over.

With --rules it lists what was allowed with approve --always; --forget takes one of them
back. Commands that the executor has started itself can approve nothing.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		if forget != "" {
			return client.Do(cmd.Context(), http.MethodDelete, "/approvals/rules/"+url.PathEscape(forget), nil, nil)
		}
		var a approvalsAnswer
		if err := client.Do(cmd.Context(), http.MethodGet, "/approvals", nil, &a); err != nil {
			return err
		}
		switch {
		case cli.JSON(cmd):
			return cli.WriteJSON(cmd.OutOrStdout(), a)
		case rules:
			return printRules(cmd.OutOrStdout(), a.Rules)
		}
		return printApprovals(cmd.OutOrStdout(), a.Approvals, time.Now())
	})
	c.Flags().BoolVar(&rules, "rules", false, "list what is allowed always")
	c.Flags().StringVar(&forget, "forget", "", "take back what is allowed always under this `ID`")
	return c
}

func approveCommand() *cobra.Command {
	var once, session, always bool
	given := new(settings)
	c := &cobra.Command{
		Use:   "approve ID",
		Short: "Let a call run that waits for you",
		Long: `Let a call run that waits for the local user.

--once, the default, is for this call. --session also lets the same thing run in the same
session, --always also in every other, now and after a restart: the same command with the
same arguments in the same directory, the same tool on the same files whatever their content,
or a tool with the same input. executor approvals --rules lists what is allowed always.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := approvalDecision{Allow: true, Scope: approval.Once}
			switch {
			case session && always, once && session, once && always:
				return cli.Usagef("--once, --session and --always: give one of them")
			case session:
				d.Scope = approval.Session
			case always:
				d.Scope = approval.Always
			}
			return decide(cmd, given, args[0], d)
		},
	}
	given = askFlags(c)
	c.Flags().BoolVar(&once, "once", false, "this call only")
	c.Flags().BoolVar(&session, "session", false, "also the same thing in the same session")
	c.Flags().BoolVar(&always, "always", false, "also the same thing in every session, kept over restarts")
	return c
}

func denyCommand() *cobra.Command {
	given := new(settings)
	c := &cobra.Command{
		Use:   "deny ID",
		Short: "Deny a call that waits for you",
		Long:  `Deny a call that waits for the local user: it is not run, and the model is told so.`,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return decide(cmd, given, args[0], approvalDecision{})
		},
	}
	given = askFlags(c)
	return c
}

func decide(cmd *cobra.Command, given *settings, id string, d approvalDecision) error {
	client, err := clientOf(cmd, given)
	if err != nil {
		return err
	}
	return client.Do(cmd.Context(), http.MethodPost, "/approvals/"+url.PathEscape(id), d, nil)
}

// printApprovals prints what waits. What it says comes from the brain, perhaps from a model that wants to be
// approved: each of its lines stands behind a bar, and nothing in it controls the terminal.
func printApprovals(w io.Writer, items []approval.Item, now time.Time) error {
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
	fmt.Fprintf(w, "%s  %s, has waited for %s, is denied in %s\n", item.ID, cli.Line(item.Tool), ago(item.Since, now), max(0, item.Expires.Sub(now)).Round(time.Second))
	quoted(w, item.What)
	if item.Dir != "" {
		fmt.Fprintf(w, "  in       %s\n", quote(item.Dir))
	}
	fmt.Fprintf(w, "  session  %s\n", quote(item.Session))
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

func printRules(w io.Writer, rules []approval.Rule) error {
	if len(rules) == 0 {
		_, err := fmt.Fprintln(w, "nothing is allowed always")
		return err
	}
	for _, r := range rules {
		fmt.Fprintf(w, "%s  %s, since %s\n", r.ID, cli.Line(r.Tool), r.Added.Local().Format(time.DateTime))
		quoted(w, r.What)
		if r.Dir != "" {
			fmt.Fprintf(w, "  in       %s\n", quote(r.Dir))
		}
	}
	_, err := fmt.Fprintln(w, "\nexecutor approvals --forget ID takes one back")
	return err
}
