package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/capabilities/git"
	"github.com/agent-executor/executor/capabilities/standard"
)

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion of commands for a shell",
		Long:      "Print the completion of commands and flags for a shell: bash, zsh, fish or powershell.",
		Example:   "  executor completion bash > ~/.local/share/bash-completion/completions/executor\n  executor completion zsh > ~/.zfunc/_executor\n  executor completion fish > ~/.config/fish/completions/executor.fish",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			default:
				return root.GenPowerShellCompletionWithDesc(w)
			}
		},
	}
}

// completeFlags says for the settings among a command's flags, and those of its commands, what can be written.
func completeFlags(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeFlags(sub)
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
		case t.flag == configFlag:
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

// withDocs adds what tells of the other commands.
func withDocs(root *cobra.Command) *cobra.Command {
	root.AddCommand(completionCommand(), manCommand())
	completeFlags(root)
	return root
}
