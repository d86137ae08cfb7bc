package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// serviceOptions are the flags of the service commands.
type serviceOptions struct {
	system, template, hardened bool
	force, now                 bool
	config, user               string
}

// Command is executor service.
func Command() *cobra.Command {
	return cli.Group("service", "Run the executor as a service of systemd", `Run the executor as a service of systemd: of this user, or with --system of the machine. The unit is
written or removed, and the next commands are said; with --now they are run. The configuration, the
token and the state are never touched.`,
		serviceVerb("install", "Write the unit", installService),
		serviceVerb("uninstall", "Remove the unit", uninstallService),
		serviceVerb("status", "Say how the service is", serviceStatus),
		serviceVerb("print", "Print the unit that install would write", printService))
}

func serviceVerb(name, short string, do func(context.Context, systemd, serviceOptions, *cobra.Command) error) *cobra.Command {
	var o serviceOptions
	c := &cobra.Command{
		Use:   name,
		Short: short,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.template {
				o.system = true
			}
			return do(cmd.Context(), newSystemd(), o, cmd)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.system, "system", false, "the machine's, not this user's")
	f.BoolVar(&o.template, "template", false, "executor@USER of the machine, for any of its users")
	if name == "install" || name == "print" {
		f.StringVar(&o.config, "config", "", "configuration `FILE` (default: the user's, with --system "+config.SystemFile+")")
		f.StringVar(&o.user, "run-user", "executor", "`USER` that a service of the machine runs as")
		f.BoolVar(&o.hardened, "hardened", false, "keep commands from more rights and from the system's files; sudo does not work in them then")
	}
	if name == "install" || name == "uninstall" {
		f.BoolVar(&o.force, "force", false, "also a unit that was changed by hand")
		f.BoolVar(&o.now, "now", false, "run the next commands too")
	}
	return c
}

// unitFor makes the unit of the options, with what the configuration says.
func unitFor(o serviceOptions) (unit, error) {
	if o.template {
		u := packagedUnits()[templateName]
		u.hardened = o.hardened
		return u.withProgram()
	}
	u := unit{system: o.system, hardened: o.hardened, config: o.config, user: o.user}
	if u.config == "" {
		u.config = config.SystemFile
		if !o.system {
			u.config = cli.DefaultConfigFile("executor")
		}
	}
	path := []string{u.config}
	if err := config.CleanPaths(path, "", nil); err != nil {
		return u, cli.Usagef("--config: %w", err)
	}
	var err error
	if u.config, err = filepath.Abs(path[0]); err != nil {
		return u, err
	}
	s := config.Default()
	if r := settingsOf(u.config); len(r.Problems) == 0 {
		s = r.Settings
	} else if _, err := os.Stat(u.config); err == nil {
		return u, r.Err() // what is there should be right first
	}
	u.stop = s.DrainTimeout + stopRest
	if u.system && len(s.TokenFiles) == 0 && len(s.TokenCommands) == 0 && !s.Exchanges() {
		u.token = filepath.Join(filepath.Dir(config.SystemFile), "token")
	}
	for _, root := range s.Root {
		dir, readOnly := strings.CutSuffix(root, ":ro")
		if !readOnly {
			u.writable = append(u.writable, strings.TrimSuffix(dir, ":rw"))
		}
	}
	return u.withProgram()
}

// withProgram is the unit for this program, wherever it was started from.
func (u unit) withProgram() (unit, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	u.program = path
	if err == nil {
		err = refuseProgram(path)
	}
	return u, err
}

// refuseProgram: these systemd takes in no path of a program, however they are quoted.
func refuseProgram(path string) error {
	if strings.ContainsAny(path, "\"'\\$") || strings.ContainsFunc(path, unicode.IsControl) {
		return cli.Usagef("systemd cannot start %s: its path has a quote, a backslash or a $ in it; put the program elsewhere, such as /usr/local/bin", config.ShellWord(path))
	}
	return nil
}

// settingsOf are those of a file alone.
func settingsOf(path string) *config.Resolved {
	given := config.Default()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(flags, &given)
	_ = flags.Set(config.FileFlag, path)
	return config.ResolveAll(flags, &given, nil)
}

func printService(_ context.Context, _ systemd, o serviceOptions, cmd *cobra.Command) error {
	u, err := unitFor(o)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), u.text())
	return err
}

func installService(ctx context.Context, d systemd, o serviceOptions, cmd *cobra.Command) error {
	if why := d.absent(); why != "" {
		return fmt.Errorf("%s, so that there is nothing to install; executor service print prints the unit for another machine", why)
	}
	if !o.system && d.config == "" {
		return cli.Usagef("there is no place for the unit: HOME is not set; set it, or use --system")
	}
	u, err := unitFor(o)
	if err != nil {
		return err
	}
	path := filepath.Join(d.dir(o.system), u.name())
	what, err := writeUnit(path, seal(u.text()), o.force)
	if err != nil {
		return err
	}
	say := said{w: cmd.OutOrStdout(), json: cli.JSON(cmd)}
	say.line("%s is %s", path, what)
	if o.system && !o.template {
		if _, err := user.Lookup(u.user); err != nil {
			say.next("useradd --system --create-home --shell /bin/bash " + config.ShellWord(u.user))
		}
	}
	if _, err := os.Stat(u.config); err != nil && !o.template {
		say.next("executor config init --config " + config.ShellWord(u.config) + " --brain wss://HOST/executor --root DIR")
	}
	if u.token != "" && !o.template {
		if _, err := os.Stat(u.token); errors.Is(err, fs.ErrNotExist) {
			say.next("install -m 0600 TOKENFILE " + u.token)
		}
	}
	if say.pending() && o.now {
		say.line("it is not started: the commands below come first")
		o.now = false
	}
	name := strings.TrimSuffix(u.name(), ".service")
	if o.template {
		name += "USER"
		o.now = false // nobody knows for whom
	}
	commands := [][]string{systemctlLine(o.system, "daemon-reload"), systemctlLine(o.system, "enable", "--now", "--no-block", name)}
	if !o.system && !d.lingers() {
		commands = append(commands, []string{"loginctl", "enable-linger"})
	}
	return d.finish(ctx, say, o, commands)
}

// finish runs commands, or says them.
func (d systemd) finish(ctx context.Context, say said, o serviceOptions, commands [][]string) error {
	for _, c := range commands {
		line := strings.Join(c, " ")
		if !o.now || c[0] != "systemctl" {
			say.next(line)
			continue
		}
		args := c[1:]
		if !o.system {
			args = args[1:]
		}
		if _, err := d.call(ctx, o.system, args...); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		say.line("done: %s", line)
	}
	return say.end()
}

// writeUnit writes a unit; one that somebody has changed only with force.
func writeUnit(path, text string, force bool) (what string, err error) {
	old, err := os.ReadFile(path)
	what = "written"
	switch {
	case err == nil && string(old) == text:
		return "there already", nil
	case err == nil && !sealed(string(old)) && !force:
		return "", cli.Usagef("%s was not made by this command, or was changed since; put changes into a drop-in (systemctl edit), or replace it with --force", path)
	case err == nil:
		what = "replaced"
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("unit: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("unit: %w; it takes root for --system", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".executor-*")
	if err != nil {
		return "", fmt.Errorf("unit: %w; it takes root for --system", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("unit: %w", err)
	}
	return what, nil
}

func uninstallService(ctx context.Context, d systemd, o serviceOptions, cmd *cobra.Command) error {
	name := unit{system: o.system, template: o.template}.name()
	path := filepath.Join(d.dir(o.system), name)
	old, err := os.ReadFile(path)
	say := said{w: cmd.OutOrStdout(), json: cli.JSON(cmd)}
	if errors.Is(err, fs.ErrNotExist) {
		say.line("%s is not there", path)
		if other := d.find(o.system, name); other != "" {
			say.line("%s is a package's; remove that instead", other)
		}
		return say.end()
	}
	if err != nil {
		return fmt.Errorf("unit: %w", err)
	}
	if !sealed(string(old)) && !o.force {
		return cli.Usagef("%s was not made by this command, or was changed since; remove it yourself, or with --force", path)
	}
	if d.absent() == "" && !o.template {
		stop := systemctlLine(o.system, "disable", "--now", strings.TrimSuffix(name, ".service"))
		active, enabled := d.word(ctx, o.system, "is-active", name), d.word(ctx, o.system, "is-enabled", name)
		if runs := active == "active" || active == "activating" || enabled == "enabled"; runs && !o.now {
			return fmt.Errorf("the service is %s and %s; run %s first, or use --now", active, enabled, strings.Join(stop, " "))
		} else if runs {
			if err := d.finish(ctx, said{w: io.Discard}, o, [][]string{stop}); err != nil {
				return err
			}
			say.line("done: %s", strings.Join(stop, " "))
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("unit: %w", err)
	}
	say.line("%s is removed; the configuration, the token and the state are as they were", path)
	if d.absent() != "" {
		return say.end()
	}
	return d.finish(ctx, say, o, [][]string{systemctlLine(o.system, "daemon-reload")})
}
