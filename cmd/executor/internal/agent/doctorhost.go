package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/executor/internal/host"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

// hostChecks are those of this machine.
func hostChecks(s *config.Settings) []doctor.Check {
	return []doctor.Check{
		{Name: "state directory", Run: func(ctx context.Context) doctor.Result { return checkState(ctx, s.StateDir) }},
		{Name: "roots", Run: func(ctx context.Context) doctor.Result { return checkRoots(ctx, s.Root, s.StateDir) }},
		{Name: "shell", Run: doctor.Shell(os.Getenv("SHELL"))},
		{Name: "git", Run: doctor.Program([]string{"git"}, []string{"--version"},
			doctor.Missing(doctor.Warn, "install git, or leave the tool out with --capabilities=-git", "there is none, so the tool git is left out"))},
		{Name: "ripgrep", Run: doctor.Program([]string{"rg"}, []string{"--version"},
			doctor.Missing(doctor.Warn, "install ripgrep, if commands are to have it; the tools grep and glob need nothing", "there is none"))},
		{Name: "python", Run: doctor.Program([]string{"python3", "python"}, []string{"--version"},
			doctor.Missing(doctor.Warn, "install python3, if commands are to have it; the executor needs nothing of it", "there is none"))},
		{Name: "PTY", Run: doctor.PTY},
		// A program that a profile leaves running is not to be taken for a command's.
		{Name: "child processes", After: []string{"shell", doctor.Token}, Run: checkChildren},
		{Name: "sandbox", Run: func(context.Context) doctor.Result { return checkSandbox(s) }},
		{Name: "MCP servers", Run: func(context.Context) doctor.Result { return checkMCPServers(s) }},
		{Name: "file limits", Run: doctor.Limits},
	}
}

// Room for state: results are kept until they are delivered.
const (
	littleState = 1 << 30
	noState     = 64 << 10 // there is nothing to begin with
)

// checkState looks whether the state can be kept, and whether an executor keeps it there.
func checkState(ctx context.Context, dir string) doctor.Result {
	if err := cli.CheckStateDir(dir, "executor"); err != nil {
		return inTwo(doctor.Fail, err.Error())
	}
	there := dir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		there += ", which will be made"
	}
	results := []doctor.Result{doctor.Of(doctor.OK, "", "%s", there)}
	if text := cli.StateDirWarning(dir); text != "" {
		text, remedy, _ := strings.Cut(text, "; run: ")
		results = append(results, doctor.Of(doctor.Warn, remedy, "%s", text))
	}
	switch pid, held, err := executor.DirHolder(dir); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		results = append(results, doctor.Of(doctor.Warn, "run the doctor as the user that the executor runs as", "whether one runs is not known: %v", err))
	case held && pid > 0:
		results = append(results, doctor.Of(doctor.OK, "", "an executor runs, pid %d", pid))
	case held:
		results = append(results, doctor.Of(doctor.OK, "", "an executor runs"))
	default:
		results = append(results, doctor.Of(doctor.OK, "", "no executor runs"))
	}
	return doctor.Join(append(results, doctor.Space(ctx, dir, "--state-dir",
		"when it is full, results are kept in memory until they are delivered, 8 MiB of them, and calls beyond that are refused", littleState, noState))...)
}

// checkRoots looks whether sessions could work in the roots.
func checkRoots(ctx context.Context, list []string, stateDir string) doctor.Result {
	if len(list) == 0 {
		list = []string{"."}
	}
	home, _ := os.UserHomeDir()
	var results []doctor.Result
	for i := range list {
		roots, err := config.Roots(list[i : i+1])
		if err != nil {
			results = append(results, inTwo(doctor.Fail, err.Error()))
			continue
		}
		path := roots[0].Path
		switch err := cli.MayChange(path); {
		case !roots[0].ReadOnly && err != nil:
			results = append(results, doctor.Of(doctor.Fail, fmt.Sprintf("chown -R %d %s, or write %s:ro", os.Geteuid(), path, path), "this user cannot write in the root %s", path))
			continue
		case path == home || path == string(filepath.Separator):
			results = append(results, doctor.Of(doctor.Warn, "name the directory of the project with --root", "the root %s has much more in it than work: keys, settings, other projects", path))
		case inside(stateDir, list[i]):
			results = append(results, doctor.Of(doctor.Warn, "name another directory with --state-dir", "the state directory %s is inside the root %s, where sessions can change it", stateDir, path))
		default:
			results = append(results, doctor.Of(doctor.OK, "", "%s", config.RootNames(roots)[0]))
		}
		if space := doctor.Space(ctx, path, "--root", "when it is full, tools fail that write", littleState, 0); space.Status == doctor.Warn {
			results = append(results, space)
		}
	}
	return doctor.Join(results...)
}

// checkChildren takes hold of children as a start does, without any, and gives them up.
func checkChildren(context.Context) doctor.Result {
	children := standard.NewChildren()
	children.Open("") // of no state directory: nobody else's are looked for
	means := children.Means()
	children.Close()
	return judgeChildren(means)
}

func judgeChildren(means standard.Means) doctor.Result {
	words := means.Words()
	result := doctor.Of(doctor.OK, "", "commands are in a control group, which nothing gets away from")
	if means.Cgroup == "" {
		result = doctor.Of(doctor.Warn, "run it as a service with Delegate=yes: executor service install", "there is no control group for commands here: %s", means.NoCgroup)
		if means.Labels && means.Adoption {
			result = doctor.Of(doctor.OK, "", "no control group here (a service with Delegate=yes has one); commands are found by labels and adoption")
		}
	}
	for _, text := range words {
		if !strings.HasPrefix(text, "commands are in a control group") && !strings.HasPrefix(text, "there is no control group") {
			result.Details = append(result.Details, text)
		}
	}
	return result
}

// checkSandbox says what keeps commands from what they have no business with.
func checkSandbox(s *config.Settings) doctor.Result {
	policy, err := host.Sandbox(s)
	if err == nil && policy != nil {
		var words []string
		if words, err = standard.DescribeSandbox(*policy); err == nil {
			result := doctor.Of(doctor.OK, "", "%s is enforced", s.Sandbox)
			result.Details = words
			return result
		}
	}
	if err != nil {
		text, remedy, found := strings.Cut(err.Error(), "; ")
		if !found {
			remedy = "supply what is missing, or turn the sandbox off with --sandbox off"
		}
		return doctor.Of(doctor.Fail, remedy, "%s", text)
	}
	if len(s.LaunchPrefix) == 0 {
		return doctor.Of(doctor.OK, "", "none is configured: commands may do what the user they run as may")
	}
	path, err := exec.LookPath(s.LaunchPrefix[0])
	if err != nil {
		return doctor.Of(doctor.Fail, "install it, or correct launch_prefix", "commands are started through %s, which is not there", s.LaunchPrefix[0])
	}
	return doctor.Of(doctor.OK, "", "commands are started through %s; what it enforces is its own matter", path)
}

// checkMCPServers looks whether the programs of the user's own servers are there.
func checkMCPServers(s *config.Settings) doctor.Result {
	list, err := config.MCPServers(s.MCPServers)
	if err != nil || len(list) == 0 {
		return doctor.Of(doctor.Skip, "", "there is none in the settings")
	}
	var results []doctor.Result
	for _, m := range list {
		t := m.Transport
		if t.Type == protocol.TransportHTTP {
			results = append(results, doctor.Of(doctor.OK, "", "%s: %s, which is not asked", m.ServerKey, config.RedactURL(t.URL)))
			continue
		}
		path, err := programPath(t.Command, t.Env["PATH"])
		if err != nil {
			results = append(results, doctor.Of(doctor.Fail, "install it, or name it by its path in mcp_servers", "%s: %s is not there, or cannot be run", m.ServerKey, t.Command))
			continue
		}
		results = append(results, doctor.Of(doctor.OK, "", "%s: %s", m.ServerKey, path))
	}
	return doctor.Join(results...)
}

// programPath is where a program is; one that is relative to a session's directory is not looked for.
func programPath(command, path string) (string, error) {
	if strings.ContainsRune(command, filepath.Separator) {
		if !filepath.IsAbs(command) {
			return command, nil
		}
		return exec.LookPath(command)
	}
	if path == "" { // that of the login shell, as programs have it
		path = standard.NewChildren().Login()["PATH"] + string(filepath.ListSeparator) + os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, command)); dir != "" && err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}
