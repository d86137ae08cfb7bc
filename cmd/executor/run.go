package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol/rpc"
)

func runCommand() *cobra.Command {
	given := defaultSettings()
	c := &cobra.Command{
		Use:   "run",
		Short: "Connect to a brain, or several, and work until told to stop",
		Long: `Connect to a brain, or several, and work until told to stop.

Every flag of this command is also a variable and a key of the configuration file:
--state-dir, EXECUTOR_STATE_DIR, state_dir; but --config is no key, and --output, which
all commands have, is a flag alone. A flag wins over a variable, a variable over the
file. One file is read: the user's wins over the system's as a whole. Lists in variables
are separated like PATH. executor config writes, checks and shows all of it.

The first SIGTERM or SIGINT lets running calls finish, the second cancels them, the
third ends the program at once. SIGHUP reads the settings again, as executor reload
does; when the log goes to a terminal, it means that the terminal is gone and does what
SIGTERM does. Exit codes: 0 done, 1 failed, 2 usage or
configuration, 3 credential rejected, 4 registration refused or unsupported
protocol, 5 replaced by another executor with the same identity. With several
brains one that refuses does not end the others; when all have ended, the code is
that of the first that refused.`,
		Example: `  executor run --brain wss://brain.example/executor --token-file ~/.config/executor/token --root ~/project`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, warnings, err := resolve(cmd.Flags(), &given, os.Environ())
			if err != nil {
				return err
			}
			s.again = func() (settings, []string, error) { return resolve(cmd.Flags(), &given, os.Environ()) }
			return run(cmd.Context(), &s, warnings, cmd.ErrOrStderr())
		},
	}
	addFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// run is the agent's whole life. The log goes to w.
func run(ctx context.Context, s *settings, warnings []string, w io.Writer) (err error) {
	nohup := signal.Ignored(syscall.SIGHUP) // asked before commands are started, which see to it that they do not ignore it
	signals := catchSignals()
	defer signal.Stop(signals)
	hide := cli.NewRedactor(w)
	level := zap.NewAtomicLevel()
	if err := cli.SetLevel(level, s.LogLevel); err != nil {
		return err
	}
	log := cli.LoggerAt(hide, level, cli.LogFormatOf(s.LogFormat, w))
	defer func() { _ = cli.SyncLogger(log) }()
	defer func() { err = redacted(err, hide) }()
	for _, text := range warnings {
		log.Warn(text)
	}
	if err := cli.KeepPrivate(); err != nil {
		log.Warn("commands of the same user can read this process's environment and memory", zap.Error(err))
	}
	learned, err := learn(s, hide, os.Environ())
	if err != nil {
		return err
	}
	for _, text := range learned {
		log.Warn(text)
	}
	s.children = standard.NewChildren()
	if err := configureChildren(s.children, s, hide); err != nil {
		return err
	}
	agents, warnings, err := plan(s, hide)
	for _, text := range warnings {
		log.Warn(text)
	}
	if err != nil {
		return err
	}
	lock, warning, err := cli.LockState(s.StateDir, "executor")
	if err != nil {
		return err
	}
	defer lock.Close()
	if warning != "" {
		log.Warn(warning)
	}

	o := &operation{settings: s, started: time.Now(), hide: hide, log: log}
	ctl := newControl(s.StateDir, hide, log)
	defer func() {
		o.ended = err
		ctl.close()
	}()
	measured, err := listenMetrics(s.MetricsListen, log)
	if err != nil {
		return err
	}
	defer measured.close()
	service, err := newNotifier(os.Getpid())
	if err != nil {
		log.Warn("the service manager is not told how this executor does", zap.Error(err))
	}
	watch := newSupervision(service, o.status, log)
	o.changed = watch.changed
	for _, a := range agents {
		a.options.OnState = watch.changed
		measured.prepare(&a.options)
	}
	defer watchWoken(agents)()
	trusted, err := openTrust(s, hide, log)
	if err != nil {
		return err
	}
	defer trusted.close()
	for _, a := range agents {
		a.options.Decide = trusted.gate.Decide
	}
	opened := make(chan error, 1)
	go func() { opened <- openChildren(s.children, s.StateDir, log) }() // it waits for a program that it starts
	built := build(agents, log)
	err = <-opened
	defer closeChildren(s.children, log)
	if err = cmp.Or(err, built); err != nil {
		return err
	}
	for _, dir := range ownDirs(s.StateDir, agents) {
		if warning := cli.StateDirWarning(dir); warning != "" {
			log.Warn(warning)
		}
	}
	for _, a := range agents {
		log.Info("executor starts", zap.String("version", executor.Version()), zap.String("brain", redactURL(a.options.URL)),
			zap.String("proxy", a.proxy), zap.String("state_dir", a.options.StateDir), zap.String("config", s.Config),
			zap.Strings("capabilities", names(a.capabilities)), zap.Strings("roots", rootNames(a.options.Workspace.Roots)))
	}

	var orphans sync.WaitGroup
	defer orphans.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.agents, o.cancel = agents, cancel
	supervised, endSupervision := context.WithCancel(context.Background())
	defer endSupervision()
	orphans.Go(func() { watch.run(supervised) })
	o.answer(ctl)
	o.trusted = trusted
	trusted.answer(ctl)
	again := o.newReloader(s, level, watch)
	o.answerReload(ctl, again)
	ctl.start()
	measured.serve(o.status)
	defer onHangup(again, nohup, cli.IsTerminal(w), log, func() { o.drain(0) })()
	stop := onSignals(signals, log, signalActions{
		drain:  func() { o.drain(0) },
		cancel: o.stop,
		exit:   os.Exit,
	})
	defer stop()
	orphans.Go(func() { standard.ReapOrphans(ctx) })
	orphans.Go(func() { restMemory(ctx) })
	orphans.Go(func() { promptUser(ctx, trusted.desk, log) })
	if err := runAll(ctx, agents); err != nil {
		return err
	}
	log.Info("executor ended")
	return nil
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

// prepared is what the settings of one brain mean.
type prepared struct {
	options      executor.Options
	capabilities []capabilities.Capability
	hidden       []capabilities.Capability // that only listen
	proxy        string                    // without credentials
	tls          *tlsFiles
	warnings     []string
}

// prepare checks the settings of one brain and makes options of them. It changes nothing on disk
// and connects nowhere.
func prepare(s *settings, hide *cli.Redactor) (p prepared, err error) {
	brainURL, err := brainOf(s)
	if err != nil {
		return p, err
	}
	if p.proxy, err = proxyOf(brainURL, hide); err != nil {
		return p, err
	}
	roots, err := rootsOf(s.Root)
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
	if s.exchanges() {
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
	p.options = executor.Options{
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
		p.options.Dialects = rpc.BMA()
	}
	config := standard.Config{Roots: roots, InlineResultBytes: s.InlineResultBytes, Secrets: s.secrets, Children: s.children}
	config.GitSubcommands, config.GitHooks, config.GitFilters = s.GitSubcommands, s.GitHooks, s.GitFilters
	if config.ExecTools, err = execTools(s.ExecTools); err != nil {
		return p, cli.Usagef("exec_tools: %w", err)
	}
	if config.MCPServers, err = mcpServers(s.MCPServers); err != nil {
		return p, cli.Usagef("mcp_servers: %w", err)
	}
	config.NoMCPOverHTTP = noMCPOverHTTP(s)
	if first != "" && !slices.Contains(config.Secrets, first) {
		config.Secrets = append(slices.Clip(config.Secrets), first)
	}
	p.hidden = []capabilities.Capability{sessionSecrets{hide.Secrets()}}
	if s.RedactOutput {
		p.options.Wrap = maskResults(hide.Secrets())
	}
	if p.capabilities, err = standard.Select(standard.All(config), s.Capabilities); err != nil {
		return p, cli.Usagef("capabilities: %w", err)
	}
	return p, nil
}

// brainOf is the one brain of settings that forEachBrain has split; empty when the
// token exchange says where it is. What is wrong with a URL is said without the URL
// where it could have a password in it.
func brainOf(s *settings) (*url.URL, error) {
	if len(s.Brain) == 0 {
		if s.BaseURL != "" { // which says where
			return &url.URL{}, nil
		}
		return nil, cli.Usagef("no brain to connect to; give one with --brain wss://host/executor, EXECUTOR_BRAIN or the key brain")
	}
	u, err := url.Parse(s.Brain[0])
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, cli.Usagef("brain: not a URL: %w; want one like wss://host/executor", err)
	}
	if u.User != nil {
		return nil, cli.Usagef("brain %s: a user name or password in it is not used; the credential is given by --token-file", redactURL(s.Brain[0]))
	}
	if (u.Scheme == "ws" || u.Scheme == "wss") && u.Host == "" {
		return nil, cli.Usagef("brain %q: the host is missing; want one like wss://host/executor", u.Redacted())
	}
	return u, nil
}

// redactURL leaves out what may be secret in a URL.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "[not a URL]"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

// proxyOf is the proxy that the environment names for the brain, without its
// credentials. A bad one is found now, not in every attempt's log line.
func proxyOf(brain *url.URL, hide *cli.Redactor) (string, error) {
	u := *brain
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	default:
		return "", nil
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &u})
	if err != nil { // its text has the whole URL in it
		return "", cli.Usagef("the proxy in HTTPS_PROXY or HTTP_PROXY is not a URL; correct or unset it")
	}
	if proxy == nil {
		return "", nil
	}
	if password, ok := proxy.User.Password(); ok {
		hide.Add(password)
		hide.Add(proxy.User.String())
	}
	return proxy.Redacted(), nil
}

// rootsOf reads DIR and DIR:ro.
func rootsOf(list []string) ([]capabilities.Root, error) {
	if len(list) == 0 {
		list = []string{"."}
	}
	var roots []capabilities.Root
	for _, text := range list {
		dir, readOnly := strings.CutSuffix(text, ":ro")
		if !readOnly {
			dir = strings.TrimSuffix(dir, ":rw")
		}
		if dir == "" {
			return nil, cli.Usagef("root %q: the directory is missing", text)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, cli.Usagef("root %s: %w", capabilities.QuoteName(dir), err)
		}
		info, err := os.Stat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, cli.Usagef("root %s does not exist; make it, or name another with --root", capabilities.QuoteName(abs))
		case err != nil:
			return nil, cli.Usagef("root: %w", err)
		case !info.IsDir():
			return nil, cli.Usagef("root %s is not a directory", capabilities.QuoteName(abs))
		}
		roots = append(roots, capabilities.Root{Path: abs, ReadOnly: readOnly})
	}
	return roots, nil
}

func names(caps []capabilities.Capability) []string {
	list := make([]string, len(caps))
	for i, c := range caps {
		list[i] = c.Name()
	}
	return list
}

func rootNames(roots []capabilities.Root) []string {
	list := make([]string, len(roots))
	for i, r := range roots {
		list[i] = r.Path
		if r.ReadOnly {
			list[i] += ":ro"
		}
	}
	return list
}

// redacted is err with no secret in its text.
func redacted(err error, hide *cli.Redactor) error {
	if err == nil {
		return nil
	}
	if text := hide.Redact(err.Error()); text != err.Error() {
		return cli.WithCode(cli.Code(err), fmt.Errorf("%s", text))
	}
	return err
}
