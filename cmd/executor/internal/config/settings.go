package config

import (
	"time"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/protocol"
)

// Settings are the effective settings of `executor run`.
type Settings struct {
	Brain         []string
	TokenFiles    []string
	TokenCommands []string
	Insecure      bool
	CAFile        string
	ClientCert    string
	ClientKey     string

	BaseURL            string
	EnvironmentKeyFile string

	Dialect     string
	Name        string
	Environment string

	StateDir     string
	Root         []string
	Workspace    string
	Capabilities []string

	RunAs          string
	Rlimit         []string
	Nice           int
	OOMScoreAdjust int
	LaunchPrefix   []string

	Sandbox        string
	SandboxNetwork string
	SandboxRead    []string

	Redact       []string
	RedactOutput bool

	MaxSessions       int
	MaxInFlight       int
	InlineResultBytes int
	MinBackoff        time.Duration
	MaxBackoff        time.Duration
	MaxAttempts       int
	RequestTimeout    time.Duration
	DrainTimeout      time.Duration

	ExecTools      []string // each a JSON object, or a list of them
	MCPServers     []string // the same
	GitSubcommands []string
	GitHooks       bool
	GitFilters     bool

	Trust           string
	Policy          []string // each a JSON object, or a list of them
	ApprovalTimeout time.Duration
	AuditMaxBytes   int
	AuditKeep       int
	AuditRequired   bool

	Config    string
	LogLevel  string
	LogFormat string

	MetricsListen string

	// Those of one brain, taken from the lists above by package agent.
	TokenFile    string
	TokenCommand string
	Secrets      []string // what no command is to see

	Children *standard.Children                 // of all brains
	Again    func() (Settings, []string, error) // reads them again; nil: it cannot be done
}

// Default are the settings of somebody who has set nothing.
func Default() Settings {
	return Settings{
		StateDir:          cli.DefaultStateDir("executor"),
		Workspace:         "shared",
		Dialect:           "none",
		OOMScoreAdjust:    500,
		Sandbox:           standard.SandboxOff,
		SandboxNetwork:    standard.NetworkOpen,
		MaxSessions:       16,
		MaxInFlight:       protocol.DefaultMaxInFlight,
		InlineResultBytes: protocol.DefaultInlineResult,
		MinBackoff:        protocol.DefaultMinBackoff,
		MaxBackoff:        protocol.DefaultMaxBackoff,
		RequestTimeout:    protocol.DefaultRequestTimeout,
		DrainTimeout:      protocol.DefaultDrainTimeout,
		Trust:             string(policy.TrustFull),
		ApprovalTimeout:   approval.DefaultTimeout,
		AuditMaxBytes:     audit.DefaultMaxBytes,
		AuditKeep:         audit.DefaultKeep,
		LogLevel:          "info",
		LogFormat:         "auto",
	}
}

// Exchanges reports whether the token exchange is configured, or half of it.
func (s *Settings) Exchanges() bool { return s.BaseURL != "" || s.EnvironmentKeyFile != "" }
