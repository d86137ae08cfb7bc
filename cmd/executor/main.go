// Command executor is the hands of an AI agent on this machine: it connects to a
// brain, and runs the commands and changes the files the brain asks for.
//
//	executor demo
//	executor run --brain wss://brain.example/executor --token-file FILE --root DIR
//
// Here are the commands and how they put the parts together. run.go is the life of a running executor: operate.go
// is what it answers, reload.go what changes while it runs, signals.go what ends it. ask.go, leave.go,
// approvals.go and auditlog.go ask it; configcommand.go and doctor.go look at settings; demo.go shows the whole
// story in one process. complete.go and manual.go tell of the others.
//
// The parts are packages below internal, each of which begins with what its files are for:
//
//	config     the settings: the table of all, where they are read from, what is wrong with them
//	agent      what settings mean: an executor for each brain, its credential and certificates; checks without a start
//	host       how commands are started on this machine, and what the executor holds of it
//	oversight  policy, approvals of the local user, audit log, redaction
//	control    the control socket, and the status that is said there
//	metrics    /metrics, /healthz and /readyz
//	service    systemd: units, executor service, and telling it how the executor does
//	doctor     the means of executor doctor
//
// agent, host, oversight and service use config; oversight, metrics and service use control; agent uses host and
// oversight; agent and service use doctor. config, control and doctor use none of the others.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/service"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

func main() { os.Exit(cli.Main(context.Background(), rootFor(os.Args[1:]))) }

// subcommand is one of the program's own.
type subcommand struct {
	name string
	make func() *cobra.Command
}

// commands are all, in the order of the help.
func commands() []subcommand {
	return []subcommand{
		{"demo", demoCommand}, {"run", runCommand}, {"config", configCommand}, {"doctor", doctorCommand}, {"service", service.Command}, {"version", versionCommand},
		{"status", statusCommand}, {"drain", drainCommand}, {"stop", stopCommand}, {"reload", reloadCommand},
		{"approvals", approvalsCommand}, {"approve", approveCommand}, {"deny", denyCommand}, {"audit", auditCommand},
	}
}

func newRoot() *cobra.Command {
	root := cli.NewRoot("executor", "The hands of an AI agent on this machine")
	for _, c := range commands() {
		root.AddCommand(c.make())
	}
	return withDocs(root)
}

// rootFor is newRoot for one command line. One that begins with the name of a command needs
// no other: their flags are a fifth of what a start would allocate.
func rootFor(args []string) *cobra.Command {
	for _, c := range commands() {
		if len(args) > 0 && args[0] == c.name {
			root := cli.NewRoot("executor", "The hands of an AI agent on this machine")
			root.AddCommand(c.make())
			return root
		}
	}
	return newRoot()
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
