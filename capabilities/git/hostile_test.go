//go:build unix

package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trick is a way of a repository to have a program run. In its texts PROGRAM is the program, NAME the trick's name,
// under which there is a changed file NAME.txt.
type trick struct {
	name, config, attributes string
	files                    map[string]string // from the top of the work tree
	hooks                    string            // where it has hooks
	control                  []string          // makes a git run the program that is not kept from it; nil where this version has no such way
}

var commitControl = []string{"commit", "-qam", "control"}

// filterTricks keep commit -a from working, so they have a repository of their own.
var filterTricks = []trick{
	{name: "clean", config: "[filter \"NAME\"]\n\tclean = PROGRAM\n", attributes: "filter=NAME", control: []string{"diff"}},
	{name: "odd", config: "[filter \"a=b \\\"c\\\".d\"]\n\tclean = PROGRAM\n\trequired\n", attributes: "filter=a=b", control: nil},
	{name: "equals", config: "[filter \"a=b\"]\n\tclean = PROGRAM\n\trequired\n", attributes: "filter=a=b", control: []string{"diff"}},
	{name: "dotted", config: "[filter.Dotted]\n\tCLEAN = PROGRAM\n", attributes: "filter=dotted", control: []string{"diff"}},
	{name: "nameless", config: "[filter \"\"]\n\tclean = PROGRAM\n\tsmudge = PROGRAM\n\trequired = true\n", attributes: "filter=", control: []string{"diff"}},
	{name: "namelessdot", config: "[FILTER.]\n\tCLEAN = PROGRAM\n", attributes: "filter=", control: []string{"diff"}},
	{name: "macro", config: "[filter \"\"]\n\tprocess = PROGRAM\n", attributes: "mine\n[attr]mine filter=", control: []string{"diff"}},
	{name: "dots", config: "[filter \"..\"]\n\tclean = PROGRAM\n[filter \".clean\"]\n\tclean = PROGRAM\n", attributes: "filter=..", control: []string{"diff"}},
	{name: "valueless", config: "[filter \"NAME\"]\n\trequired\n\tClean = PROGRAM\n", attributes: "filter=NAME", control: []string{"diff"}},
	{name: "process", config: "[filter \"NAME\"]\n\tprocess = PROGRAM\n", attributes: "filter=NAME", control: []string{"diff"}},
	{name: "required", config: "[filter \"NAME\"]\n\tclean = PROGRAM\n\tsmudge = PROGRAM\n\trequired = true\n", attributes: "filter=NAME", control: []string{"diff"}},
	{name: "include", config: "[include]\n\tpath = ../more\n", attributes: "filter=NAME", control: []string{"diff"},
		files: map[string]string{"more": "[include]\n\tpath = deeper\n", "deeper": "[filter \"NAME\"]\n\tclean = PROGRAM\n"}},
	{name: "includeif", config: "[includeIf \"gitdir:**\"]\n\tpath = ../conditional\n", attributes: "filter=NAME", control: []string{"diff"},
		files: map[string]string{"conditional": "[filter \"NAME\"]\n\tclean = PROGRAM\n"}},
}

var otherTricks = []trick{
	{name: "fsmonitor", config: "[core]\n\tfsmonitor = PROGRAM\n", control: []string{"status"}},
	{name: "worktree", config: "[extensions]\n\tworktreeConfig = true\n", control: []string{"status"},
		files: map[string]string{".git/config.worktree": "[core]\n\tfsmonitor = PROGRAM\n"}},
	{name: "external", config: "[diff]\n\texternal = PROGRAM\n", control: []string{"diff"}},
	{name: "driver", config: "[diff \"NAME\"]\n\tcommand = PROGRAM\n", attributes: "diff=NAME", control: []string{"diff"}},
	{name: "namelessdriver", config: "[diff \"\"]\n\tcommand = PROGRAM\n", attributes: "diff=", control: []string{"diff"}},
	{name: "textconv", config: "[diff \"NAME\"]\n\ttextconv = PROGRAM\n\tcachetextconv = true\n", attributes: "diff=NAME", control: []string{"blame", "textconv.txt"}},
	{name: "hooks", hooks: ".git/hooks", control: commitControl},
	{name: "hookspath", config: "[core]\n\thooksPath = mine\n", hooks: "mine", control: commitControl},
	{name: "gpg", config: "[gpg]\n\tprogram = PROGRAM\n[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[format]\n\tpretty = %G?%GS\n", control: commitControl},
	{name: "sshsign", config: "[gpg]\n\tformat = ssh\n[gpg \"ssh\"]\n\tprogram = PROGRAM\n\tdefaultKeyCommand = PROGRAM\n[commit]\n\tgpgSign = true\n", control: commitControl},
	{name: "pager", config: "[core]\n\tpager = PROGRAM\n[pager]\n\tlog = PROGRAM\n\tstatus = PROGRAM\n\tdiff = PROGRAM\n\tshow = PROGRAM\n\tblame = PROGRAM\n"},
	{name: "editor", config: "[core]\n\teditor = PROGRAM\n[sequence]\n\teditor = PROGRAM\n[commit]\n\tverbose = true\n"},
	{name: "alias", config: "[alias]\n\tstatus = !PROGRAM\n\tlog = !PROGRAM\n\tbranches = !PROGRAM\n\tfor-each-ref = !PROGRAM\n"},
	{name: "network", config: "[core]\n\tsshCommand = PROGRAM\n\tgitProxy = PROGRAM\n\taskPass = PROGRAM\n[credential]\n\thelper = !PROGRAM\n[credential \"https://a.example\"]\n\thelper = !PROGRAM\n"},
	{name: "merge", config: "[merge \"NAME\"]\n\tdriver = PROGRAM\n[log]\n\tdiffMerges = remerge\n", attributes: "merge=NAME", control: []string{"log", "-p", "--diff-merges=on", "-1", "merge"}},
	{name: "trailer", config: "[trailer \"NAME\"]\n\tcommand = PROGRAM\n\tcmd = PROGRAM\n\tifmissing = add\n"},
	{name: "hookconfig", config: "[hook \"NAME\"]\n\tcommand = PROGRAM\n\tevent = pre-commit\n\tevent = post-index-change\n"},
	{name: "gc", config: "[gc]\n\tauto = 1\n\trecentObjectsHook = PROGRAM\n[maintenance]\n\tauto = true\n"},
	{name: "promisor", config: "[remote \"origin\"]\n\turl = ext::PROGRAM\n\tpromisor = true\n\tuploadpack = PROGRAM\n[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n",
		control: []string{"show", missing}},
	{name: "others", config: "[core]\n\tvirtualFilesystem = PROGRAM\n\talternateRefsCommand = PROGRAM\n[interactive]\n\tdiffFilter = PROGRAM\n[uploadpack]\n\tpackObjectsHook = PROGRAM\n[submodule]\n\trecurse = true\n[man \"NAME\"]\n\tcmd = PROGRAM\n[browser \"NAME\"]\n\tcmd = PROGRAM\n"},
}

const missing = "1234567890123456789012345678901234567890"

// everyCall is each subcommand in the ways that make git look at most.
var everyCall = [][]string{
	{"status"}, {"status", "-s", "-b", "-uall", "--ignored"}, {"log", "-p", "-m", "--format=%G? %GS %GK %h"}, {"log", "-1", "-L", "1,1:clean.txt"},
	{"log", "-p", "--diff-merges=on", "-1", "merge"}, {"diff"}, {"diff", "--cached"}, {"diff", "HEAD~1", "--word-diff"}, {"show", "merge", "--stat", "-m"}, {"show", "HEAD:a.txt"}, {"show", missing},
	{"blame", "textconv.txt"}, {"blame", "-M", "HEAD", "--", "a.txt"}, {"branches", "-a"}, {"changed_files"}, {"changed_files", "HEAD~1..HEAD"},
	{"commit", "-m", "from the index", "--allow-empty"}, {"commit", "-m", "path", "--", "a.txt"}, {"commit", "--amend", "--no-edit", "--allow-empty"},
	{"add", "clean.txt"}, {"commit", "-m", "all", "-a", "--allow-empty"}, {"add", "-A"}, {"ls-files", "-m"}, {"rev-parse", "HEAD"}, {"describe", "--always"},
}

var hookNames = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction", "pre-auto-gc", "post-rewrite", "post-checkout", "fsmonitor-watchman"}

// hostile makes a repository with a history, a merge in conflict and changes, for tricks to be played in.
func (b *bench) hostile(tricks []trick) {
	b.t.Helper()
	write := func(text string) {
		for _, t := range tricks {
			b.put(t.name+".txt", "a\nb\n"+text)
		}
		for _, name := range []string{"a.txt", "clean.txt", "textconv.txt"} {
			b.put(name, "a\nb\n"+text)
		}
	}
	b.init()
	write("c\n")
	b.git("add", ".")
	b.git("commit", "-qm", "first")
	for _, branch := range []string{"side", "main"} {
		b.git("checkout", "-q", "-B", branch, map[string]string{"side": "main", "main": "main"}[branch])
		write(branch + "\n")
		b.git("commit", "-qam", branch)
	}
	b.git("merge", "-q", "-X", "ours", "-m", "merge", "side")
	b.git("tag", "merge")
	write("last\n")
	b.git("commit", "-qam", "last")
	write("changed\n")
}

// play adds a trick to the repository at dir and returns what is there when its program was run.
func (b *bench) play(dir string, t trick) (sentinel string) {
	b.t.Helper()
	program, sentinel := b.script(t.name)
	real := strings.NewReplacer("PROGRAM", program, "NAME", t.name).Replace
	add := func(name, text string) {
		path := filepath.Join(dir, name)
		old, _ := os.ReadFile(path)
		b.put(path, string(old)+text)
	}
	add(".git/config", real(t.config))
	if t.attributes != "" {
		add(".git/info/attributes", t.name+".txt "+real(t.attributes)+"\n")
	}
	for name, text := range t.files {
		add(name, real(text))
	}
	if t.hooks != "" {
		content, err := os.ReadFile(program)
		require.NoError(b.t, err)
		for _, name := range hookNames {
			require.NoError(b.t, os.Chmod(b.put(filepath.Join(dir, t.hooks, name), string(content)), 0o755))
		}
	}
	return sentinel
}

// Nothing that a repository says is run, by any subcommand.
func TestHostileRepositories(t *testing.T) {
	made := newPlace(t)
	made.hostile(slices.Concat(filterTricks, otherTricks))
	for name, tricks := range map[string][]trick{"filters": filterTricks, "others": otherTricks} {
		t.Run(name, func(t *testing.T) {
			b := newPlace(t)
			require.NoError(t, os.CopyFS(b.top, os.DirFS(made.top)))
			for _, trick := range tricks {
				if trick.control == nil {
					continue
				}
				// Each for itself, with a git that is not kept from it.
				other := filepath.Join(b.base, "control-"+trick.name)
				require.NoError(t, os.CopyFS(other, os.DirFS(b.top)))
				sentinel := b.play(other, trick)
				b.gitMayFail(other, trick.control...)
				require.FileExists(t, sentinel, "the trick %s works where nothing is done against it", trick.name)
			}
			sentinels := map[string]string{}
			for _, trick := range tricks {
				sentinels[trick.name] = b.play(b.top, trick)
				_ = os.Remove(sentinels[trick.name])
			}
			b.start(Options{Subcommands: Extra()})
			for _, c := range everyCall {
				a := b.call(c[0], c[1:]...)
				for name, sentinel := range sentinels {
					if _, err := os.Lstat(sentinel); err == nil {
						t.Fatalf("the program of %s was run by git %q: %s", name, c, a.text)
					}
				}
				if a.Error != nil {
					assert.NotEqual(t, "internal_error", a.Error.Reason, "git %q: %s", c, a.text)
				}
				if name == "others" && c[0] != "show" {
					assert.Nil(t, a.Error, "git %q: %s", c, a.text)
				}
			}
		})
	}
}

// nested makes a repository with a commit in the work tree.
func (b *bench) nested(name string) (dir string) {
	dir = filepath.Join(b.top, name)
	require.NoError(b.t, os.Mkdir(dir, 0o755))
	b.gitIn(dir, "init", "-q", "-b", "main")
	b.put(filepath.Join(dir, "f.txt"), "f\n")
	b.gitIn(dir, "add", ".")
	b.gitIn(dir, "commit", "-qm", name)
	return dir
}

// The tricks of a submodule, where git starts a git of its own.
func TestHostileSubmodule(t *testing.T) {
	b := newBench(t, Options{Subcommands: []string{"add"}})
	b.commit("a.txt", "a\n")
	sub := b.nested("sub")
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
	for _, call := range [][]string{{"status", "-s"}, {"diff"}, {"changed_files"}, {"commit", "-am", "x"}} {
		b.refused("workspace_boundary", call[0], call[1:]...) // they say which commit the submodule is at
	}
	absent(t, sentinel)
	b.gitMayFail(b.top, "status")
	assert.FileExists(t, sentinel, "the trick works with a git that is not kept from it")
}

// Nothing outside is read to find out which commit a submodule is at, nor one that add would make a submodule.
func TestSubmodulesThatLeadOut(t *testing.T) {
	for name, lead := range map[string]func(b *bench, sub, secret string){
		"packed branches": func(b *bench, sub, secret string) {
			require.NoError(t, os.RemoveAll(filepath.Join(sub, ".git", "refs", "heads")))
			require.NoError(t, os.Mkdir(filepath.Join(sub, ".git", "refs", "heads"), 0o755))
			require.NoError(t, os.Symlink(secret, filepath.Join(sub, ".git", "packed-refs")))
		},
		"a repository beside it": func(b *bench, sub, secret string) {
			require.NoError(t, os.Rename(filepath.Join(sub, ".git"), filepath.Join(b.top, "o")))
			b.put("sub/.git", "gitdir: ../o\n")
			require.NoError(t, os.RemoveAll(filepath.Join(b.top, "o", "refs", "heads")))
			require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(b.top, "o", "refs", "heads")))
		},
		"whose branches it has": func(b *bench, sub, secret string) {
			b.put("sub/.git/commondir", "../../c\n")
			for _, dir := range []string{"refs", "objects"} {
				require.NoError(t, os.MkdirAll(filepath.Join(b.top, "c", dir), 0o755))
			}
			require.NoError(t, os.Symlink(secret, filepath.Join(b.top, "c", "packed-refs")))
		},
	} {
		for _, known := range []bool{true, false} {
			b := newBench(t, Options{Subcommands: []string{"add"}})
			b.commit("a.txt", "a\n")
			secret := filepath.Join(b.base, "outside", "secret")
			b.put(secret, "the secret\n")
			sub := b.nested("sub")
			if known {
				b.git("add", "sub")
				b.git("commit", "-qm", "with a submodule")
				b.works("status")
			}
			lead(b, sub, secret)
			b.put("a.txt", "b\n")
			if known {
				for _, call := range [][]string{{"status"}, {"diff", "HEAD"}, {"changed_files"}, {"commit", "-am", "x"}} {
					assert.NotContains(t, b.refused("workspace_boundary", call[0], call[1:]...), "the secret", name)
				}
			} else {
				b.works("status")
				b.works("diff")
			}
			b.refused("workspace_boundary", "add", "-A")
			b.refused("workspace_boundary", "add", "--", "sub")
		}
	}
}

// A repository of which a part is outside the roots is not used.
func TestRepositoriesThatLeadOut(t *testing.T) {
	template := newPlace(t)
	template.init()
	template.commit("a.txt", "a\n")
	outside := filepath.Join(template.base, "outside")
	require.NoError(t, os.Mkdir(outside, 0o755))
	template.gitIn(outside, "init", "-q", "-b", "main")
	template.put(filepath.Join(outside, "a.txt"), "the secret\n")
	template.put(filepath.Join(outside, "victim"), "[user]\n\tname = victim\n")
	template.gitIn(outside, "add", ".")
	template.gitIn(outside, "commit", "-qm", "the secret")
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
			outside := filepath.Join(b.base, "outside")
			require.NoError(t, os.CopyFS(b.top, os.DirFS(template.top)))
			require.NoError(t, os.CopyFS(outside, os.DirFS(filepath.Join(template.base, "outside"))))
			victim := filepath.Join(outside, "victim")
			lead(b, outside)
			b.start(Options{})
			b.put("a.txt", "changed\n")
			for _, c := range [][]string{{"status"}, {"show", "main:a.txt"}, {"commit", "-am", "x"}} {
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
	b.put(filepath.Join(b.base, "list"), "Leaked <leaked@example.com> <author@example.com>\n*.log\n")
	b.put("x.log", "")
	config, err := os.ReadFile(filepath.Join(b.top, ".git/config"))
	require.NoError(t, err)
	b.sh("", "ln -s . lnk; ln -s .. .git/up")
	for _, list := range []string{filepath.Join(b.base, "list"), "../list", "lnk/../list", b.top + "/lnk/../list", ".git/up/../list", "pipe"} {
		if list == "pipe" {
			b.sh("", "rm .git/up; mkfifo pipe")
		}
		text := string(config)
		for _, key := range []string{"mailmap.file", "core.excludesFile", "core.attributesFile", "blame.ignoreRevsFile", "diff.orderFile", "commit.template"} {
			section, name, _ := strings.Cut(key, ".")
			text += "[" + section + "]\n\t" + name + " = " + list + "\n"
		}
		b.put(".git/config", text)
		assert.NotContains(t, b.works("log"), "Leaked", list)
		assert.Contains(t, b.works("status", "-s"), "x.log", list)
		b.works("blame", "a.txt")
		b.works("diff", "HEAD")
	}
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
	assert.Contains(t, b.refused("conflict", "status"), "bad config line")
}
