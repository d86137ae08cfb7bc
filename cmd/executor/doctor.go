package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/rpc"
)

const (
	checkTime  = 5 * time.Second
	doctorTime = 13 * time.Second // for all
)

func doctorCommand() *cobra.Command {
	given := defaultSettings()
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the executor could work here, and say what to do where not",
		Long: `Check whether executor run with the same flags could work here, and say what to do where not: the
configuration, the way to the brain up to the registration, the state directory, the roots, and what
commands need. Each check is ok, warn or fail; skip is what could not be looked at, and why.

Nothing is changed: the brain is asked with probe=1, which registers nobody and displaces no executor
that runs. A token command is run, as at every connect. Exit code 1 when a check fails; warnings
change nothing. It takes at most 15 seconds, also with a brain that does not answer.

What is checked is what this user, here, could do. For a system service: executor service status
prints a command that runs the doctor as the service is run.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hide := cli.NewRedactor(cmd.OutOrStdout())
			r := resolveAll(cmd.Flags(), &given, os.Environ())
			reports := diagnose(cmd.Context(), r, hide)
			err := printDoctor(reports, hide, cli.JSON(cmd))
			if err == nil && doctor.Failed(reports) {
				err = &cli.Exit{Code: cli.ExitFailed, Err: fmt.Errorf("a check failed"), Quiet: true}
			}
			return err
		},
	}
	addFlags(c.Flags(), &given)
	c.Flags().SortFlags = false
	return c
}

// diagnose makes all checks of the settings, and runs them.
func diagnose(ctx context.Context, r *resolved, hide *cli.Redactor) []doctor.Report {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	return doctor.Run(ctx, doctorChecks(r, hide), checkTime)
}

func doctorChecks(r *resolved, hide *cli.Redactor) []doctor.Check {
	s := &r.settings
	config := r.checkConfiguration() // now: it fills in what the others look at
	checks := []doctor.Check{
		{Name: "configuration", Run: func(context.Context) doctor.Result { return config }},
		{Name: "token file", Run: func(context.Context) doctor.Result { return checkSecretFiles(s) }},
	}
	checks = append(checks, brainChecks(s, hide)...)
	return append(checks, hostChecks(s)...)
}

// checkConfiguration is all that is wrong with the settings, but for what has a check of
// its own.
func (r *resolved) checkConfiguration() doctor.Result {
	const remedy = "correct it; executor config check says the same"
	own := map[string]bool{"token_file": true, "environment_key_file": true, "root": true, "state_dir": true}
	warnings := slices.Concat(r.warnings, policyWarnings(&r.settings)) // the others of a start have checks of their own
	if len(r.problems) == 0 {
		r.checkStart()
	}
	var texts []string
	for _, p := range r.problems {
		if !own[p.Key] || p.Line > 0 && p.Column > 0 { // what the file says is not what is there
			texts = append(texts, p.say(true))
		}
	}
	switch {
	case len(texts) == 1:
		return doctor.Of(doctor.Fail, remedy, "%s", texts[0])
	case len(texts) > 1:
		result := doctor.Of(doctor.Fail, remedy, "%s", plural(len(texts), "problem"))
		result.Details = texts
		return result
	case len(warnings) > 0:
		result := doctor.Of(doctor.Warn, "correct it", "%s", warnings[0])
		result.Details = warnings[1:]
		return result
	case r.file == "":
		return doctor.Of(doctor.OK, "", "no file; %s from flags and variables", plural(len(r.origins), "setting"))
	}
	return doctor.Of(doctor.OK, "", "%s, %s", r.file, plural(len(r.origins), "setting"))
}

// checkSecretFiles looks at the files with credentials: there, whole, for this user only.
func checkSecretFiles(s *settings) doctor.Result {
	type file struct{ path, name, flag string }
	var files []file
	for _, path := range s.TokenFiles {
		files = append(files, file{path, "token", "--token-file"})
	}
	if s.EnvironmentKeyFile != "" {
		files = append(files, file{s.EnvironmentKeyFile, environmentKey, environmentKeyFlag})
	}
	keyWarning := ""
	if _, text, err := newTLSFiles(s); err == nil { // what is wrong with it is said by the configuration
		keyWarning = text
	}
	if path := systemdCredential(); path != "" && len(files) == 0 && len(s.TokenCommands) == 0 {
		files = append(files, file{path, "token", "--token-file"})
	}
	var results []doctor.Result
	if keyWarning != "" {
		results = append(results, inTwo(doctor.Warn, keyWarning))
	}
	if len(files) == 0 && len(results) == 0 {
		return doctor.Of(doctor.Skip, "", "there is none in the settings")
	}
	for _, f := range files {
		_, err := cli.ReadSecret(f.path, f.name, f.flag)
		text := cli.SecretFileWarning(f.path, f.name)
		switch {
		case err != nil:
			results = append(results, inTwo(doctor.Fail, err.Error()))
		case text != "":
			results = append(results, inTwo(doctor.Warn, text))
		default:
			results = append(results, doctor.Of(doctor.OK, "", "%s, for this user only", f.path))
		}
	}
	return doctor.Join(results...)
}

// inTwo takes the remedy, which stands behind a semicolon, out of a text.
func inTwo(status doctor.Status, text string) doctor.Result {
	text, remedy, _ := strings.Cut(text, "; ")
	return doctor.Of(status, strings.TrimPrefix(remedy, "run: "), "%s", text)
}

// brainChecks are those of each brain that can be made out in the settings.
func brainChecks(s *settings, hide *cli.Redactor) []doctor.Check {
	brains := s.Brain
	exchange := s.exchanges() && s.BaseURL != ""
	if exchange {
		brains = []string{s.BaseURL}
	}
	var all []doctor.Check
	for i, raw := range brains {
		one := *s
		one.Brain = brains[i : i+1]
		one.TokenFile, one.TokenCommand = pick(s.TokenFiles, min(i, max(0, len(s.TokenFiles)-1)), ""), pick(s.TokenCommands, min(i, max(0, len(s.TokenCommands)-1)), "")
		checks := oneBrain(&one, exchange, hide)
		if len(brains) > 1 {
			name := raw
			if u, err := url.Parse(raw); err == nil {
				name = nameOf(u)
			}
			checks = doctor.Named(fmt.Sprintf("%d: %s", i+1, name), checks)
		}
		all = append(all, checks...)
	}
	return all
}

// oneBrain are the checks of a brain whose settings are right enough for them.
func oneBrain(s *settings, exchange bool, hide *cli.Redactor) []doctor.Check {
	u, err := brainOf(s)
	if err != nil || u.Host == "" && !strings.HasPrefix(u.Scheme, "unix") {
		return nil // said by the configuration
	}
	if u.Scheme == "unix+listen" {
		return []doctor.Check{{Name: "socket", Run: func(context.Context) doctor.Result { return checkListen(u.Path) }}}
	}
	if u.Scheme != "unix" && u.Scheme != "ws" && u.Scheme != "wss" && !exchange {
		return nil
	}
	files, _, err := newTLSFiles(s)
	if err != nil {
		return nil
	}
	b := &doctor.Brain{URL: u, Exchange: exchange, Subprotocols: rpc.Subprotocols(nil)}
	if files != nil {
		b.TLS = files.config
	}
	if s.Dialect == "bma" {
		b.Subprotocols = rpc.Subprotocols(rpc.BMA())
	}
	_, _ = proxyOf(u, hide) // its password is not to be seen
	if source, _, _, err := tokenSource(s, hide); err == nil {
		b.Token = source
	} else {
		b.Token = func(context.Context) (string, error) { return "", err }
	}
	return b.Checks()
}

// checkListen looks whether the socket can be made where the brain dials.
func checkListen(path string) doctor.Result {
	dir := filepath.Dir(path)
	if err := cli.MayChange(dir); err != nil {
		return doctor.Of(doctor.Fail, "make the directory, for this user, or name another socket", "the socket %s cannot be made: %s: %v", path, dir, err)
	}
	return doctor.Of(doctor.OK, "", "%s can be made; the brain dials it", path)
}

func printDoctor(reports []doctor.Report, w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, struct {
			OK     bool            `json:"ok"` // nothing failed
			Checks []doctor.Report `json:"checks"`
		}{!doctor.Failed(reports), reports})
	}
	width := 0
	for _, r := range reports {
		width = max(width, len([]rune(r.Name)))
	}
	count := map[doctor.Status]int{}
	var b strings.Builder
	indent := strings.Repeat(" ", 6+width+2)
	for _, r := range reports {
		count[r.Status]++
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", r.Status, width, r.Name, cli.Line(r.Text))
		for _, text := range r.Details {
			fmt.Fprintf(&b, "%s%s\n", indent, cli.Line(text))
		}
		if r.Remedy != "" {
			fmt.Fprintf(&b, "%s-> %s\n", indent, cli.Line(r.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s: %d ok, %d warn, %d fail, %d skip\n", map[bool]string{true: "Something failed", false: "All is well"}[doctor.Failed(reports)],
		count[doctor.OK], count[doctor.Warn], count[doctor.Fail], count[doctor.Skip])
	_, err := io.WriteString(w, b.String())
	return err
}
