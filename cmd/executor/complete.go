package main

import (
	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
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

// withDocs adds what tells of the other commands.
func withDocs(root *cobra.Command) *cobra.Command {
	root.AddCommand(completionCommand(), manCommand())
	config.Complete(root)
	return root
}
