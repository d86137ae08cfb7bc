package main

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
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
		var a oversight.Approvals
		if err := client.Do(cmd.Context(), http.MethodGet, "/approvals", nil, &a); err != nil {
			return err
		}
		switch {
		case cli.JSON(cmd):
			return cli.WriteJSON(cmd.OutOrStdout(), a)
		case rules:
			return oversight.PrintRules(cmd.OutOrStdout(), a.Rules)
		}
		return oversight.PrintApprovals(cmd.OutOrStdout(), a.Approvals, time.Now())
	})
	c.Flags().BoolVar(&rules, "rules", false, "list what is allowed always")
	c.Flags().StringVar(&forget, "forget", "", "take back what is allowed always under this `ID`")
	return c
}

func approveCommand() *cobra.Command {
	var once, session, always bool
	given := new(config.Settings)
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
			d := oversight.Decision{Allow: true, Scope: approval.Once}
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
	given := new(config.Settings)
	c := &cobra.Command{
		Use:   "deny ID",
		Short: "Deny a call that waits for you",
		Long:  `Deny a call that waits for the local user: it is not run, and the model is told so.`,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return decide(cmd, given, args[0], oversight.Decision{})
		},
	}
	given = askFlags(c)
	return c
}

func decide(cmd *cobra.Command, given *config.Settings, id string, d oversight.Decision) error {
	client, err := clientOf(cmd, given)
	if err != nil {
		return err
	}
	return client.Do(cmd.Context(), http.MethodPost, "/approvals/"+url.PathEscape(id), d, nil)
}
