package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

const (
	demoLimit   = 60 * time.Second // for everything
	demoCleanup = 10 * time.Second // for the end, when a step has failed
)

func demoCommand() *cobra.Command {
	var mcp bool
	var roots []string
	level := "warn"
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole story in one process, with no setting",
		Long: `Show the whole story in one process, with no setting: a brain and an executor on
loopback, a session in a temporary directory, a command, files, live output, a
connection that is cut while a call runs, and a clean end. The exit code is 0 only
if every step held.

With --mcp it is something else: an MCP server on standard input and output, with all the
tools of an executor in the current directory, until the input ends. Its commands may do
what the user may. The log goes to standard error.`,
		Example: "  executor demo\n  executor demo --mcp --root ~/project",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mcp {
				ctx, stop := cli.UntilSignal(cmd.Context())
				defer stop()
				return runDemoMCP(ctx, roots, level, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if len(roots) > 0 || cmd.Flags().Changed("log-level") {
				return cli.Usagef("--root and --log-level are for demo --mcp; the demo itself works in a temporary directory")
			}
			out := cmd.OutOrStdout()
			if cli.JSON(cmd) {
				out = io.Discard
			}
			report := runDemo(ctx, out)
			if cli.JSON(cmd) {
				if err := cli.WriteJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			}
			return report.err(cli.JSON(cmd))
		},
	}
	f := c.Flags()
	f.BoolVar(&mcp, "mcp", false, "be an MCP server on standard input and output")
	f.StringArrayVar(&roots, "root", nil, "`DIR` to work in with --mcp, DIR:ro for one only to be read; may be repeated (default: the current directory)")
	f.StringVar(&level, "log-level", level, "`LEVEL` of the log with --mcp: debug, info, warn or error")
	return c
}

// demoReport is what came of the demo.
type demoReport struct {
	OK    bool       `json:"ok"`
	Steps []demoStep `json:"steps"`
}

type demoStep struct {
	Step       string `json:"step"`
	OK         bool   `json:"ok"`
	Shown      string `json:"shown,omitempty"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

func (r demoReport) err(said bool) error {
	if r.OK {
		return nil
	}
	last := r.Steps[len(r.Steps)-1]
	return &cli.Exit{Code: cli.ExitFailed, Err: fmt.Errorf("demo: step %d (%s) failed: %s", len(r.Steps), last.Step, last.Error), Quiet: said}
}

// runDemo runs the steps until one fails and cleans up in any case.
func runDemo(ctx context.Context, out io.Writer) demoReport {
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo did not end within %v", demoLimit))
	defer cancel()
	d := &demo{out: out, progress: make(chan protocol.ToolProgressParams, 256), connected: make(chan struct{}, 16)}
	steps := []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"an executor connects and registers", d.register},
		{"a session begins and a command runs", d.command},
		{"a file is written and read back", d.file},
		{"a longer command is seen while it runs", d.stream},
		{"the connection is cut while a call runs", d.cut},
		{"the executor finishes and leaves", d.drain},
	}
	fmt.Fprintln(out, "A brain and an executor in one process, on loopback.")
	report := demoReport{OK: true}
	for i, s := range steps {
		fmt.Fprintf(out, "\n%d. %s\n", i+1, s.name)
		began := time.Now()
		shown, err := s.run(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		step := demoStep{Step: s.name, OK: err == nil, Shown: shown, DurationMS: time.Since(began).Milliseconds()}
		if err != nil {
			step.Error = err.Error()
		}
		report.Steps = append(report.Steps, step)
		if err != nil {
			report.OK = false
			fmt.Fprintf(out, "   FAILED  %s\n", cli.Line(step.Error))
			break
		}
		fmt.Fprintf(out, "   ok      %s (%d ms)\n", cli.Line(shown), step.DurationMS)
	}
	if err := d.cleanup(); err != nil && report.OK {
		report.OK = false
		report.Steps = append(report.Steps, demoStep{Step: "cleaning up", Error: err.Error()})
	}
	if report.OK {
		fmt.Fprintf(out, "\nAll %d steps held.\n", len(steps))
	} else if log := d.log.String(); log != "" {
		fmt.Fprintf(out, "\nThe log:\n%s", cli.Text(log))
	}
	return report
}

// demo is what the steps share.
type demo struct {
	out       io.Writer
	log       lockedBuffer
	dir       string // temporary; holds all there is on disk
	workspace string

	listener  *cutter
	brain     *brain.Brain
	http      *http.Server
	served    chan error
	results   countedResults
	progress  chan protocol.ToolProgressParams
	connected chan struct{} // one for each time the executor is there

	ex      *executor.Executor
	stop    context.CancelFunc // of Run
	ran     chan error
	session *brain.Session
	left    int // pid of a process that was left running
}

// say prints one line of what happens in a step.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "   %s\n", cli.Line(fmt.Sprintf(format, args...)))
}

// cleanup ends everything that was started and removes what is on disk.
func (d *demo) cleanup() error {
	ctx, cancel := context.WithTimeout(context.Background(), demoCleanup)
	defer cancel()
	var err error
	if d.stop != nil {
		d.stop()
		if d.ran != nil {
			select {
			case <-d.ran:
			case <-ctx.Done():
				err = errors.New("the executor did not end")
			}
		}
	}
	if d.brain != nil {
		err = errors.Join(err, d.brain.Shutdown(ctx))
		_ = d.http.Close()
		<-d.served
	}
	if d.dir != "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}
