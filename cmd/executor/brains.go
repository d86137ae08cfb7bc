package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// brainsDir is below the state directory. Each brain has a directory of its own in it,
// also when there is only one: so the first keeps its identity when a second is added.
const brainsDir = "brains"

// agent is the executor of one brain: with capabilities, sessions, lease and state of
// its own.
type agent struct {
	prepared
	name string // of the brain, for the log and for errors
	log  *zap.Logger
	ex   *executor.Executor
}

// forEachBrain splits settings that name several brains into those of one each.
func forEachBrain(s *config.Settings) ([]config.Settings, error) {
	brains := s.Brain
	switch {
	case len(brains) == 0 && s.BaseURL == "":
		_, err := brainOf(s)
		return nil, err
	case len(brains) == 0: // base_url says where
		brains = []string{""}
	case len(brains) > 1 && s.Exchanges():
		return nil, cli.Usagef("base_url gets tokens for one brain, and %d are given; run an executor for each, with its own --state-dir", len(brains))
	}
	if err := oneForEach("token_file", s.TokenFiles, s.Brain); err != nil {
		return nil, err
	}
	if err := oneForEach("token_command", s.TokenCommands, s.Brain); err != nil {
		return nil, err
	}
	var list []config.Settings
	taken := map[string]bool{}
	for i, raw := range brains {
		one := *s
		one.Brain = brains[i : i+1]
		if raw == "" {
			one.Brain = nil
		}
		one.TokenFile = pick(s.TokenFiles, i, s.TokenFile)
		one.TokenCommand = pick(s.TokenCommands, i, s.TokenCommand)
		u, err := brainOf(&one)
		if err != nil {
			return nil, err
		}
		if s.StateDir != "" {
			place := u
			if raw == "" {
				if place, err = url.Parse(s.BaseURL); err != nil {
					return nil, cli.Usagef("base_url: not a URL; want one like https://host")
				}
			}
			one.StateDir = stateDirOf(s.StateDir, place)
		}
		if taken[u.String()] {
			return nil, cli.Usagef("brain %s is given twice; leave one out", config.RedactURL(raw))
		}
		taken[u.String()] = true
		list = append(list, one)
	}
	return list, nil
}

// oneForEach checks a list that is one value for all brains, or one for each.
func oneForEach(key string, list, brains []string) error {
	if n := len(list); n > 1 && n != len(brains) {
		return cli.Usagef("%s: %d are given for %d brains; give one for all, or one for each in the same order", key, n, len(brains))
	}
	return nil
}

func pick(list []string, i int, otherwise string) string {
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	return list[i]
}

// stateDirOf is where the state for one brain is kept: readable, and another one for
// every URL.
func stateDirOf(dir string, brain *url.URL) string {
	sum := sha256.Sum256([]byte(brain.String()))
	return filepath.Join(dir, brainsDir, slug(brain)+"-"+hex.EncodeToString(sum[:4]))
}

// ownDirs are the directories below the state directory that the agents keep their
// state in, which have been made by now.
func ownDirs(dir string, agents []*agent) []string {
	list := []string{filepath.Join(dir, brainsDir)}
	for _, a := range agents {
		list = append(list, a.options.StateDir)
	}
	return list
}

// maxSlug keeps paths short.
const maxSlug = 40

// slug is a URL as a name of a file, without what could be secret in it.
func slug(u *url.URL) string {
	text := strings.ToLower(u.Host + u.Path)
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == '.' && b.Len() > 0:
			b.WriteRune(r)
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
	}
	name := b.String()
	return strings.Trim(name[:min(len(name), maxSlug)], "-.")
}

// nameOf is what a brain is called in the log.
func nameOf(u *url.URL) string {
	if u.Host != "" {
		return u.Host
	}
	return u.Path
}

// plan prepares an agent for each brain. It changes nothing on disk.
func plan(s *config.Settings, hide *cli.Redactor) (agents []*agent, warnings []string, err error) {
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
		u, _ := url.Parse(p.options.URL) // it was made by prepare
		agents = append(agents, &agent{prepared: p, name: nameOf(u)})
	}
	return agents, warnings, nil
}

// build makes the executors.
func build(agents []*agent, log *zap.Logger) error {
	for _, a := range agents {
		a.log = log
		if len(agents) > 1 {
			a.log = log.With(zap.String("brain", a.name))
		}
		a.options.Logger = a.log
		a.tls.says(a.log)
		ex, err := executor.New(a.options)
		if err != nil {
			var file *fs.PathError
			var held *executor.HeldError
			if errors.As(err, &file) || errors.As(err, &held) {
				return err // a disk may come back, another process end
			}
			return cli.WithCode(cli.ExitUsage, err)
		}
		if err := ex.Register(slices.Concat(a.hidden, a.capabilities)...); err != nil {
			return cli.WithCode(cli.ExitUsage, err)
		}
		a.ex = ex
	}
	return nil
}

// runAll runs all agents until the last has ended. One that its brain has refused for
// good does not end the others; the error, with its exit code, is that of the first.
func runAll(ctx context.Context, agents []*agent) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, a := range agents {
		all.Go(func() {
			err := a.ex.Run(ctx)
			if err == nil {
				if len(agents) > 1 {
					a.log.Info("executor ended")
				}
				return
			}
			code := exitCode(err)
			if len(agents) > 1 {
				a.log.Error("this brain is given up, the others are served on", zap.Error(err), zap.Int("exit_code", code))
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
