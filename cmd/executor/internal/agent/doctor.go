package agent

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Checks are the doctor's, of settings: the configuration, the way to each brain, and this machine.
func Checks(r *config.Resolved, hide *cli.Redactor) []doctor.Check {
	s := &r.Settings
	configuration := checkConfiguration(r) // now: it fills in what the others look at
	checks := []doctor.Check{
		{Name: "configuration", Run: func(context.Context) doctor.Result { return configuration }},
		{Name: "token file", Run: func(context.Context) doctor.Result { return checkSecretFiles(s) }},
	}
	checks = append(checks, brainChecks(s, hide)...)
	return append(checks, hostChecks(s)...)
}

// checkConfiguration is all that is wrong with the settings, but for what has a check of
// its own.
func checkConfiguration(r *config.Resolved) doctor.Result {
	const remedy = "correct it; executor config check says the same"
	own := map[string]bool{"token_file": true, "environment_key_file": true, "root": true, "state_dir": true}
	warnings := slices.Concat(r.Warnings, config.PolicyWarnings(&r.Settings)) // the others of a start have checks of their own
	if len(r.Problems) == 0 {
		Check(r)
	}
	var texts []string
	for _, p := range r.Problems {
		if !own[p.Key] || p.Line > 0 && p.Column > 0 { // what the file says is not what is there
			texts = append(texts, p.Say(true))
		}
	}
	switch {
	case len(texts) == 1:
		return doctor.Of(doctor.Fail, remedy, "%s", texts[0])
	case len(texts) > 1:
		result := doctor.Of(doctor.Fail, remedy, "%s", cli.Count(len(texts), "problem", "problems"))
		result.Details = texts
		return result
	case len(warnings) > 0:
		result := doctor.Of(doctor.Warn, "correct it", "%s", warnings[0])
		result.Details = warnings[1:]
		return result
	case r.File == "":
		return doctor.Of(doctor.OK, "", "no file; %s from flags and variables", cli.Count(len(r.Origins), "setting", "settings"))
	}
	return doctor.Of(doctor.OK, "", "%s, %s", r.File, cli.Count(len(r.Origins), "setting", "settings"))
}

// checkSecretFiles looks at the files with credentials: there, whole, for this user only.
func checkSecretFiles(s *config.Settings) doctor.Result {
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
func brainChecks(s *config.Settings, hide *cli.Redactor) []doctor.Check {
	brains := s.Brain
	exchange := s.Exchanges() && s.BaseURL != ""
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
func oneBrain(s *config.Settings, exchange bool, hide *cli.Redactor) []doctor.Check {
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
