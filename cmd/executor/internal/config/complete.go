package config

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/capabilities/git"
	"github.com/agent-executor/executor/capabilities/standard"
)

// Complete says for the settings among a command's flags, and those of its commands, what can be written.
func Complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		Complete(sub)
	}
	for _, t := range table {
		if c.Flags().Lookup(t.flag) == nil {
			continue
		}
		switch {
		case len(t.oneOf) > 0:
			_ = c.RegisterFlagCompletionFunc(t.flag, cobra.FixedCompletions(t.oneOf, cobra.ShellCompDirectiveNoFileComp))
		case t.flag == "capabilities":
			_ = c.RegisterFlagCompletionFunc(t.flag, completeList(func() []string {
				var list []string
				for _, c := range standard.All(standard.Config{}) {
					list = append(list, c.Name(), "-"+c.Name())
				}
				return list
			}))
		case t.flag == "git-subcommands":
			_ = c.RegisterFlagCompletionFunc(t.flag, completeList(git.Extra))
		case t.flag == "root" || t.flag == "state-dir":
			_ = c.MarkFlagDirname(t.flag)
		case t.flag == FileFlag:
			_ = c.MarkFlagFilename(t.flag, "yaml", "yml")
		case !t.path:
			_ = c.RegisterFlagCompletionFunc(t.flag, cobra.NoFileCompletions)
		}
	}
	if c.HasParent() {
		return
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// completeList completes the last element of a list with commas.
func completeList(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		before := text[:strings.LastIndexByte(text, ',')+1]
		var list []string
		for _, w := range words() {
			list = append(list, before+w)
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
