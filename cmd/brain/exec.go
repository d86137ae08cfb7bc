package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

func execCommand() *cobra.Command {
	var q execRequest
	var wait time.Duration
	c := &cobra.Command{
		Use:   "exec [flags] -- ARGV...",
		Short: "Run a program on an executor, with its input, output and exit code",
		Long: `Run a program on an executor. Standard input, output and error are the program's, and
so is the exit code; 128 and the signal's number when a signal ended it. Ctrl-C interrupts the
program, the second one ends it, and it ends with this command.

With --pty the program has a terminal, and keys go to it as they are pressed. The end of the input is
passed on; the connection may be lost and come back meanwhile.`,
		Example: "  brain exec -- make test\n  brain exec --pty -- bash",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Argv, q.WaitMS = args, wait.Milliseconds()
			dir, err := stateDir(cmd)
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			defer signal.Stop(signals)
			x := execution{client: newClient(dir), stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), signals: signals}
			return x.run(cmd.Context(), q)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Executor, "executor", "", "`ID` or name of the executor (default: the one that is connected)")
	f.StringVar(&q.Session, "session", "", "`ID` of the session to run in (default: one for this program)")
	f.StringVar(&q.Cwd, "cwd", "", "`DIR` to run in; relative to the workspace, which is the default")
	f.StringToStringVar(&q.Env, "env", nil, "`NAME=VALUE` of the program's environment; may be repeated")
	f.BoolVar(&q.PTY, "pty", false, "give the program a terminal")
	f.DurationVar(&wait, "wait", 10*time.Second, "`TIME` to wait for the executor to be connected")
	f.SetInterspersed(false)
	return c
}

// execution is one brain exec.
type execution struct {
	client         *cli.Client
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        <-chan os.Signal

	taken chan struct{} // the last piece of input is

	mu sync.Mutex // over to
	to *json.Encoder
}

// sizeEvery is how often it is looked whether the terminal here has another size.
const sizeEvery = 500 * time.Millisecond

// run runs the program; the error has its exit code.
func (x *execution) run(ctx context.Context, q execRequest) error {
	file, onTerminal := x.stdin.(*os.File)
	onTerminal = onTerminal && term.IsTerminal(int(file.Fd()))
	if q.PTY && onTerminal {
		fd := int(file.Fd())
		if cols, rows, err := term.GetSize(fd); err == nil {
			q.Cols, q.Rows = cols, rows
		}
		before, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("prepare this terminal: %w", err)
		}
		defer func() { _ = term.Restore(fd, before) }()
	}
	first, err := json.Marshal(q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	body, lines := io.Pipe()
	x.to, x.taken = json.NewEncoder(lines), make(chan struct{}, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer lines.Close()
	defer cancel()
	work.Go(func() { x.carry(ctx, q, file, onTerminal) })
	go x.carryInput(ctx) // may wait for a key for ever; it ends with this process

	resp, err := x.client.Stream(ctx, http.MethodPost, "/v1/exec", io.MultiReader(bytes.NewReader(first), body))
	if err != nil {
		return err
	}
	defer resp.Close()
	for in := json.NewDecoder(resp); ; {
		var line execOutput
		if err := in.Decode(&line); err != nil {
			return fmt.Errorf("the brain is gone, and the end of the program is not known: %w", err)
		}
		switch {
		case line.Taken:
			x.taken <- struct{}{}
			continue
		case line.State != nil:
			return exitOf(*line.State)
		case line.Error != "":
			return errors.New(line.Error)
		}
		to := x.stdout
		if line.Stream == protocol.StreamStderr {
			to = x.stderr
		}
		if _, err := to.Write(line.Data); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
	}
}

func (x *execution) send(line execInput) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.to.Encode(line)
}

// carryInput passes the standard input on, to its end.
func (x *execution) carryInput(ctx context.Context) {
	buf := make([]byte, 32<<10)
	for {
		n, err := x.stdin.Read(buf)
		if n > 0 {
			if x.send(execInput{Data: buf[:n]}) != nil {
				return
			}
			select {
			case <-x.taken:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			_ = x.send(execInput{Close: true})
			return
		}
	}
}

// carry passes signals and new sizes on.
func (x *execution) carry(ctx context.Context, q execRequest, file *os.File, onTerminal bool) {
	ticker := time.NewTicker(sizeEvery)
	defer ticker.Stop()
	for n := 0; ; {
		var line execInput
		select {
		case <-ctx.Done():
			return
		case s := <-x.signals:
			n++
			line.Interrupt = n == 1 && s == os.Interrupt
			line.Terminate = !line.Interrupt
		case <-ticker.C:
			if !q.PTY || !onTerminal {
				continue
			}
			cols, rows, err := term.GetSize(int(file.Fd()))
			if err != nil || cols == q.Cols && rows == q.Rows {
				continue
			}
			q.Cols, q.Rows = cols, rows
			line.Cols, line.Rows = cols, rows
		}
		if x.send(line) != nil {
			return
		}
	}
}

// signalNumbers are those that end programs, for the exit code of a shell.
var signalNumbers = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6,
	"SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15}

// exitOf is nil after an exit with 0; else the error has the exit code.
func exitOf(s protocol.ProcessState) error {
	switch {
	case s.ExitSignal != "":
		code := cli.ExitFailed
		if n := signalNumbers[s.ExitSignal]; n > 0 {
			code = 128 + n
		}
		return &cli.Exit{Code: code, Err: fmt.Errorf("the program was ended by %s", s.ExitSignal)}
	case s.ExitCode == nil:
		return fmt.Errorf("the program has %s: %s", s.State, s.Reason)
	case *s.ExitCode != 0:
		return &cli.Exit{Code: *s.ExitCode, Err: fmt.Errorf("the program ended with exit code %d", *s.ExitCode), Quiet: true}
	}
	return nil
}
