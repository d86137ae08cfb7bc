package git

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// identity are the variables of git's own that pass: who commits, and when.
var identity = []string{
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
	"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
}

// setting is one line of configuration that git is told in the environment, which is stronger than every
// file. Unlike -c it takes any key, and it does not show in a list of processes.
type setting struct{ key, value string }

// noProgram stands where git wants a program and none is to run. It is there, and cannot be executed.
const noProgram = "/dev/null"

// always is what git is told whatever its configuration says.
var always = []setting{
	{"core.fsmonitor", "false"}, {"core.pager", "cat"}, {"core.editor", ":"}, {"sequence.editor", ":"}, {"core.askpass", noProgram},
	{"core.sshcommand", noProgram}, {"core.gitproxy", ""}, {"core.alternaterefscommand", noProgram}, {"core.virtualfilesystem", ""},
	{"credential.helper", ""}, {"protocol.allow", "never"},
	{"diff.external", ""}, {"interactive.difffilter", ""}, {"log.diffmerges", "separate"},
	{"diff.submodule", "short"}, {"diff.ignoresubmodules", "dirty"}, {"status.submodulesummary", "false"}, {"submodule.recurse", "false"},
	{"fetch.recursesubmodules", "false"},
	{"commit.gpgsign", "false"}, {"tag.gpgsign", "false"}, {"tag.forcesignannotated", "false"}, {"log.showsignature", "false"},
	{"gpg.program", noProgram}, {"gpg.openpgp.program", noProgram}, {"gpg.x509.program", noProgram}, {"gpg.ssh.program", noProgram},
	{"gpg.ssh.defaultkeycommand", noProgram},
	{"rerere.enabled", "false"}, {"gc.auto", "0"}, {"gc.recentobjectshook", noProgram}, {"maintenance.auto", "false"},
	// Names and text as the results of the other tools have them.
	{"core.quotepath", "false"}, {"i18n.logoutputencoding", "UTF-8"}, {"diff.relative", "false"}, {"commit.verbose", "false"},
	{"color.ui", "false"}, {"color.diff", "false"}, {"color.status", "false"}, {"color.branch", "false"}, {"color.advice", "false"},
	{"column.ui", "never"}, {"column.status", "never"}, {"column.branch", "never"},
	// Locks of references are waited for by git itself.
	{"core.filesreflocktimeout", "5000"}, {"core.packedrefstimeout", "5000"},
}

// noHooks is said unless hooks are allowed.
var noHooks = setting{"core.hookspath", "/dev/null"}

// environment is what git sees: nothing of git's own variables but the identity, a PATH without what is
// relative or inside the workspace, no locale that translates what is read here, and the settings.
func (g *Git) environment(session *capabilities.Session, ceiling string, writes bool, more []setting) []string {
	env := g.options.Children.Environment(g.login(), spawn.Policy{Secrets: g.options.Secrets}, session.Env())
	kept := make([]string, 0, len(env)+2*len(always))
	locale := ""
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "GIT_") && !slices.Contains(identity, name), name == "LANGUAGE", name == "LC_MESSAGES":
		case name == "LC_ALL":
			locale = value
		case name == "PATH":
			kept = append(kept, "PATH="+outsidePath(session.Workspace(), value))
		default:
			kept = append(kept, entry)
		}
	}
	if locale != "" {
		kept = append(kept, "LC_CTYPE="+locale)
	}
	kept = append(kept, "LC_MESSAGES=C", "LANGUAGE=C",
		"GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_PAGER=cat", "GIT_ASKPASS="+noProgram, "GIT_SSH_COMMAND="+noProgram,
		"GIT_ALLOW_PROTOCOL=none", // overrides every protocol.* there is
		"GIT_NO_LAZY_FETCH=1", "GIT_CEILING_DIRECTORIES="+ceiling)
	if !writes {
		kept = append(kept, "GIT_OPTIONAL_LOCKS=0")
	}
	settings := slices.Concat(always, more)
	if !g.options.AllowHooks {
		settings = append(settings, noHooks)
	}
	kept = append(kept, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		kept = append(kept, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.value))
	}
	return kept
}

// outsidePath leaves out of a PATH what a repository could bring with it.
func outsidePath(w *capabilities.Workspace, path string) string {
	entries := slices.DeleteFunc(filepath.SplitList(path), func(entry string) bool {
		return !filepath.IsAbs(entry) || inside(w, entry)
	})
	return strings.Join(entries, string(filepath.ListSeparator))
}

// inside says whether an absolute path is below the roots.
func inside(w *capabilities.Workspace, abs string) bool {
	_, err := w.Resolve(capabilities.QuoteName(abs))
	return err == nil
}
