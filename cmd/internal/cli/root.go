package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/capabilities"
)

// NewRoot makes the command that the others are added to. Its own errors name the
// nearest command or flag.
func NewRoot(name, short string) *cobra.Command {
	root := &cobra.Command{
		Use:               name,
		Short:             short,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.PersistentFlags().String("output", "text", "`FORMAT` of what is printed: text or json")
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if o, _ := cmd.Flags().GetString("output"); o != "text" && o != "json" {
			return Usagef("--output %q: want text or json", o)
		}
		return nil
	}
	return root
}

// JSON reports whether a command was asked for objects instead of text.
func JSON(cmd *cobra.Command) bool {
	o, _ := cmd.Flags().GetString("output")
	return o == "json"
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, root *cobra.Command) int {
	for _, c := range root.Commands() {
		checkArgs(c)
	}
	err := root.ExecuteContext(ctx)
	return Report(root.ErrOrStderr(), root.Name(), err, wantsJSON(os.Args[1:]))
}

// checkArgs makes errors about arguments ones of usage.
func checkArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usagef("%s: %w; see %s --help", cmd.Name(), err, cmd.CommandPath())
		}
		return nil
	}
}

// wantsJSON looks for --output json itself, since the command line it is in may be
// the very thing that is wrong.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "--output=json", a == "--output" && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

// Group makes a command that only has others below it.
func Group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	group.AddCommand(commands...)
	return group
}

func unknownCommand(root *cobra.Command, name string) error {
	var known []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := capabilities.Nearest(name, known); near != "" {
		return Usagef("there is no command %q; did you mean %q?", name, near)
	}
	return Usagef("there is no command %q; there are %s", name, strings.Join(known, ", "))
}

func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := capabilities.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return Usagef("%w; did you mean --%s?", err, near)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		var number *strconv.NumError
		if invalid.GetFlag().Value.Type() == "int" && !errors.As(invalid.Unwrap(), &number) { // it says itself what is wrong
			return Usagef("--%s: %w; see %s --help", invalid.GetFlag().Name, invalid.Unwrap(), cmd.CommandPath())
		}
		if want := wanted(invalid.GetFlag().Value.Type()); want != "" {
			return Usagef("--%s: %q: %s; see %s --help", invalid.GetFlag().Name, invalid.GetValue(), want, cmd.CommandPath())
		}
	}
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// What is wanted where a text is something else, wherever it came from.
const (
	WantNumber = "want a whole number"
	WantBool   = "want true or false"
	WantTime   = "want a time like 500ms, 30s or 2m"
)

// wanted is what is said of a flag of that type; "" for one that says it itself.
func wanted(kind string) string {
	switch kind {
	case "int":
		return WantNumber
	case "bool":
		return WantBool
	case "duration":
		return WantTime
	}
	return ""
}
