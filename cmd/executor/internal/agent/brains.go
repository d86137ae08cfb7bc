package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// brainsDir is below the state directory. Each brain has a directory of its own in it,
// also when there is only one: so the first keeps its identity when a second is added.
const brainsDir = "brains"

// forEachBrain splits settings that name several brains into those of one each.
func forEachBrain(s *config.Settings) ([]config.Settings, error) {
	brains := s.Brain
	switch {
	case len(brains) == 0 && s.BaseURL == "":
		_, err := brainOf(s)
		return nil, err
	case len(brains) == 0: // base_url says where
		brains = []string{""}
	case len(brains) > 1 && s.Exchanges():
		return nil, cli.Usagef("base_url gets tokens for one brain, and %d are given; run an executor for each, with its own --state-dir", len(brains))
	}
	if err := oneForEach("token_file", s.TokenFiles, s.Brain); err != nil {
		return nil, err
	}
	if err := oneForEach("token_command", s.TokenCommands, s.Brain); err != nil {
		return nil, err
	}
	var list []config.Settings
	taken := map[string]bool{}
	for i, raw := range brains {
		one := *s
		one.Brain = brains[i : i+1]
		if raw == "" {
			one.Brain = nil
		}
		one.TokenFile = pick(s.TokenFiles, i, s.TokenFile)
		one.TokenCommand = pick(s.TokenCommands, i, s.TokenCommand)
		u, err := brainOf(&one)
		if err != nil {
			return nil, err
		}
		if s.StateDir != "" {
			place := u
			if raw == "" {
				if place, err = url.Parse(s.BaseURL); err != nil {
					return nil, cli.Usagef("base_url: not a URL; want one like https://host")
				}
			}
			one.StateDir = stateDirOf(s.StateDir, place)
		}
		if taken[u.String()] {
			return nil, cli.Usagef("brain %s is given twice; leave one out", config.RedactURL(raw))
		}
		taken[u.String()] = true
		list = append(list, one)
	}
	return list, nil
}

// oneForEach checks a list that is one value for all brains, or one for each.
func oneForEach(key string, list, brains []string) error {
	if n := len(list); n > 1 && n != len(brains) {
		return cli.Usagef("%s: %d are given for %d brains; give one for all, or one for each in the same order", key, n, len(brains))
	}
	return nil
}

func pick(list []string, i int, otherwise string) string {
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	return list[i]
}

// stateDirOf is where the state for one brain is kept: readable, and another one for
// every URL.
func stateDirOf(dir string, brain *url.URL) string {
	sum := sha256.Sum256([]byte(brain.String()))
	return filepath.Join(dir, brainsDir, slug(brain)+"-"+hex.EncodeToString(sum[:4]))
}

// maxSlug keeps paths short.
const maxSlug = 40

// slug is a URL as a name of a file, without what could be secret in it.
func slug(u *url.URL) string {
	text := strings.ToLower(u.Host + u.Path)
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == '.' && b.Len() > 0:
			b.WriteRune(r)
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
	}
	name := b.String()
	return strings.Trim(name[:min(len(name), maxSlug)], "-.")
}

// nameOf is what a brain is called in the log.
func nameOf(u *url.URL) string {
	if u.Host != "" {
		return u.Host
	}
	return u.Path
}
