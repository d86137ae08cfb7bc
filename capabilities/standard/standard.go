// Package standard is the list of the capabilities that come with the executor.
//
//	all := standard.All(standard.Config{Roots: roots})
//	ex.Register(all...)
//
// A capability of your own is registered beside them, or gets a line here.
package standard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/exec"
	"github.com/agent-executor/executor/capabilities/files"
	"github.com/agent-executor/executor/capabilities/git"
	"github.com/agent-executor/executor/capabilities/mcp"
	"github.com/agent-executor/executor/capabilities/process"
	"github.com/agent-executor/executor/capabilities/shell"
	"github.com/agent-executor/executor/protocol"
)

// Config is what the capabilities need to know of the executor they are part of.
type Config struct {
	// Roots are the directories sessions work in, as they are advertised.
	Roots []capabilities.Root
	// Secrets are credentials of the executor, which no child may see.
	Secrets []string
	// InlineResultBytes is the size of a result's text above which the whole is
	// kept in a file (default 32 KiB).
	InlineResultBytes int
	// Children keeps hold of the processes that the capabilities start; nil means that they end with
	// their session only, and what runs when this process is killed goes on.
	Children *Children

	// GitSubcommands are allowed to the tool git beside those that always are.
	GitSubcommands []string
	// GitHooks lets git run hooks, and GitFilters the filters that are configured (git-lfs).
	GitHooks, GitFilters bool

	// ExecTools are programs of the user's, each a tool.
	ExecTools []exec.Tool

	// MCPServers are the user's own, for every session; NoMCPOverHTTP says why the brain names none that are
	// reached over HTTP, "" for it may.
	MCPServers    []protocol.MCPServer
	NoMCPOverHTTP string
}

// All makes every capability, in the order they are registered in. It starts
// nothing. What does not work on this machine leaves itself out when installed.
func All(c Config) []capabilities.Capability {
	return []capabilities.Capability{
		shell.New(shell.Options{Secrets: c.Secrets, InlineBytes: c.InlineResultBytes, Children: c.Children}),
		process.New(process.Options{Secrets: c.Secrets, Children: c.Children}),
		files.New(files.Options{Roots: c.Roots, MaxTextBytes: c.InlineResultBytes}),
		git.New(git.Options{Subcommands: c.GitSubcommands, AllowHooks: c.GitHooks, AllowFilters: c.GitFilters,
			Secrets: c.Secrets, InlineBytes: c.InlineResultBytes, Children: c.Children}),
		mcp.New(mcp.Options{Servers: c.MCPServers, NoHTTP: c.NoMCPOverHTTP, Secrets: c.Secrets, Children: c.Children}),
		// Last, so that a name that the user chose is never one of the others'.
		exec.New(exec.Options{Tools: c.ExecTools, Secrets: c.Secrets, InlineBytes: c.InlineResultBytes, Children: c.Children}),
	}
}

// Select picks capabilities by name, in their own order. Names stand for exactly
// those; -NAME takes one out, of all of them when the list begins so. An empty list
// is all. An unknown name is an error that says which one was probably meant.
func Select(all []capabilities.Capability, names []string) ([]capabilities.Capability, error) {
	if len(names) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, c := range all {
		known[i] = c.Name()
	}
	chosen := map[string]bool{}
	for i, entry := range names {
		name, out := strings.CutPrefix(entry, "-")
		if !slices.Contains(known, name) {
			return nil, unknown(name, known)
		}
		if i == 0 && out {
			for _, k := range known {
				chosen[k] = true
			}
		}
		chosen[name] = !out
	}
	picked := slices.DeleteFunc(slices.Clone(all), func(c capabilities.Capability) bool { return !chosen[c.Name()] })
	if len(picked) == 0 {
		return nil, fmt.Errorf("the list %q leaves no capability", strings.Join(names, ","))
	}
	return picked, nil
}

func unknown(name string, known []string) error {
	if near := capabilities.Nearest(name, known); near != "" {
		return fmt.Errorf("there is no capability %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no capability %q; there are %s", name, strings.Join(known, ", "))
}
