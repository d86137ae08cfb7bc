package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol/rpc"
)

// prepared is what the settings of one brain mean.
type prepared struct {
	Options      executor.Options
	Capabilities []capabilities.Capability
	hidden       []capabilities.Capability // that only listen
	Proxy        string                    // without credentials
	tls          *tlsFiles
	warnings     []string
}

// prepare checks the settings of one brain and makes options of them. It changes nothing on disk
// and connects nowhere.
func prepare(s *config.Settings, hide *cli.Redactor) (p prepared, err error) {
	brainURL, err := brainOf(s)
	if err != nil {
		return p, err
	}
	if p.Proxy, err = proxyOf(brainURL, hide); err != nil {
		return p, err
	}
	roots, err := config.Roots(s.Root)
	if err != nil {
		return p, err
	}
	tls, warning, err := newTLSFiles(s)
	if err != nil {
		return p, err
	}
	if warning != "" {
		p.warnings = append(p.warnings, warning)
	}
	p.tls = tls
	token, first, warning, err := tokenSource(s, hide)
	var credentials func(context.Context) (executor.Credential, error)
	if s.Exchanges() {
		token = nil
		credentials, first, warning, err = exchangeSource(s, tls.source(), hide)
	}
	if err != nil {
		return p, err
	}
	if warning != "" {
		p.warnings = append(p.warnings, warning)
	}
	if s.MaxBackoff < s.MinBackoff {
		return p, cli.Usagef("max_backoff %v is less than min_backoff %v", s.MaxBackoff, s.MinBackoff)
	}
	p.Options = executor.Options{
		URL:               brainURL.String(),
		Insecure:          s.Insecure,
		Token:             token,
		Credentials:       credentials,
		TLSSource:         tls.source(),
		Name:              s.Name,
		EnvironmentID:     s.Environment,
		StateDir:          s.StateDir,
		Workspace:         executor.Workspace{Roots: roots, PerSession: s.Workspace == "session"},
		MaxSessions:       s.MaxSessions,
		MaxInFlight:       s.MaxInFlight,
		MinBackoff:        s.MinBackoff,
		MaxBackoff:        s.MaxBackoff,
		MaxAttempts:       s.MaxAttempts,
		RequestTimeout:    s.RequestTimeout,
		DrainTimeout:      s.DrainTimeout,
		InlineResultBytes: s.InlineResultBytes,
	}
	if s.Dialect == "bma" {
		p.Options.Dialects = rpc.BMA()
	}
	offered := standard.Config{Roots: roots, InlineResultBytes: s.InlineResultBytes, Secrets: s.Secrets, Children: s.Children}
	offered.GitSubcommands, offered.GitHooks, offered.GitFilters = s.GitSubcommands, s.GitHooks, s.GitFilters
	if offered.ExecTools, err = config.ExecTools(s.ExecTools); err != nil {
		return p, cli.Usagef("exec_tools: %w", err)
	}
	if offered.MCPServers, err = config.MCPServers(s.MCPServers); err != nil {
		return p, cli.Usagef("mcp_servers: %w", err)
	}
	offered.NoMCPOverHTTP = noMCPOverHTTP(s)
	if first != "" && !slices.Contains(offered.Secrets, first) {
		offered.Secrets = append(slices.Clip(offered.Secrets), first)
	}
	p.hidden = []capabilities.Capability{oversight.SessionSecrets(hide.Secrets())}
	if s.RedactOutput {
		p.Options.Wrap = oversight.MaskResults(hide.Secrets())
	}
	if p.Capabilities, err = standard.Select(standard.All(offered), s.Capabilities); err != nil {
		return p, cli.Usagef("capabilities: %w", err)
	}
	return p, nil
}

// noMCPOverHTTP says why the brain does not name servers that are reached over HTTP; "" when it may.
func noMCPOverHTTP(s *config.Settings) string {
	if s.Sandbox == standard.SandboxOff || s.SandboxNetwork == standard.NetworkOpen {
		return ""
	}
	return fmt.Sprintf("commands of this executor are in a sandbox with the network %s, and the executor connects nowhere in their place; the user can configure the server in mcp_servers", s.SandboxNetwork)
}
