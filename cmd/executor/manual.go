package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual; it is for those who make packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			statelessDefaults(cmd.Root())
			date, err := manualDate()
			if err != nil {
				return err
			}
			return writeManual(cmd.Root(), args[0], date)
		},
	}
}

// manualDate is SOURCE_DATE_EPOCH's, else today's.
func manualDate() (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return time.Now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want a number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// statelessDefaults takes out of the flags what is only so for who writes the manual.
func statelessDefaults(c *cobra.Command) {
	for _, sub := range c.Commands() {
		statelessDefaults(sub)
	}
	if f := c.Flags().Lookup("state-dir"); f != nil {
		f.DefValue = "~/.local/state/executor"
	}
}

// writeManual writes a page for a command and one for each of those below it.
func writeManual(c *cobra.Command, dir string, date time.Time) error {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeManual(sub, dir, date); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(manualPage(c, date)), 0o644)
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage is the page of one command, for man. It is written here, since the package of
// cobra's that does it reads Markdown, with tables that every start of the program would fill.
func manualPage(c *cobra.Command, date time.Time) string {
	c.InitDefaultHelpCmd()
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".nh\n.TH \"EXECUTOR\" \"1\" \"%s\" \"executor\" \"User commands\"\n", date.Format("Jan 2006"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", pageName(c), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fP\n", roff(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(long), "\n\n", "\n.PP\n"))
	flagSection(&b, "OPTIONS", c.NonInheritedFlags())
	flagSection(&b, "OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLE\n.EX\n%s\n.EE\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, "\\fB"+pageName(c.Parent())+"(1)\\fP")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			also = append(also, "\\fB"+pageName(sub)+"(1)\\fP")
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

func flagSection(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	marked := regexp.MustCompile("`([^`]*)`")
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name := "\\fB--" + f.Name + "\\fP"
		if f.Shorthand != "" {
			name = "\\fB-" + f.Shorthand + "\\fP, " + name
		}
		value := f.DefValue
		if f.Value.Type() == "string" {
			value = strconv.Quote(value)
		}
		value = "=" + roff(value)
		if f.NoOptDefVal != "" {
			value = "[" + value + "]"
		}
		fmt.Fprintf(b, ".TP\n%s%s\n%s\n", name, value, marked.ReplaceAllString(roff(f.Usage), `\fB$1\fP`))
	})
}

// roff is a text in which nothing is a command of man's.
func roff(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, `\`, `\e`), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
