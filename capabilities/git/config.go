package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxConfig is bytes of configuration that are read.
	maxConfig = 4 << 20
	// maxSettings is how many settings may have to be said otherwise. They go through the environment, which
	// is not of any size.
	maxSettings = 2000
)

// entry is one line of the configuration as git would use it.
type entry struct {
	scope, origin            string
	key                      string // as git writes it
	section, sub, name, text string
	divided                  bool // it is in a subsection, whose name, sub, may be ""
}

// ofRepository says whether the repository itself says it, or a file that it includes.
func (e entry) ofRepository() bool { return e.scope == "local" || e.scope == "worktree" }

// parseConfig reads what `git config --list -z --show-scope --show-origin` prints, without what was said in
// the environment.
func parseConfig(text []byte) []entry {
	fields := strings.Split(string(text), "\x00")
	var all []entry
	for i := 0; i+2 < len(fields); i += 3 {
		if e, ok := parseEntry(fields[i+2]); ok && fields[i] != "command" {
			e.scope, e.origin = fields[i], fields[i+1]
			all = append(all, e)
		}
	}
	return all
}

func parseEntry(line string) (e entry, ok bool) {
	key, value, _ := strings.Cut(line, "\n")
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return e, false
	}
	e = entry{key: key, section: key[:first], name: key[last+1:], text: value}
	if first < last {
		e.sub, e.divided = key[first+1:last], true
	}
	return e, true
}

// runs are variables whose value is a program, or a way to one, under whatever name. They are said to be
// empty, which for git is as if they were not there.
var runs = []string{"command", "cmd", "program", "helper", "process", "clean", "smudge", "uploadpack", "receivepack", "proxy", "vcs"}

// files are variables of a repository that name a file to read. One that is outside is said to be empty.
var files = []string{
	"core.excludesfile", "core.attributesfile", "mailmap.file", ignoreRevs, "commit.template", "diff.orderfile",
	"gpg.ssh.allowedsignersfile", "gpg.ssh.revocationfile",
}

const ignoreRevs = "blame.ignorerevsfile"

// config is what is to be known of a repository's configuration.
type config struct {
	settings []setting
	filters  []string // names of filters that are configured and not allowed
	signs    bool     // commits would be signed
	// noIgnoreRevs: a file of revisions that blame ignores is outside. It cannot be said otherwise: such files
	// add up.
	noIgnoreRevs bool
	secrets      []string // parts of what is configured that are not to be shown
}

// readConfig reads the configuration that git would use in a repository and says what has to be said otherwise.
// The files that the repository includes are looked at first: git reads them before it says where they are.
func (r *repository) readConfig(ctx context.Context) (*config, error) {
	for _, file := range []string{filepath.Join(r.common, "config"), filepath.Join(r.gitDir, "config.worktree")} {
		if err := r.checkIncludes(ctx, file); err != nil {
			return nil, err
		}
	}
	text, err := r.ask(ctx, maxConfig, "config", "--includes", "--list", "-z", "--show-scope", "--show-origin")
	if err != nil {
		return nil, err
	}
	all := parseConfig(text)
	for _, e := range all {
		if !e.ofRepository() {
			continue
		}
		file, ok := strings.CutPrefix(e.origin, "file:")
		if !ok {
			continue
		}
		if file = r.absolute(file); !inside(r.workspace, file) {
			return nil, r.outside("a file that its configuration includes", file)
		}
		if _, err := r.checkInclude(e, directoryOf(file)); err != nil {
			return nil, err
		}
	}
	return r.neutralise(all)
}

// mentions says whether a file has a word in it, in any case. A file that cannot be read to its end may.
func mentions(path, word string) bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig:
		return true
	}
	text, err := os.ReadFile(path)
	return err != nil || strings.Contains(strings.ToLower(string(text)), word)
}

// checkInclude is the file that an entry includes; "" is none. One that is outside is refused. dir is the directory
// of the file in which the entry stands.
func (r *repository) checkInclude(e entry, dir string) (string, error) {
	if e.section != "include" && e.section != "includeif" || e.name != "path" {
		return "", nil
	}
	path := e.text
	switch {
	case strings.HasPrefix(path, "~") || strings.HasPrefix(path, "%(prefix)"):
		// The home of somebody, or of git: never the repository's.
		return "", r.outside("a file that its configuration includes", path)
	case path == "":
		return "", nil
	}
	path = beside(dir, path)
	if !inside(r.workspace, path) {
		return "", r.outside("a file that its configuration includes", path)
	}
	if info, err := os.Stat(path); err == nil && waits(info.Mode()) {
		return "", r.blocks(path)
	}
	return path, nil
}

// directoryOf is the directory of a file as git sees it in the file's path, which is not made shorter.
func directoryOf(path string) string {
	return path[:max(strings.LastIndexFunc(path, func(c rune) bool { return c < 0x80 && os.IsPathSeparator(uint8(c)) }), 0)]
}

func (r *repository) neutralise(all []entry) (*config, error) {
	c := &config{}
	said := map[string]bool{}
	say := func(key, value string) {
		if !said[key] {
			said[key] = true
			c.settings = append(c.settings, setting{key, value})
		}
	}
	for _, e := range all {
		switch {
		case e.section == "filter":
			if r.git.options.AllowFilters {
				break
			}
			switch e.name {
			case "clean", "smudge", "process":
				say(e.key, "")
				say("filter."+e.sub+".required", "false")
				if e.text != "" && !slices.Contains(c.filters, e.sub) {
					c.filters = append(c.filters, e.sub)
				}
			}
		case e.section == "hook" && e.divided:
			if !r.git.options.AllowHooks {
				say("hook."+e.sub+".enabled", "false")
				say("hook."+e.sub+".event", "")
			}
		case e.section == "diff" && e.name == "textconv":
			say(e.key, "cat")
		case e.section == "merge" && e.name == "driver":
			say(e.key, "false")
		case e.ofRepository() && e.key == "extensions.refstorage" && strings.Contains(e.text, "://"):
			// Later versions of git take a place for the branches.
			_, path, _ := strings.Cut(e.text, "://")
			if path = beside(r.common, path); !inside(r.workspace, path) {
				return nil, r.outside("where its branches are", path)
			}
		case e.ofRepository() && r.namesOutside(e):
			if e.key == ignoreRevs {
				c.noIgnoreRevs = true
				break
			}
			say(e.key, "/dev/null")
		case e.key == "commit.gpgsign":
			c.signs = isTrue(e.text)
		case e.divided && slices.Contains(runs, e.name):
			say(e.key, "")
		}
		c.secrets = append(c.secrets, secretsOf(e)...)
	}
	if len(c.settings) > maxSettings {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the configuration of the repository names %d programs and files that git is not to use; no more than %d can be kept from it",
			len(c.settings), maxSettings)
	}
	// The list above is not touched by what is said always, which comes first.
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool {
		return slices.ContainsFunc(always, func(a setting) bool { return a.key == s.key })
	})
	return c, nil
}

// namesOutside says whether the repository wants git to read a file outside the roots, or one without an end.
func (r *repository) namesOutside(e entry) bool {
	if !slices.Contains(files, e.key) || e.text == "" {
		return false
	}
	if strings.HasPrefix(e.text, "~") || strings.HasPrefix(e.text, "%(prefix)") {
		return true
	}
	path := r.absolute(e.text)
	if !inside(r.workspace, path) {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && waits(info.Mode())
}

func isTrue(text string) bool {
	switch strings.ToLower(text) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}

var userInfo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*)://([^/\s'"<>]+)@`)
})

// isSecret says whether the part of a URL in front of the "@" is more than a name.
func isSecret(scheme, user string) bool {
	name, password, both := strings.Cut(user, ":")
	// Without a password a long name may be a token.
	return both && password != "" || !both && strings.HasPrefix(strings.ToLower(scheme), "http") && len(name) >= 16
}

// hideURLs leaves out the credentials of all URLs in what git says, also before it is known which are configured.
func hideURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return userInfo().ReplaceAllStringFunc(text, func(found string) string {
		if m := userInfo().FindStringSubmatch(found); isSecret(m[1], m[2]) {
			return m[1] + "://***@"
		}
		return found
	})
}

// secretsOf finds the credentials in a line: the user and password of a URL, the value of a header.
func secretsOf(e entry) []string {
	var found []string
	for _, text := range []string{e.sub, e.text} {
		for _, m := range userInfo().FindAllStringSubmatch(text, -1) {
			if !isSecret(m[1], m[2]) {
				continue
			}
			user, password, both := strings.Cut(m[2], ":")
			if !both {
				found = append(found, user)
				continue
			}
			found = append(found, m[2]+"@")
			if len(password) >= 8 {
				found = append(found, password)
			}
		}
	}
	if e.name == "extraheader" {
		if words := strings.Fields(e.text); len(words) > 1 && len(words[len(words)-1]) >= 8 {
			found = append(found, words[len(words)-1])
		}
	}
	return found
}

// hide leaves out of a text what the configuration keeps secret.
func (c *config) hide(text string) string {
	for _, secret := range c.secrets {
		with := "***"
		if strings.HasSuffix(secret, "@") {
			with = "***@"
		}
		text = strings.ReplaceAll(text, secret, with)
	}
	return text
}

// outside is the refusal of a repository of which a part is elsewhere.
func (r *repository) outside(what, path string) error {
	return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: %s, %s, is outside the workspace; a root that holds it would allow it",
		what, capabilities.QuoteName(path)).WithReason(protocol.ReasonWorkspaceBoundary)
}
