package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/agent"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/executor/internal/host"
	"github.com/agent-executor/executor/cmd/executor/internal/metrics"
	"github.com/agent-executor/executor/cmd/executor/internal/oversight"
	"github.com/agent-executor/executor/cmd/executor/internal/service"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

func runCommand() *cobra.Command {
	given := config.Default()
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
			s, warnings, err := config.Resolve(cmd.Flags(), &given, os.Environ())
			if err != nil {
				return err
			}
			s.Again = func() (config.Settings, []string, error) { return config.Resolve(cmd.Flags(), &given, os.Environ()) }
			return run(cmd.Context(), &s, warnings, cmd.ErrOrStderr())
		},
	}
	config.AddFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// run is the agent's whole life. The log goes to w.
func run(ctx context.Context, s *config.Settings, warnings []string, w io.Writer) (err error) {
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
	learned, err := oversight.Learn(s, hide, os.Environ())
	if err != nil {
		return err
	}
	for _, text := range learned {
		log.Warn(text)
	}
	s.Children = standard.NewChildren()
	if err := host.ConfigureChildren(s.Children, s, oversight.Masker(s, hide)); err != nil {
		return err
	}
	agents, warnings, err := agent.Plan(s, hide)
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
	ctl := control.New(s.StateDir, hide, log)
	defer func() {
		o.ended = err
		ctl.Close()
	}()
	measured, err := metrics.Listen(s.MetricsListen, log)
	if err != nil {
		return err
	}
	defer measured.Close()
	manager, err := service.NewNotifier(os.Getpid())
	if err != nil {
		log.Warn("the service manager is not told how this executor does", zap.Error(err))
	}
	watch := service.NewSupervision(manager, o.status, log)
	o.changed = watch.Changed
	for _, a := range agents {
		a.Options.OnState = watch.Changed
		measured.Prepare(&a.Options)
	}
	woken, unwatch := host.WatchWoken(len(agents))
	defer unwatch()
	for i, c := range woken {
		agents[i].Options.Woken = c
	}
	trusted, err := oversight.Open(s, hide, log)
	if err != nil {
		return err
	}
	defer trusted.Close()
	for _, a := range agents {
		a.Options.Decide = trusted.Decide
	}
	opened := make(chan error, 1)
	go func() { opened <- host.OpenChildren(s.Children, s.StateDir, log) }() // it waits for a program that it starts
	built := agent.Build(agents, log)
	err = <-opened
	defer host.CloseChildren(s.Children, log)
	if err = cmp.Or(err, built); err != nil {
		return err
	}
	for _, dir := range agent.OwnDirs(s.StateDir, agents) {
		if warning := cli.StateDirWarning(dir); warning != "" {
			log.Warn(warning)
		}
	}
	for _, a := range agents {
		log.Info("executor starts", zap.String("version", executor.Version()), zap.String("brain", config.RedactURL(a.Options.URL)),
			zap.String("proxy", a.Proxy), zap.String("state_dir", a.Options.StateDir), zap.String("config", s.Config),
			zap.Strings("capabilities", names(a.Capabilities)), zap.Strings("roots", config.RootNames(a.Options.Workspace.Roots)))
	}

	var orphans sync.WaitGroup
	defer orphans.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.agents, o.cancel = agents, cancel
	supervised, endSupervision := context.WithCancel(context.Background())
	defer endSupervision()
	orphans.Go(func() { watch.Run(supervised) })
	o.answer(ctl)
	o.trusted = trusted
	trusted.Answer(ctl)
	again := o.newReloader(s, level, watch)
	o.answerReload(ctl, again)
	ctl.Start()
	measured.Serve(o.status)
	defer onHangup(again, nohup, cli.IsTerminal(w), log, func() { o.drain(0) })()
	stop := onSignals(signals, log, signalActions{
		drain:  func() { o.drain(0) },
		cancel: o.stop,
		exit:   os.Exit,
	})
	defer stop()
	orphans.Go(func() { standard.ReapOrphans(ctx) })
	orphans.Go(func() { host.RestMemory(ctx) })
	orphans.Go(func() { trusted.Prompt(ctx) })
	if err := agent.RunAll(ctx, agents); err != nil {
		return err
	}
	log.Info("executor ended")
	return nil
}

func names(caps []capabilities.Capability) []string {
	list := make([]string, len(caps))
	for i, c := range caps {
		list[i] = c.Name()
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
