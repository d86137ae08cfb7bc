package agent

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// Agent is the executor of one brain: with capabilities, sessions, lease and state of
// its own.
type Agent struct {
	prepared
	Name     string // of the brain, for the log and for errors
	Log      *zap.Logger
	Executor *executor.Executor
}

// Plan prepares an agent for each brain. It changes nothing on disk.
func Plan(s *config.Settings, hide *cli.Redactor) (agents []*Agent, warnings []string, err error) {
	each, err := forEachBrain(s)
	if err != nil {
		return nil, nil, err
	}
	var secrets []string // no brain's commands are to see another's token either
	for i := range each {
		if _, first, _, err := tokenSource(&each[i], hide); err == nil && first != "" {
			secrets = append(secrets, first)
		}
	}
	seen := map[string]bool{}
	for i := range each {
		each[i].Secrets = secrets
		p, err := prepare(&each[i], hide)
		for _, w := range p.warnings {
			if !seen[w] {
				warnings = append(warnings, w)
			}
			seen[w] = true
		}
		if err != nil {
			return nil, warnings, err
		}
		u, _ := url.Parse(p.Options.URL) // it was made by prepare
		agents = append(agents, &Agent{prepared: p, Name: nameOf(u)})
	}
	return agents, warnings, nil
}

// Build makes the executors.
func Build(agents []*Agent, log *zap.Logger) error {
	for _, a := range agents {
		a.Log = log
		if len(agents) > 1 {
			a.Log = log.With(zap.String("brain", a.Name))
		}
		a.Options.Logger = a.Log
		a.tls.says(a.Log)
		ex, err := executor.New(a.Options)
		if err != nil {
			var file *fs.PathError
			var held *executor.HeldError
			if errors.As(err, &file) || errors.As(err, &held) {
				return err // a disk may come back, another process end
			}
			return cli.WithCode(cli.ExitUsage, err)
		}
		if err := ex.Register(slices.Concat(a.hidden, a.Capabilities)...); err != nil {
			return cli.WithCode(cli.ExitUsage, err)
		}
		a.Executor = ex
	}
	return nil
}

// RunAll runs all agents until the last has ended. One that its brain has refused for
// good does not end the others; the error, with its exit code, is that of the first.
func RunAll(ctx context.Context, agents []*Agent) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, a := range agents {
		all.Go(func() {
			err := a.Executor.Run(ctx)
			if err == nil {
				if len(agents) > 1 {
					a.Log.Info("executor ended")
				}
				return
			}
			code := exitCode(err)
			if len(agents) > 1 {
				a.Log.Error("this brain is given up, the others are served on", zap.Error(err), zap.Int("exit_code", code))
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = cli.WithCode(code, err)
			}
		})
	}
	all.Wait()
	return first
}

// exitCode is that of an error of Run.
func exitCode(err error) int {
	switch {
	case errors.Is(err, executor.ErrCredentialRejected):
		return cli.ExitCredential
	case errors.Is(err, executor.ErrRegistrationRefused), errors.Is(err, executor.ErrUnsupportedProtocol):
		return cli.ExitRefused
	case errors.Is(err, executor.ErrReplaced):
		return cli.ExitReplaced
	}
	return cli.ExitFailed
}

// OwnDirs are the directories below the state directory that the agents keep their
// state in, which have been made by now.
func OwnDirs(dir string, agents []*Agent) []string {
	list := []string{filepath.Join(dir, brainsDir)}
	for _, a := range agents {
		list = append(list, a.Options.StateDir)
	}
	return list
}
