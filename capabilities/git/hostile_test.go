//go:build unix

package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tricks are ways of a repository to have a program run: what it configures and what else it has. %s is the
// program.
var tricks = []struct {
	name, config, attributes string
	hooks                    bool
	control                  []string // runs the program with a git that is not kept from it; nil where this version has no such way
}{
	{name: "fsmonitor", config: "[core]\n\tfsmonitor = %s\n", control: []string{"status"}},
	{name: "clean", config: "[filter \"x\"]\n\tclean = %s\n", attributes: "* filter=x\n", control: []string{"diff"}},
	{name: "odd-name", config: "[filter \"a=b \\\"c\\\".d\"]\n\tclean = %s\n\trequired\n", attributes: "* filter=x\n*.txt \"filter=a=b \\\"c\\\".d\"\n"},
	{name: "dotted", config: "[filter.Dotted]\n\tCLEAN = %s\n", attributes: "* filter=dotted\n", control: []string{"diff"}},
	{name: "process", config: "[filter \"x\"]\n\tprocess = %s\n", attributes: "* filter=x\n", control: []string{"diff"}},
	{name: "required", config: "[filter \"x\"]\n\tclean = %[1]s\n\tsmudge = %[1]s\n\trequired = true\n", attributes: "* filter=x\n", control: []string{"diff"}},
	{name: "external-diff", config: "[diff]\n\texternal = %s\n", control: []string{"diff"}},
	{name: "driver", config: "[diff \"x\"]\n\tcommand = %s\n", attributes: "* diff=x\n", control: []string{"diff"}},
	{name: "textconv", config: "[diff \"x\"]\n\ttextconv = %s\n\tcachetextconv = true\n", attributes: "* diff=x\n", control: []string{"diff"}},
	{name: "textconv-blame", config: "[diff \"x\"]\n\ttextconv = %s\n", attributes: "* diff=x\n", control: []string{"blame", "a.txt"}},
	{name: "hooks", hooks: true, control: []string{"commit", "-qam", "control"}},
	{name: "hooks-path", config: "[core]\n\thooksPath = ../hooks\n", hooks: true, control: []string{"commit", "-qam", "control"}},
	{name: "gpg", config: "[gpg]\n\tprogram = %s\n[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[format]\n\tpretty = %%G?%%GS\n", control: []string{"commit", "-qam", "control"}},
	{name: "ssh-sign", config: "[gpg]\n\tformat = ssh\n[gpg \"ssh\"]\n\tprogram = %[1]s\n\tdefaultKeyCommand = %[1]s\n[commit]\n\tgpgSign = true\n", control: []string{"commit", "-qam", "control"}},
	{name: "pager", config: "[core]\n\tpager = %[1]s\n[pager]\n\tlog = %[1]s\n\tstatus = %[1]s\n\tdiff = %[1]s\n\tshow = %[1]s\n"},
	{name: "editor", config: "[core]\n\teditor = %[1]s\n[sequence]\n\teditor = %[1]s\n[commit]\n\tverbose = true\n"},
	{name: "alias", config: "[alias]\n\tstatus = !%[1]s\n\tlog = !%[1]s\n\tbranches = !%[1]s\n\tchanged_files = !%[1]s\n"},
	{name: "ssh", config: "[core]\n\tsshCommand = %[1]s\n\tgitProxy = %[1]s\n\taskPass = %[1]s\n[credential]\n\thelper = !%[1]s\n"},
	{name: "merge-driver", config: "[merge \"x\"]\n\tdriver = %s\n[log]\n\tdiffMerges = remerge\n", attributes: "* merge=x\n", control: []string{"show", "merge"}},
	{name: "trailer", config: "[trailer \"x\"]\n\tcommand = %[1]s\n\tcmd = %[1]s\n\tifmissing = add\n"},
	{name: "hook-config", config: "[hook \"x\"]\n\tcommand = %s\n\tevent = pre-commit\n\tevent = post-index-change\n"},
	{name: "gc", config: "[gc]\n\tauto = 1\n\trecentObjectsHook = %s\n[maintenance]\n\tauto = true\n"},
	{name: "promisor", config: "[remote \"origin\"]\n\turl = ext::%[1]s\n\tpromisor = true\n\tuploadpack = %[1]s\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n",
		control: []string{"cat-file", "-p", "1234567890123456789012345678901234567890"}},
	{name: "include", config: "[include]\n\tpath = ../more\n[includeIf \"gitdir:**\"]\n\tpath = ../more2\n", attributes: "* filter=more filter=more2\n", control: []string{"diff"}},
	{name: "worktree-config", config: "[extensions]\n\tworktreeConfig = true\n", control: []string{"status"}},
	{name: "virtual", config: "[core]\n\tvirtualFilesystem = %[1]s\n\talternateRefsCommand = %[1]s\n[interactive]\n\tdiffFilter = %[1]s\n[uploadpack]\n\tpackObjectsHook = %[1]s\n[submodule]\n\trecurse = true\n"},
}

// every way to call each subcommand.
var everyCall = [][]string{
	{"status"}, {"status", "-s", "-b", "-uall", "--ignored"}, {"log", "-p", "-3"}, {"log", "--stat", "--all", "-S", "b", "--format=%G? %GS %GK %h"},
	{"log", "-1", "-L", "1,1:a.txt"}, {"diff"}, {"diff", "--cached"}, {"diff", "HEAD~1", "--stat"}, {"diff", "HEAD~1..HEAD", "--word-diff"},
	{"show"}, {"show", "merge", "-m"}, {"show", "HEAD:a.txt"}, {"show", "1234567890123456789012345678901234567890"}, {"blame", "a.txt"}, {"blame", "-M", "HEAD", "--", "a.txt"},
	{"branches", "-a"}, {"changed_files"}, {"changed_files", "--staged"}, {"changed_files", "HEAD~1..HEAD"},
	{"commit", "-m", "from the index", "--allow-empty"}, {"commit", "-m", "all", "-a", "--allow-empty"}, {"commit", "--amend", "--no-edit"}, {"commit", "-m", "path", "--", "a.txt"},
	{"add", "a.txt"}, {"add", "-A"}, {"ls-files", "-m"}, {"rev-parse", "HEAD"}, {"describe", "--always"},
}

var hookNames = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction", "pre-auto-gc", "post-rewrite", "post-checkout", "fsmonitor-watchman"}

// hostile makes a repository with a history, a merge and changes, and plays a trick in it.
func hostile(b *bench, i int) (sentinel string) {
	b.t.Helper()
	trick := tricks[i]
	b.git("init", "-q", "-b", "main")
	b.commit("a.txt", "a\nb\nc\n")
	b.git("checkout", "-qb", "side")
	b.commit("a.txt", "a\nb\nside\n")
	b.git("checkout", "-q", "main")
	b.commit("a.txt", "a\nb\nmain\n")
	b.git("merge", "-q", "-X", "ours", "-m", "merge", "side")
	b.git("tag", "merge")
	b.commit("a.txt", "a\nb\nlast\n")

	program, sentinel := b.script(trick.name)
	config := filepath.Join(b.top, ".git", "config")
	text, err := os.ReadFile(config)
	require.NoError(b.t, err)
	extra := trick.config
	if strings.Contains(extra, "%") {
		extra = fmt.Sprintf(extra, program)
	}
	b.put(config, string(text)+extra)
	switch trick.name {
	case "include":
		b.put("more", "[filter \"more\"]\n\tclean = "+program+"\n[include]\n\tpath = more2\n")
		b.put("more2", "[filter \"more2\"]\n\tclean = "+program+"\n")
	case "worktree-config":
		b.put(".git/config.worktree", "[core]\n\tfsmonitor = "+program+"\n")
	}
	if trick.attributes != "" {
		b.put(".gitattributes", trick.attributes)
	}
	if trick.hooks {
		content, err := os.ReadFile(program)
		require.NoError(b.t, err)
		for _, dir := range []string{filepath.Join(b.top, ".git", "hooks"), filepath.Join(b.base, "hooks")} {
			for _, name := range hookNames {
				require.NoError(b.t, os.Chmod(b.put(filepath.Join(dir, name), string(content)), 0o755))
			}
		}
	}
	b.put("a.txt", "a\nb\nchanged\n")
	return sentinel
}

// Nothing that a repository says is run, by any subcommand.
func TestHostileRepositories(t *testing.T) {
	for i, trick := range tricks {
		t.Run(trick.name, func(t *testing.T) {
			b := newPlace(t)
			sentinel := hostile(b, i)
			b.start(Options{Subcommands: Extra()})
			for _, c := range everyCall {
				a := b.call(c[0], c[1:]...)
				absent(t, sentinel)
				if t.Failed() {
					t.Fatalf("it was run by git %q: %s", c, a.text)
				}
				if a.Error != nil && a.Error.Reason == "internal_error" {
					t.Errorf("git %q: %s", c, a.text)
				}
			}
			if trick.control != nil {
				b.gitMayFail(trick.control...)
				assert.FileExists(t, sentinel, "the trick works with a git that is not kept from it")
			}
		})
	}
}

// The tricks of a submodule, where git starts a git of its own.
func TestHostileSubmodule(t *testing.T) {
	b := newBench(t, Options{Subcommands: []string{"add"}})
	b.commit("a.txt", "a\n")
	sub := filepath.Join(b.top, "sub")
	require.NoError(t, os.Mkdir(sub, 0o755))
	b.gitIn(sub, "init", "-q", "-b", "main")
	b.put("sub/f.txt", "f\n")
	b.gitIn(sub, "add", ".")
	b.gitIn(sub, "commit", "-qm", "sub")
	b.git("add", "sub")
	b.git("commit", "-qm", "with a submodule")
	program, sentinel := b.script("sub")
	config, err := os.ReadFile(filepath.Join(sub, ".git", "config"))
	require.NoError(t, err)
	b.put("sub/.git/config", string(config)+fmt.Sprintf("[core]\n\tfsmonitor = %[1]s\n[filter \"deep\"]\n\tclean = %[1]s\n", program))
	b.put("sub/.gitattributes", "* filter=deep\n")
	b.put("sub/f.txt", "changed\n")
	for _, c := range everyCall {
		b.call(c[0], c[1:]...)
		absent(t, sentinel)
	}
	assert.Contains(t, b.refused("conflict", "commit", "-am", "nothing"), "nothing")
	b.put("a.txt", "b\n")
	b.works("commit", "-am", "beside a submodule")
	absent(t, sentinel)

	outside := filepath.Join(b.base, "elsewhere.git")
	require.NoError(t, os.Rename(filepath.Join(sub, ".git"), outside))
	b.put("sub/.git", "gitdir: "+outside+"\n")
	b.put("a.txt", "c\n")
	assert.Contains(t, b.works("status", "-s"), " M a.txt")
	b.refused("workspace_boundary", "commit", "-am", "x")
	absent(t, sentinel)
	b.gitMayFail("status")
	assert.FileExists(t, sentinel, "the trick works with a git that is not kept from it")
}

// A repository of which a part is outside the roots is not used.
func TestRepositoriesThatLeadOut(t *testing.T) {
	for name, lead := range map[string]func(b *bench, outside string){
		"git directory": func(b *bench, outside string) {
			require.NoError(t, os.RemoveAll(filepath.Join(b.top, ".git")))
			b.put(".git", "gitdir: "+filepath.Join(outside, ".git")+"\n")
		},
		"link to a git directory": func(b *bench, outside string) {
			require.NoError(t, os.RemoveAll(filepath.Join(b.top, ".git")))
			require.NoError(t, os.Symlink(filepath.Join(outside, ".git"), filepath.Join(b.top, ".git")))
		},
		"work tree":          func(b *bench, outside string) { b.git("config", "core.worktree", outside) },
		"relative work tree": func(b *bench, outside string) { b.git("config", "core.worktree", "../../outside") },
		"common directory":   func(b *bench, outside string) { b.put(".git/commondir", filepath.Join(outside, ".git")) },
		"alternates": func(b *bench, outside string) {
			b.put(".git/objects/info/alternates", "# here\n"+filepath.Join(outside, ".git/objects")+"\n")
		},
		"quoted alternates": func(b *bench, outside string) {
			b.put(".git/objects/info/alternates", `"../../../../outside/.git/o\142jects"`+"\n")
		},
		"link to objects": func(b *bench, outside string) {
			require.NoError(t, os.RemoveAll(filepath.Join(b.top, ".git/objects")))
			require.NoError(t, os.Symlink(filepath.Join(outside, ".git/objects"), filepath.Join(b.top, ".git/objects")))
		},
		"link to a branch": func(b *bench, outside string) {
			require.NoError(t, os.Symlink(filepath.Join(outside, ".git/refs/heads/main"), filepath.Join(b.top, ".git/refs/heads/out")))
		},
		"link to a log": func(b *bench, outside string) {
			require.NoError(t, os.Remove(filepath.Join(b.top, ".git/logs/HEAD")))
			require.NoError(t, os.Symlink(filepath.Join(outside, "victim"), filepath.Join(b.top, ".git/logs/HEAD")))
		},
		"link to the message": func(b *bench, outside string) {
			require.NoError(t, os.RemoveAll(filepath.Join(b.top, ".git/COMMIT_EDITMSG")))
			require.NoError(t, os.Symlink(filepath.Join(outside, "not there yet"), filepath.Join(b.top, ".git/COMMIT_EDITMSG")))
		},
		"include": func(b *bench, outside string) { b.git("config", "include.path", filepath.Join(outside, "victim")) },
		"include of an include": func(b *bench, outside string) {
			b.git("config", "include.path", "../more")
			b.put("more", "[includeIf \"gitdir:**\"]\n\tpath = "+filepath.Join(outside, ".git/config")+"\n")
		},
		"include of a home": func(b *bench, outside string) { b.git("config", "includeIf.onbranch:main.path", "~/.gitconfig") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newPlace(t)
			b.git("init", "-q", "-b", "main")
			b.commit("a.txt", "a\n")
			outside := filepath.Join(b.base, "outside")
			require.NoError(t, os.Mkdir(outside, 0o755))
			b.gitIn(outside, "init", "-q", "-b", "main")
			b.put(filepath.Join(outside, "a.txt"), "the secret\n")
			b.gitIn(outside, "add", ".")
			b.gitIn(outside, "commit", "-qm", "the secret")
			victim := b.put(filepath.Join(outside, "victim"), "[user]\n\tname = victim\n")
			lead(b, outside)
			b.start(Options{})
			b.put("a.txt", "changed\n")
			for _, c := range everyCall[:23] {
				a := b.call(c[0], c[1:]...)
				require.Equal(t, protocol.OutcomeFailed, a.Outcome, "git %q: %s", c, a.text)
				assert.Equal(t, "workspace_boundary", a.Error.Reason, "git %q: %s", c, a.text)
				assert.NotContains(t, a.text, "the secret")
			}
			content, err := os.ReadFile(victim)
			require.NoError(t, err)
			assert.Equal(t, "[user]\n\tname = victim\n", string(content))
			assert.NoFileExists(t, filepath.Join(outside, "not there yet"))
		})
	}
}

// A root that holds the other part makes it a repository to be used.
func TestAlternatesInsideTheRoots(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	first := b.top
	b.gitIn(b.base, "clone", "-q", "--shared", b.top, "second")
	b.top = filepath.Join(b.base, "second")
	b.start(Options{})
	b.refused("workspace_boundary", "log")
	b.start(Options{}, capabilities.Root{Path: b.top}, capabilities.Root{Path: first, ReadOnly: true})
	assert.Contains(t, b.works("log", "--oneline"), "change a.txt")
	b.put("a.txt", "b\n")
	b.works("commit", "-am", "x")
}

// What the repository names outside is not read, and what it names inside is.
func TestFilesOfTheConfiguration(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	list := b.put(filepath.Join(b.base, "list"), "Leaked <leaked@example.com> <author@example.com>\n*.log\n")
	for _, key := range []string{"mailmap.file", "core.excludesFile", "core.attributesFile", "blame.ignoreRevsFile", "diff.orderFile", "commit.template"} {
		b.git("config", key, list)
	}
	b.put("x.log", "")
	assert.NotContains(t, b.works("log"), "Leaked")
	assert.Contains(t, b.works("status", "-s"), "x.log")
	b.works("blame", "a.txt")
	b.works("diff", "HEAD")
	b.put("mine", "*.log\n")
	b.git("config", "core.excludesFile", "mine")
	assert.NotContains(t, b.works("status", "-s"), "x.log")
}

func TestConfigurationWithoutEnd(t *testing.T) {
	b := newBench(t, Options{})
	var text strings.Builder
	for i := range maxSettings + 1 {
		fmt.Fprintf(&text, "[filter \"%d\"]\n\tclean = false\n", i)
	}
	config, err := os.ReadFile(filepath.Join(b.top, ".git/config"))
	require.NoError(t, err)
	b.put(".git/config", string(config)+text.String())
	assert.Contains(t, b.refused("forbidden", "status"), "no more than 2000 can be kept from it")
	b.put(".git/config", string(config)+"[broken\n")
	assert.Contains(t, b.refused("internal_error", "status"), "bad config line")
}
