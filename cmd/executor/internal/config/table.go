package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// setting is one line of the table below: a flag, a variable and a key of the
// configuration file in one.
type setting struct {
	flag    string
	usage   string                  // with its argument in backquotes
	value   func(s *Settings) any   // points to where it is kept; its type decides the syntax
	option  string                  // the field of executor.Options it ends up in, if any
	oneOf   []string                // the only values
	orNone  bool                    // a number that may be 0, which is no limit
	signed  bool                    // a number that refuse alone judges
	path    bool                    // a path: ~/ is the home, and relative to the file it is in
	split   func(s string) []string // a list's variable into its elements (default: as PATH is)
	refuse  func(s *Settings) error // what the value's type alone does not say
	object  bool                    // in the file a mapping or a list of them; kept as JSON
	private func(s *Settings) bool  // says whether there are secrets in it, which are no flags and in no file that others read
	code    bool                    // says what is run, so nobody else may write the file it is in
	guard   bool                    // says what may be done, so the same
}

// table is all settings of `executor run`. Flags, variables and the configuration
// file are made from it and nothing else.
var table = []setting{
	{flag: "brain", usage: "`URL` of the brain: wss://host/executor, ws:// on this machine, unix:///path, or unix+listen:///path, where the brain dials; may be repeated: each has its own sessions and state",
		value: func(s *Settings) any { return &s.Brain }, option: "URL", split: splitURLs},
	{flag: "token-file", usage: "`FILE` with the token for the brain, at least 16 characters, read at every dial (default: systemd's credential \"token\"); one for all brains, or one for each in the same order",
		value: func(s *Settings) any { return &s.TokenFiles }, option: "Token", path: true},
	{flag: "token-command", usage: "`COMMAND` that prints the token, at least 16 characters, run at every dial, instead of --token-file; one for all brains, or one for each (in the variable one a line)",
		value: func(s *Settings) any { return &s.TokenCommands }, option: "Token", code: true, split: splitLines},
	{flag: "base-url", usage: "`URL` of the brain's API, https://host, where the environment key is exchanged for tokens that end; instead of a token, and of --brain if it says where to connect",
		value: func(s *Settings) any { return &s.BaseURL }, option: "Credentials"},
	{flag: "environment-key-file", usage: "`FILE` with the key of the environment for --base-url, at least 16 characters, read at every exchange",
		value: func(s *Settings) any { return &s.EnvironmentKeyFile }, option: "Credentials", path: true},
	{flag: "ca-file", usage: "PEM `FILE` of certificate authorities to trust besides the system's",
		value: func(s *Settings) any { return &s.CAFile }, option: "TLSSource", path: true},
	{flag: "client-cert", usage: "PEM `FILE` with the certificate, and those above it, that the brain is shown; with --client-key",
		value: func(s *Settings) any { return &s.ClientCert }, option: "TLSSource", path: true},
	{flag: "client-key", usage: "PEM `FILE` with the key of --client-cert; these files and --ca-file are read again when they have changed",
		value: func(s *Settings) any { return &s.ClientKey }, option: "TLSSource", path: true},
	{flag: "insecure", usage: "allow ws:// to another machine, which sends the token and everything else in clear text",
		value: func(s *Settings) any { return &s.Insecure }, option: "Insecure"},

	{flag: "dialect", usage: "another `SPELLING` of the protocol to offer behind it: bma, or none",
		value: func(s *Settings) any { return &s.Dialect }, option: "Dialects", oneOf: []string{"none", "bma"}},
	{flag: "name", usage: "`NAME` of this executor (default: the host's)",
		value: func(s *Settings) any { return &s.Name }, option: "Name"},
	{flag: "environment", usage: "`ID` of the environment it belongs to",
		value: func(s *Settings) any { return &s.Environment }, option: "EnvironmentID"},

	{flag: "root", usage: "`DIR` sessions work in, DIR:ro for one only to be read; may be repeated, the first is the workspace (default: the current directory)",
		value: func(s *Settings) any { return &s.Root }, option: "Workspace", path: true, split: splitRoots},
	{flag: "workspace", usage: "`KIND` of workspace: shared, all sessions work in the first root, or session, each has a directory of its own there",
		value: func(s *Settings) any { return &s.Workspace }, option: "Workspace", oneOf: []string{"shared", "session"}},
	{flag: "capabilities", usage: "`LIST` of what it can do, with commas; -NAME takes one out of all (default: all that work here)",
		value: func(s *Settings) any { return &s.Capabilities }, refuse: refuseNoCapabilities},
	{flag: "state-dir", usage: "`DIR` that keeps its identity, its sessions and the results it owes",
		value: func(s *Settings) any { return &s.StateDir }, option: "StateDir", path: true},

	{flag: "run-as", usage: "`USER` or USER:GROUP that commands run as, names or numbers; takes root (default: the executor's own)",
		value: func(s *Settings) any { return &s.RunAs }, guard: true, refuse: refuseRunAs},
	{flag: "rlimit", usage: "resource limit of commands, a `LIMIT` like nofile=1024, nproc=500, as=4G, cpu=600, fsize=1G or core=0; may be repeated",
		value: func(s *Settings) any { return &s.Rlimit }, refuse: refuseRlimit},
	{flag: "nice", usage: "niceness of commands, a `NUMBER` from -20 to 19 (default: the executor's own)",
		value: func(s *Settings) any { return &s.Nice }, signed: true, refuse: refuseNice},
	{flag: "oom-score-adjust", usage: "how much sooner than the executor commands are ended when memory runs out, a `NUMBER` from 0 to 1000",
		value: func(s *Settings) any { return &s.OOMScoreAdjust }, signed: true, refuse: refuseOOMScore},
	{flag: "launch-prefix", usage: "`WORD` of a program through which every command is started, such as a sandbox; repeated for each word (in the variable one a line)",
		value: func(s *Settings) any { return &s.LaunchPrefix }, code: true, split: splitLines},

	{flag: "sandbox", usage: "`KIND` of sandbox for commands: bubblewrap, landlock, auto for the first of these that works, or off; they see and write the roots, can read the system's directories, and have a home and a place for temporary files of their own. What cannot be enforced ends the program",
		value: func(s *Settings) any { return &s.Sandbox }, guard: true, oneOf: standard.SandboxModes()},
	{flag: "sandbox-network", usage: "`NETWORK` of commands in the sandbox: open, loopback for one of their own with nothing but 127.0.0.1, or none",
		value: func(s *Settings) any { return &s.SandboxNetwork }, guard: true, oneOf: standard.SandboxNetworks()},
	{flag: "sandbox-read", usage: "`PATH` that commands in the sandbox can read besides; may be repeated",
		value: func(s *Settings) any { return &s.SandboxRead }, guard: true, path: true},

	{flag: "redact", usage: "`NAME` of a variable, or path of a file, whose value is a secret to leave out of the log, beside the executor's own and those in variables named like …_TOKEN, …_KEY, …_SECRET or …PASSWORD; may be repeated",
		value: func(s *Settings) any { return &s.Redact }},
	{flag: "redact-output", usage: "leave them out of what tools return and programs print too: as many asterisks are there instead, also in files that are read (default: what the brain reads is what is there)",
		value: func(s *Settings) any { return &s.RedactOutput }},

	{flag: "max-sessions", usage: "how many sessions at once for each brain, a `NUMBER`",
		value: func(s *Settings) any { return &s.MaxSessions }, option: "MaxSessions"},
	{flag: "max-in-flight", usage: "how many requests of each brain at once, a `NUMBER`",
		value: func(s *Settings) any { return &s.MaxInFlight }, option: "MaxInFlight"},
	{flag: "inline-result-bytes", usage: "longer text of a result is kept in a file, a `NUMBER`",
		value: func(s *Settings) any { return &s.InlineResultBytes }, option: "InlineResultBytes", refuse: refuseInlineResult},
	{flag: "min-backoff", usage: "shortest upper bound of the `TIME` between attempts to connect",
		value: func(s *Settings) any { return &s.MinBackoff }, option: "MinBackoff"},
	{flag: "max-backoff", usage: "longest upper bound of the `TIME` between attempts to connect",
		value: func(s *Settings) any { return &s.MaxBackoff }, option: "MaxBackoff"},
	{flag: "max-attempts", usage: "how many attempts to connect may fail in a row before it gives up with exit code 1, a `NUMBER` (default: no limit)",
		value: func(s *Settings) any { return &s.MaxAttempts }, option: "MaxAttempts", orNone: true},
	{flag: "request-timeout", usage: "`TIME` without an answer after which a connection is dead",
		value: func(s *Settings) any { return &s.RequestTimeout }, option: "RequestTimeout", refuse: refuseRequestTimeout},
	{flag: "drain-timeout", usage: "`TIME` for running calls when it is asked to leave",
		value: func(s *Settings) any { return &s.DrainTimeout }, option: "DrainTimeout"},

	{flag: "exec-tools", usage: "a program as a tool, `JSON`: {\"name\": \"test\", \"command\": [\"make\", \"test\"], \"description\": \"…\", \"timeout\": \"5m\"}; may be repeated, or be a list of them",
		value: func(s *Settings) any { return &s.ExecTools }, object: true, code: true, split: splitLines, refuse: refuseExecTools},
	{flag: "mcp-servers", usage: "an MCP server of the user's for every session, `JSON`: {\"server_key\": \"files\", \"transport\": {\"command\": \"npx\", \"args\": [\"-y\", \"…\"]}}, with url instead of command for one over HTTP; with cwd, env, secret_env (in no flag), command_sha256 and timeout_ms; may be repeated, or be a list of them",
		value: func(s *Settings) any { return &s.MCPServers }, object: true, code: true, split: splitLines, refuse: refuseMCPServers, private: hasMCPSecrets},
	{flag: "git-subcommands", usage: "`LIST` of what the tool git can do besides, with commas: add, describe, ls-files, rev-parse",
		value: func(s *Settings) any { return &s.GitSubcommands }, refuse: refuseGitSubcommands},
	{flag: "git-hooks", usage: "let the tool git run hooks; they are programs of the repository",
		value: func(s *Settings) any { return &s.GitHooks }, guard: true},
	{flag: "git-filters", usage: "let the tool git run the clean and smudge filters that are configured, for git-lfs",
		value: func(s *Settings) any { return &s.GitFilters }, guard: true},

	{flag: "trust", usage: "`HOW` far the brain is trusted where no rule of --policy says otherwise: full, all is done; ask, what only reads is done and the local user is asked about the rest; read-only, the rest is denied",
		value: func(s *Settings) any { return &s.Trust }, guard: true, option: "Decide", oneOf: []string{"full", "ask", "read-only"}},
	{flag: "policy", usage: "a rule as `JSON`, the first that matches decides: {\"command\": \"git push\", \"action\": \"deny\"}; with tool, command, exact, path, session, action (allow, ask or deny) and reason; may be repeated, or be a list of them",
		value: func(s *Settings) any { return &s.Policy }, guard: true, option: "Decide", object: true, split: splitLines, refuse: refusePolicy},
	{flag: "approval-timeout", usage: "`TIME` the local user has to answer; then it is denied",
		value: func(s *Settings) any { return &s.ApprovalTimeout }, option: "Decide"},
	{flag: "audit-max-bytes", usage: "size of a file of the audit log, a `NUMBER`; then it goes on in the next",
		value: func(s *Settings) any { return &s.AuditMaxBytes }, option: "Decide"},
	{flag: "audit-keep", usage: "how many files of the audit log are kept, a `NUMBER`",
		value: func(s *Settings) any { return &s.AuditKeep }, option: "Decide"},
	{flag: "audit-required", usage: "do nothing that could not be written down first: each line is on the disk before a call runs, and a full disk refuses calls",
		value: func(s *Settings) any { return &s.AuditRequired }, guard: true, option: "Decide"},

	{flag: FileFlag, usage: "configuration `FILE` (default: $XDG_CONFIG_HOME/executor/config.yaml, else /etc/executor/config.yaml)",
		value: func(s *Settings) any { return &s.Config }, path: true},
	{flag: "log-level", usage: "`LEVEL` of the log: debug, info, warn or error",
		value: func(s *Settings) any { return &s.LogLevel }, option: "Logger", oneOf: cli.LogLevels},
	{flag: "log-format", usage: "`FORMAT` of the log: console, json, journal (lines with a priority and no time), or auto: journal when systemd's journal reads it, else console",
		value: func(s *Settings) any { return &s.LogFormat }, option: "Logger", oneOf: cli.LogFormats},
	{flag: "metrics-listen", usage: "`ADDR` to serve Prometheus metrics at, /metrics, and /healthz and /readyz, over HTTP without a password: 127.0.0.1:9464 for example (default: off)",
		value: func(s *Settings) any { return &s.MetricsListen }, refuse: refuseMetricsListen},
}

// FileFlag cannot be a key of the file it names.
const FileFlag = "config"

const variablePrefix = "EXECUTOR_"

func (t setting) variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(t.flag, "-", "_"))
}

func (t setting) key() string { return strings.ReplaceAll(t.flag, "-", "_") }

// AddFlags makes the flags; what is given to them is kept in s, which begins as the
// defaults.
func AddFlags(flags *pflag.FlagSet, s *Settings) {
	for _, t := range table {
		switch v := t.value(s).(type) {
		case *string:
			flags.StringVar(v, t.flag, *v, t.usage)
		case *bool:
			flags.BoolVar(v, t.flag, *v, t.usage)
		case *int:
			flags.Var((*number)(v), t.flag, t.usage)
		case *time.Duration:
			flags.DurationVar(v, t.flag, *v, t.usage)
		case *[]string:
			flags.StringArrayVar(v, t.flag, *v, t.usage)
		}
	}
}

// set sets a setting to what a variable or the file says.
func (t setting) set(s *Settings, texts []string) error {
	if list, ok := t.value(s).(*[]string); ok {
		*list = texts
		return nil
	}
	if len(texts) != 1 {
		return fmt.Errorf("one value is wanted, not a list")
	}
	text := texts[0]
	var err error
	switch v := t.value(s).(type) {
	case *string:
		*v = text
	case *bool:
		if *v, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q: %s", text, cli.WantBool)
		}
	case *int:
		return (*number)(v).Set(text)
	case *time.Duration:
		if *v, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%q: %s", text, cli.WantTime)
		}
	}
	return nil
}

// check judges a value, wherever it came from.
func (t setting) check(s *Settings) error {
	switch v := t.value(s).(type) {
	case *int:
		if t.orNone && *v < 0 {
			return fmt.Errorf("%d: want 0, for no limit, or more", *v)
		}
		if !t.orNone && !t.signed && *v <= 0 {
			return fmt.Errorf("%d: want more than 0", *v)
		}
	case *time.Duration:
		if *v <= 0 {
			return fmt.Errorf("%v: want more than 0", *v)
		}
	case *string:
		if len(t.oneOf) > 0 && !slices.Contains(t.oneOf, *v) {
			if near := capabilities.Nearest(*v, t.oneOf); near != "" {
				return fmt.Errorf("%q: did you mean %q?", *v, near)
			}
			return fmt.Errorf("%q: want one of %s", *v, strings.Join(t.oneOf, ", "))
		}
	}
	if t.refuse != nil {
		return t.refuse(s)
	}
	return nil
}

// Changes are the keys of the settings that are not as they were, in the order of the table.
func Changes(now, next *Settings) (keys []string) {
	for _, t := range table {
		if !reflect.DeepEqual(t.value(now), t.value(next)) {
			keys = append(keys, t.key())
		}
	}
	return keys
}

// Take sets the setting of a key to what it is in other settings.
func Take(key string, now, next *Settings) {
	for _, t := range table {
		if t.key() == key {
			reflect.ValueOf(t.value(now)).Elem().Set(reflect.ValueOf(t.value(next)).Elem())
		}
	}
}
