// Command brain is the other end for development, tests and small set-ups: it
// accepts executors and calls their tools from the command line.
//
//	brain serve
//	brain executors
//	brain call bash '{"command":"uname -a"}'
//	brain mcp
//
// Its parts: serve.go is the server, control.go what it answers on its control
// socket, execserve.go and mcpserve.go the parts of that for brain exec and brain mcp, page.go its status page; client.go,
// executors.go, sessions.go, call.go, exec.go and mcp.go are the commands that ask it; pipewatch.go
// is the standard output of the last.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(context.Background(), newRoot())) }

func newRoot() *cobra.Command {
	root := cli.NewRoot("brain", "Drive executors from the command line")
	root.PersistentFlags().String("state-dir", cli.DefaultStateDir("brain"), "`DIR` of the token and the control socket")
	root.AddCommand(serveCommand(), executorsCommand(), sessionsCommand(), callCommand(), execCommand(), mcpCommand())
	return root
}

// stateDir is the directory of --state-dir, absolute.
func stateDir(cmd *cobra.Command) (string, error) {
	dir, _ := cmd.Flags().GetString("state-dir")
	if dir == "" {
		return "", cli.NoStateDir("brain")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", cli.Usagef("state directory: %w", err)
	}
	return abs, nil
}
