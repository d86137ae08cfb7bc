// Command executor is the hands of an AI agent on this machine: it connects to a
// brain, and runs the commands and changes the files the brain asks for.
//
//	executor demo
//	executor run --brain wss://brain.example/executor --token-file FILE --root DIR
//
// Its parts: settings.go is the table of all settings, config.go reads them from
// flags, variables and the file; credential.go and exchange.go are token and certificates; run.go
// makes an agent of it all; control.go is what a running agent answers to operate.go's
// status, drain and stop, which ask.go asks; demo.go shows the whole story in one process.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

func main() { os.Exit(cli.Main(context.Background(), newRoot())) }

func newRoot() *cobra.Command {
	root := cli.NewRoot("executor", "The hands of an AI agent on this machine")
	root.AddCommand(demoCommand(), runCommand(), configCommand(), doctorCommand(), serviceCommand(), versionCommand())
	root.AddCommand(statusCommand(), drainCommand(), stopCommand(), reloadCommand())
	root.AddCommand(approvalsCommand(), approveCommand(), denyCommand(), auditCommand())
	return withDocs(root)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Protocol string `json:"protocol"`
				Go       string `json:"go"`
				OS       string `json:"os"`
				Arch     string `json:"arch"`
			}{executor.Version(), protocol.Version1, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if cli.JSON(cmd) {
				return cli.WriteJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "executor %s (protocol %s, %s, %s/%s)\n", v.Version, v.Protocol, v.Go, v.OS, v.Arch)
			return err
		},
	}
}
