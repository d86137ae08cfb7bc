package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/host"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/brain/gateway"
	"github.com/agent-executor/executor/protocol/rpc"
)

// demo --mcp is a brain, an executor and the gateway in one process: one line in the
// configuration of an MCP client gives it hands. Nothing listens anywhere; brain and
// executor are connected in memory.

// mcpReady is how long the first answer waits for the executor, so that it says where it is.
const mcpReady = 2 * time.Second

// mcpDirs begins the names of the directories, with the process id behind it.
const mcpDirs = "executor-mcp-"

// sweepMCPDirs removes what processes have left behind that were killed.
func sweepMCPDirs(temp string) {
	entries, _ := os.ReadDir(temp)
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), mcpDirs)
		before, _, found := strings.Cut(name, "-")
		pid, err := strconv.Atoi(before)
		if !ok || !found || err != nil || pid <= 0 || !entry.IsDir() {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			_ = os.RemoveAll(filepath.Join(temp, entry.Name())) // another user's stays
		}
	}
}

// runDemoMCP serves the MCP client at in and out until the input ends or ctx is done. The
// log goes to w.
func runDemoMCP(ctx context.Context, roots []string, level string, in io.Reader, out, w io.Writer) (err error) {
	places, err := config.Roots(roots)
	if err != nil {
		return err
	}
	log, err := cli.Logger(w, level, "console")
	if err != nil {
		return err
	}
	defer func() { _ = cli.SyncLogger(log) }()
	if err := cli.KeepPrivate(); err != nil {
		log.Warn("commands of the same user can read this process's environment and memory", zap.Error(err))
	}
	sweepMCPDirs(os.TempDir())
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", mcpDirs, os.Getpid()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := config.Default()
	s.Children = standard.NewChildren()
	if err := host.ConfigureChildren(s.Children, &s, oversight.Masker(&s, cli.NewRedactor(w))); err != nil {
		return err
	}
	defer host.CloseChildren(s.Children, log)
	if err := host.OpenChildren(s.Children, dir, log); err != nil {
		return err
	}

	b := brain.New(brain.Options{Logger: log.Named("brain")})
	var work sync.WaitGroup
	defer work.Wait()
	defer b.Close("going away")
	name, err := os.Hostname()
	if err != nil {
		name = "this machine"
	}
	ex, err := executor.New(executor.Options{
		Name:         name,
		Workspace:    executor.Workspace{Roots: places},
		DrainTimeout: time.Second,
		Dial: func(context.Context, string) (rpc.Frames, error) {
			here, there := rpc.Pipe()
			work.Go(func() { _ = b.ServeFrames(there, brain.Principal{Name: "demo"}) })
			return here, nil
		},
		Logger: log.Named("executor"),
	})
	if err != nil {
		return err
	}
	caps := standard.All(standard.Config{Roots: places, InlineResultBytes: s.InlineResultBytes, Children: s.Children})
	if err := ex.Register(caps...); err != nil {
		return err
	}
	life, leave := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ex.Run(life) }()
	work.Go(func() { standard.ReapOrphans(life) })
	defer func() {
		leave()
		if e := <-ended; e != nil {
			err = errors.Join(err, fmt.Errorf("executor: %w", e))
		}
	}()
	ready, cancel := context.WithTimeout(ctx, mcpReady)
	_, err = b.WaitExecutor(ready)
	cancel()
	if err != nil && ctx.Err() == nil {
		log.Warn("the executor is slow to start", zap.Error(err))
	}
	g := gateway.New(b, gateway.Options{Eager: true, NoServers: true, Version: executor.Version(), Logger: log.Named("gateway")})
	defer g.Close()
	return g.Serve(ctx, gateway.Lines(in, pipeEnd{out}))
}

// pipeEnd is the standard output.
type pipeEnd struct{ io.Writer }

// Gone says whether the client is.
func (p pipeEnd) Gone() bool { return cli.ReaderGone(p.Writer) }

// Close ends the writes that can be ended; those to a pipe that is not read are not.
func (p pipeEnd) Close() error {
	if c, ok := p.Writer.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
