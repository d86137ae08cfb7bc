package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/executor/internal/service"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

// reloadable is what applies some of the settings while the program runs. prepare judges
// the next settings and changes nothing; what it returns is called when nobody has refused
// them, and cannot fail.
type reloadable struct {
	keys    []string // of the configuration file
	prepare func(next *config.Settings) (apply func(), err error)
}

// reloaded is what a reload has done: the answer to POST /reload.
type reloaded struct {
	Changed []string `json:"changed"` // keys whose new values hold now
	Restart []string `json:"restart"` // keys whose new values need a restart
}

// reloader reads the settings again, from where they were read at the start, and applies
// what can change. Settings that cannot be read, or that somebody refuses, change nothing.
// Its methods may be called concurrently.
type reloader struct {
	read  func() (config.Settings, []string, error)
	parts []reloadable
	log   *zap.Logger
	begin func() // of a reload, and its end: for the service manager
	end   func()

	mu  sync.Mutex
	now config.Settings // that hold
}

// reload is done once at a time.
func (r *reloader) reload() (done reloaded, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done = reloaded{Changed: []string{}, Restart: []string{}}
	if r.read == nil {
		return done, errors.New("there is nowhere to read the settings from again")
	}
	r.begin()
	defer r.end()
	next, warnings, err := r.read()
	for _, text := range warnings {
		r.log.Warn(text)
	}
	if err != nil {
		return done, err
	}
	var apply []func()
	changed := config.Changes(&r.now, &next)
	for _, p := range r.parts {
		if !slices.ContainsFunc(p.keys, func(key string) bool { return slices.Contains(changed, key) }) {
			continue
		}
		do, err := p.prepare(&next)
		if err != nil {
			return done, err
		}
		apply = append(apply, do)
	}
	for _, do := range apply {
		do()
	}
	for _, key := range changed {
		if !slices.ContainsFunc(r.parts, func(p reloadable) bool { return slices.Contains(p.keys, key) }) {
			done.Restart = append(done.Restart, key)
			continue
		}
		done.Changed = append(done.Changed, key)
		config.Take(key, &r.now, &next)
	}
	return done, nil
}

// say logs what a reload has done.
func (r *reloader) say(done reloaded, err error) {
	switch {
	case err != nil:
		r.log.Error("settings are not reloaded, those of before hold", zap.Error(err))
		return
	case len(done.Changed)+len(done.Restart) == 0:
		r.log.Info("settings are reloaded; nothing has changed")
	case len(done.Changed) > 0:
		r.log.Info("settings are reloaded", zap.Strings("changed", done.Changed))
	}
	if len(done.Restart) > 0 {
		r.log.Warn("these settings have changed too, and need a restart", zap.Strings("keys", done.Restart))
	}
}

// reloadables are what this program can change.
func (o *operation) reloadables(level zap.AtomicLevel) []reloadable {
	return []reloadable{
		{[]string{"trust", "policy"}, o.trusted.Prepare},
		{[]string{"log_level"}, func(next *config.Settings) (func(), error) {
			to := zap.NewAtomicLevel()
			if err := cli.SetLevel(to, next.LogLevel); err != nil {
				return nil, err
			}
			return func() { level.SetLevel(to.Level()) }, nil
		}},
		{[]string{"root", "workspace", "max_sessions", "drain_timeout"}, func(next *config.Settings) (func(), error) {
			roots, err := config.Roots(next.Root)
			if err != nil {
				return nil, err
			}
			c := executor.Changes{Workspace: &executor.Workspace{Roots: roots, PerSession: next.Workspace == "session"},
				MaxSessions: next.MaxSessions, DrainTimeout: next.DrainTimeout}
			for _, a := range o.agents {
				if err := a.Executor.CheckChanges(c); err != nil {
					return nil, cli.Usagef("%w", err)
				}
			}
			return func() {
				for _, a := range o.agents {
					if err := a.Executor.Reconfigure(c); err != nil { // it was good a moment ago
						a.Log.Error("settings are not changed", zap.Error(err))
					}
				}
			}, nil
		}},
	}
}

// answerReload adds the route.
func (o *operation) answerReload(c *control.Server, r *reloader) {
	c.Handle("POST /reload", func(q *http.Request) (any, error) {
		o.log.Info("asked to reload the settings", control.Asker(q)...)
		done, err := r.reload()
		r.say(done, redacted(err, o.hide))
		return done, err
	})
}

// onHangup reloads on SIGHUP, until stop is called. A program that was started to ignore
// it, by nohup, goes on doing so; for one on a terminal it means that the terminal is gone,
// and it leaves.
func onHangup(r *reloader, ignored, terminal bool, log *zap.Logger, leave func()) (stop func()) {
	if ignored {
		return func() {}
	}
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range hangups {
			if terminal {
				log.Info("the terminal is gone; finishing what runs")
				leave()
				continue
			}
			r.say(r.reload())
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

// newReloader makes the reloader of a program that was started with s.
func (o *operation) newReloader(s *config.Settings, level zap.AtomicLevel, v *service.Supervision) *reloader {
	return &reloader{read: s.Again, parts: o.reloadables(level), log: o.log.Named("reload"), now: *s,
		begin: v.Reloading, end: v.Reloaded}
}

func reloadCommand() *cobra.Command {
	return askCommand(&cobra.Command{
		Use:   "reload",
		Short: "Let the running executor read its settings again",
		Long: `Let the running executor read its settings again, as SIGHUP does: the configuration file,
beside the flags and variables it was started with. Roots, the kind of workspace, trust
and policy, the log level, the limit of sessions and the drain timeout change while it
runs, for what begins from then on; what else has changed is named, and needs a restart.
After an error all is as it was.`,
	}, func(cmd *cobra.Command, client *cli.Client) error {
		var done reloaded
		if err := client.Do(cmd.Context(), http.MethodPost, "/reload", nil, &done); err != nil {
			return err
		}
		if cli.JSON(cmd) {
			return cli.WriteJSON(cmd.OutOrStdout(), done)
		}
		text := "nothing has changed"
		if len(done.Changed) > 0 {
			text = "changed: " + strings.Join(done.Changed, ", ")
		}
		if len(done.Restart) > 0 {
			text += "\nchanged, but only after a restart: " + strings.Join(done.Restart, ", ")
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	})
}
