package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/host"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// Check adds what only a start would find: what the settings name is looked at.
// It changes nothing and connects nowhere, and runs no program of the user's.
func Check(r *config.Resolved) {
	s := &r.Settings
	hide := cli.NewRedactor(io.Discard)
	before := len(r.Problems)
	checkBrains(r, hide)
	checkCredentials(r, hide)
	checkPlaces(r)
	for _, text := range config.PolicyWarnings(s) {
		r.Warn(text)
	}
	if s.MaxBackoff < s.MinBackoff {
		r.Add(r.At("max-backoff", "max_backoff %v is less than min_backoff %v; raise it, or lower the other", s.MaxBackoff, s.MinBackoff))
	}
	checkTools(r)
	s.Children = standard.NewChildren()
	if err := host.ConfigureChildren(s.Children, s, oversight.Masker(s, hide)); err != nil {
		flag := "run-as"
		switch {
		case s.Sandbox != standard.SandboxOff || s.SandboxNetwork != standard.NetworkOpen || len(s.SandboxRead) > 0:
			flag = "sandbox"
		case s.RunAs == "":
			flag = "rlimit"
		}
		r.Add(r.At(flag, "%w", err))
	}
	if len(r.Problems) > before {
		return
	}
	// Whatever else a start refuses.
	agents, _, err := Plan(s, hide)
	if err != nil {
		r.Add(config.Problemf("", "", "%s", hide.Redact(err.Error())))
	}
	for _, a := range agents {
		if err := a.Options.Check(); err != nil {
			r.Add(config.Problemf("", "", "%s", hide.Redact(err.Error())))
		}
	}
}

// checkTools looks whether what is served goes together.
func checkTools(r *config.Resolved) {
	tools, err := config.ExecTools(r.Settings.ExecTools)
	if err != nil {
		return // has been said
	}
	for _, t := range tools {
		// A name is looked for in the PATH of the session's user when it is called.
		if program := t.Command[0]; filepath.IsAbs(program) {
			if _, err := exec.LookPath(program); err != nil {
				r.Warn(fmt.Sprintf("exec_tools: %s: %s is no program that can be run: %v", t.Name, capabilities.QuoteName(program), errors.Unwrap(err)))
			}
		}
	}
	all, err := standard.Select(standard.All(standard.Config{ExecTools: tools}), r.Settings.Capabilities)
	if err != nil {
		r.Add(r.At("capabilities", "%w", err))
		return
	}
	registry := capabilities.NewRegistry(nil)
	defer registry.Close()
	for _, c := range all {
		if err := registry.Install(c); err != nil {
			r.Add(r.At("exec-tools", "%w; give yours another name, or leave that capability out", err))
		}
	}
}

// checkBrains judges the URLs, and the proxy to each.
func checkBrains(r *config.Resolved, hide *cli.Redactor) {
	s := r.Settings
	if len(s.Brain) == 0 && s.BaseURL == "" {
		_, err := brainOf(&s)
		r.Add(r.At("brain", "%w", err))
	}
	for i := range s.Brain {
		one := s
		one.Brain = s.Brain[i : i+1]
		u, err := brainOf(&one)
		if err != nil {
			r.Add(r.At("brain", "%w", err))
			continue
		}
		// Whether there is a token is looked at elsewhere.
		if err := (executor.Options{URL: u.String(), Insecure: s.Insecure, Token: noToken}).Check(); err != nil {
			r.Add(r.At("brain", "%w", err))
		}
		if _, err := proxyOf(u, hide); err != nil {
			r.Add(config.Problemf("", "", "%w", err))
		}
	}
	for _, e := range []struct {
		flag string
		list []string
	}{{"token-file", s.TokenFiles}, {"token-command", s.TokenCommands}} {
		if len(s.Brain) == 0 {
			continue
		}
		if err := oneForEach(e.flag, e.list, s.Brain); err != nil {
			r.Add(r.At(e.flag, "%w", err))
		}
	}
}

// checkCredentials looks at the files with secrets, and never says what is in them.
func checkCredentials(r *config.Resolved, hide *cli.Redactor) {
	s := r.Settings
	if _, err := tlsConfig(s.CAFile); err != nil {
		r.Add(r.At("ca-file", "%w", err))
	} else if _, warning, err := newTLSFiles(&s); err != nil {
		flag := "client-cert"
		if s.ClientCert == "" {
			flag = "client-key"
		}
		r.Add(r.At(flag, "%w", err))
	} else if warning != "" {
		r.Warn(warning)
	}
	for _, path := range s.TokenFiles {
		if _, err := cli.ReadToken(path); err != nil {
			r.Add(r.At("token-file", "%w", err))
		} else if w := cli.TokenFileWarning(path); w != "" {
			r.Warn(w)
		}
	}
	if s.Exchanges() {
		s.TokenFile, s.TokenCommand = pick(s.TokenFiles, 0, ""), pick(s.TokenCommands, 0, "")
		_, _, warning, err := exchangeSource(&s, nil, hide)
		if err != nil {
			flag := "base-url"
			if s.BaseURL == "" || s.TokenFile == "" && s.TokenCommand == "" && s.Environment != "" && s.EnvironmentKeyFile != "" {
				flag = "environment-key-file"
			}
			r.Add(r.At(flag, "%w", err))
		}
		if warning != "" {
			r.Warn(warning)
		}
	} else if len(s.TokenFiles) > 0 && len(s.TokenCommands) > 0 {
		r.Add(r.At("token-command", "token_file and token_command are both given; leave one out"))
	} else if len(s.TokenFiles) == 0 && len(s.TokenCommands) == 0 {
		if _, _, warning, err := tokenSource(&s, hide); err != nil {
			r.Add(r.At("token-file", "%w", err))
		} else if warning != "" {
			r.Warn(warning)
		}
	}
}

// checkPlaces looks at the roots and the state directory.
func checkPlaces(r *config.Resolved) {
	s := r.Settings
	for i := range s.Root {
		if _, err := config.Roots(s.Root[i : i+1]); err != nil {
			r.Add(r.At("root", "%w", err))
		}
	}
	if roots, err := config.Roots(s.Root); err == nil && s.Workspace == "session" && roots[0].ReadOnly {
		r.Add(r.At("workspace", "the first root is read-only, so that sessions cannot have directories of their own in it; name another first"))
	}
	if err := cli.CheckStateDir(s.StateDir, "executor"); err != nil {
		r.Add(r.At("state-dir", "%w", err))
	} else if w := cli.StateDirWarning(s.StateDir); w != "" {
		r.Warn(w)
	}
	for _, root := range s.Root {
		if inside(s.StateDir, root) {
			r.Warn(fmt.Sprintf("the state directory %s is inside the root %s, where sessions can read and change it; name another with --state-dir", s.StateDir, root))
		}
	}
}

// inside reports whether a directory is a root, as it is written in the settings, or
// below it.
func inside(dir, root string) bool {
	list, err := config.Roots([]string{root})
	if err != nil || dir == "" {
		return false
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(list[0].Path, abs)
	return err == nil && rel != ".." && !startsUp(rel)
}

func startsUp(rel string) bool {
	up := ".." + string(os.PathSeparator)
	return len(rel) >= len(up) && rel[:len(up)] == up
}

func noToken(context.Context) (string, error) { return "", nil }
