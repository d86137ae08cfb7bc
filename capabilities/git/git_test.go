//go:build unix

package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return New(Options{LoginEnv: map[string]string{}}) })
}

func TestLook(t *testing.T) {
	b := newBench(t, Options{})
	b.history(60)
	assert.Len(t, lines(b.works("log", "--oneline")), 60, "there is no pager (case 33)")
	assert.Len(t, lines(b.works("log", "-5", "--format=%s")), 5)
	assert.Len(t, lines(b.works("log", "-n", "3", "--format=%h", "HEAD~1", "--", "notes.txt")), 3)
	assert.Contains(t, b.works("show", "--stat"), "notes.txt | 2 +-")
	assert.Contains(t, b.works("show", "HEAD~2:notes.txt"), "line 57")
	assert.Contains(t, b.works("blame", "notes.txt"), "line 59")

	b.put("notes.txt", "changed\n")
	b.put("new.txt", "")
	assert.Contains(t, b.works("diff"), "-line 59\n+changed")
	assert.Contains(t, b.works("diff", "-U0", "HEAD~1", "--", "notes.txt"), "-line 58\n+changed")
	assert.Contains(t, b.works("diff", "notes.txt"), "+changed")
	assert.Contains(t, b.works("status", "-sb"), "## main\n M notes.txt\n?? new.txt")
	assert.Contains(t, b.works("status"), "On branch main")
	a := b.call("diff", "--stat")
	assert.Equal(t, 0.0, a.fields["exit_code"])
	assert.Contains(t, a.fields["stdout"], "notes.txt | 2 +-")
}

func TestAFailureIsAFailure(t *testing.T) {
	b := newBench(t, Options{})
	assert.Contains(t, b.refused("not_found", "log"), "does not have any commits yet")
	assert.Contains(t, b.works("status"), "No commits yet", "a repository without a commit")
	b.commit("a.txt", "a\n")
	a := b.call("log", "nowhere")
	assert.Equal(t, protocol.OutcomeFailed, a.Outcome)
	assert.Equal(t, "not_found", a.Error.Reason)
	assert.Contains(t, a.Error.Message, "ambiguous argument 'nowhere': unknown revision")
	assert.Equal(t, 128.0, a.fields["exit_code"])
	assert.Equal(t, 1, strings.Count(a.text, "unknown revision"), "said once: %s", a.text)
	b.refused("not_found", "show", "deadbeef")
	b.refused("not_found", "blame", "missing.txt")
	b.refused("not_found", "diff", "A..B")
	assert.Contains(t, b.refused("invalid_params", "log", "--diff-filter=~"), "unknown change class")
}

// Whose mistake it is, is said; no mistake is an error of the executor.
func TestMistakes(t *testing.T) {
	b := newBench(t, Options{Subcommands: Extra()})
	b.commit("a.txt", "a\n")
	b.put("new.txt", "")
	b.put("sub/f", "f\n")
	b.sh("", "git init -q sub; git -C sub add f; git -C sub commit -qm x; git add sub 2>/dev/null")
	for _, c := range []struct {
		reason, words string
		call          []string
	}{
		{"not_found", "no upstream", []string{"log", "@{u}"}},
		{"not_found", "no upstream", []string{"rev-parse", "@{upstream}"}},
		{"not_found", "no match", []string{"log", "-L:x:a.txt"}},
		{"not_found", "no match", []string{"blame", "-L:x", "a.txt"}},
		{"not_found", "has only 1 line", []string{"blame", "-L5,9", "a.txt"}},
		{"not_found", "exists on disk, but not in", []string{"show", "main:new.txt"}},
		{"not_found", "does not exist", []string{"show", "main:nothing"}},
		{"not_found", "exists on disk, but not in", []string{"show", ":new.txt"}},
		{"not_found", "", []string{"show", ":2:a.txt"}},
		{"not_found", "", []string{"diff", "--find-object=zz"}},
		{"not_found", "", []string{"log", "main@{5 parsecs}~99999"}},
		{"not_found", "", []string{"describe", "--exact-match"}},
		{"not_found", "", []string{"blame", "."}},
		{"invalid_params", "-L argument not", []string{"log", "-L1"}},
		{"invalid_params", "", []string{"log", "-1000000000000000"}},
		{"invalid_params", "", []string{"diff", "-Ux"}},
		{"invalid_params", "", []string{"diff", "-M1x0"}},
		{"invalid_params", "", []string{"log", "--follow", "--", "a.txt", "b.txt"}},
		{"invalid_params", "", []string{"log", "--graph", "--reverse"}},
		{"invalid_params", "", []string{"log", "--", ":(nope)x"}},
		{"invalid_params", "", []string{"log", "--grep=["}},
		{"invalid_params", "", []string{"log", "-G["}},
		{"invalid_params", "", []string{"log", "--date=nope"}},
		{"invalid_params", "", []string{"log", "--format=nope"}},
		{"invalid_params", "", []string{"commit", "--allow-empty", "-m", "x", "--author=nobody at all"}},
		{"invalid_params", "", []string{"commit", "--allow-empty", "-m", "x", "--date=nope"}},
		{"invalid_params", "", []string{"commit", "--allow-empty", "-m", " "}},
		{"invalid_params", "is in submodule", []string{"add", "sub/f"}},
	} {
		a := b.call(c.call[0], c.call[1:]...)
		if assert.NotNil(t, a.Error, "git %q: %s", c.call, a.text) {
			assert.Equal(t, c.reason, a.Error.Reason, "git %q: %s", c.call, a.Error.Message)
			assert.Contains(t, a.Error.Message, c.words)
		}
	}
	b.works("log", "-C", "--find-copies-harder", "-p")
	b.works("diff", "-C50%", "HEAD")
	b.works("blame", "-C", "-C", "a.txt")
	b.put(".git/index", "junk")
	b.refused("conflict", "status")
	b.refused("conflict", "commit", "-am", "x")
}

func TestNoRepository(t *testing.T) {
	b := newPlace(t)
	b.gitIn(b.base, "init", "-q") // the parent is one, outside the roots
	b.start(Options{})
	for _, c := range commands() {
		if !c.extra {
			args := []string{}
			if c.name == "commit" {
				args = []string{"-m", "x"}
			}
			assert.Contains(t, b.refused("not_found", c.name, args...), "is in no git repository")
		}
	}
}

func TestAParentInsideTheRoots(t *testing.T) {
	b := newPlace(t)
	b.init()
	b.commit("sub/a.txt", "a\n")
	b.commit("top.txt", "a\n")
	whole := b.top
	b.top = filepath.Join(whole, "sub")
	b.start(Options{}, capabilities.Root{Path: whole})
	b.put("a.txt", "b\n")
	b.put(filepath.Join(whole, "top.txt"), "b\n")
	assert.Contains(t, b.works("diff", "--", "a.txt"), "+++ b/sub/a.txt")
	assert.Contains(t, b.works("changed_files"), "modified  a.txt\nmodified  ../top.txt")
	assert.Contains(t, b.works("diff", "--", "../top.txt"), "+b")

	b.start(Options{}) // now the root is sub alone
	b.refused("not_found", "status")
}

func TestCommit(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	assert.Contains(t, b.refused("conflict", "commit", "-m", "empty"), "nothing to commit, working tree clean")
	b.put("a.txt", "b\n")
	b.put("b.txt", "b\n")
	a := b.call("commit", "-am", "second\n\nwhy", "--author=Some One <one@example.com>")
	require.Equal(t, protocol.OutcomeSucceeded, a.Outcome, a.text)
	assert.Contains(t, a.text, "second")
	assert.Equal(t, strings.TrimSpace(b.git("rev-parse", "HEAD")), a.fields["commit"])
	assert.Equal(t, "Some One\nA U Thor\nsecond\n\nwhy", strings.TrimSpace(b.git("log", "-1", "--format=%an%n%cn%n%B")))
	assert.Equal(t, "?? b.txt\n", b.git("status", "--short"))
	b.git("add", "b.txt")
	b.works("commit", "-m", "third", "-m", "more", "--", "b.txt")
	b.works("commit", "--amend")
	b.works("commit", "--amend", "-m", "third, better")
	assert.Equal(t, "3\n", b.git("rev-list", "--count", "HEAD"))
	assert.Contains(t, b.refused("invalid_params", "commit"), "give it with -m")
	assert.Contains(t, b.refused("invalid_params", "commit", "-a"), "give it with -m")
	b.refused("invalid_params", "commit", "-m")
	b.works("commit", "--allow-empty", "-m", "-starts with a dash")
}

func TestCommitNeedsAName(t *testing.T) {
	b := newBench(t, Options{})
	b.put(filepath.Join(b.env["HOME"], ".gitconfig"), "[user]\n\tuseConfigOnly = true\n")
	b.put("a.txt", "a\n")
	b.git("add", "a.txt")
	assert.Contains(t, b.refused("conflict", "commit", "-m", "x"), "Nobody's name is configured: user.name and user.email")

	b.env["GIT_AUTHOR_NAME"], b.env["GIT_AUTHOR_EMAIL"] = "Env", "env@example.com"
	b.env["GIT_COMMITTER_NAME"], b.env["GIT_COMMITTER_EMAIL"] = "Env", "env@example.com"
	b.env["GIT_DIR"] = b.base // dropped
	b.start(Options{})
	b.works("commit", "-m", "x")
}

func TestReadOnlyRoot(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	b.put("a.txt", "b\n")
	b.start(Options{}, capabilities.Root{Path: b.top, ReadOnly: true})
	b.refused("workspace_read_only", "commit", "-am", "x")
	assert.Contains(t, b.works("status", "-s"), " M a.txt")
	assert.Equal(t, "1\n", b.git("rev-list", "--count", "HEAD"))
}

func TestBranches(t *testing.T) {
	b := newBench(t, Options{})
	a := b.call("branches")
	assert.Equal(t, obj{"current": "main", "commit": "", "detached": false, "branches": []any{}, "count": 0.0, "truncated": false}, a.fields)
	assert.Contains(t, a.text, "main has no commit yet")

	b.commit("a.txt", "a\n")
	b.git("branch", "feature/x")
	b.gitIn(b.base, "clone", "-q", b.top, "other")
	b.git("remote", "add", "origin", filepath.Join(b.base, "other"))
	b.git("fetch", "-q", "origin")
	b.git("branch", "-q", "--set-upstream-to", "origin/main", "main")
	b.commit("b.txt", "b\n")
	a = b.call("branches")
	list := a.fields["branches"].([]any)
	require.Len(t, list, 2)
	main := list[1].(obj)
	assert.Equal(t, "main", main["name"])
	assert.Equal(t, true, main["current"])
	assert.Equal(t, "origin/main", main["upstream"])
	assert.Equal(t, 1.0, main["ahead"])
	assert.Equal(t, "change b.txt", main["subject"])
	assert.Equal(t, strings.TrimSpace(b.git("rev-parse", "HEAD")), main["commit"])
	assert.Contains(t, a.text, "* main "+main["commit"].(string)[:10]+" [origin/main: ahead 1, behind 0] change b.txt")
	assert.Contains(t, b.works("branches", "-a"), "  origin/main ")
	assert.NotContains(t, b.works("branches", "-r"), "* main")
	assert.NotContains(t, b.works("branches", "feat*", "feature/*"), "main")
	b.git("checkout", "-q", "--detach")
	assert.Contains(t, b.works("branches"), "HEAD is detached at ")
}

func TestChangedFiles(t *testing.T) {
	b := newBench(t, Options{})
	assert.Contains(t, b.works("changed_files"), "[no changed files]")
	odd := "new\nline \xff\t'q' é.txt"
	for _, name := range []string{"mod.txt", "del.txt", "ren.txt", "both.txt", "-dash", " space "} {
		b.put(name, name+strings.Repeat("\nsome text", 9)+"\n")
	}
	b.git("add", ".")
	b.git("commit", "-qm", "first")
	b.put("mod.txt", "changed\n")
	require.NoError(t, os.Remove(filepath.Join(b.top, "del.txt")))
	b.git("mv", "ren.txt", "to.txt")
	b.put("both.txt", "one\n")
	b.git("add", "both.txt")
	b.put("both.txt", "two\n")
	b.put("-dash", "x")
	b.put(" space ", "x")
	b.put("dir/"+odd, "x")
	a := b.call("changed_files")
	got := map[string]string{}
	for _, f := range a.fields["files"].([]any) {
		f := f.(obj)
		got[f["path"].(string)] = strings.TrimSpace(fmt.Sprint(f["status"], " ", f["from"], " ", f["staged"], " ", f["unstaged"]))
	}
	quoted := `$'dir/new\nline \xff\t\'q\' é.txt'`
	assert.Equal(t, map[string]string{
		"mod.txt": "modified <nil> <nil> true", "del.txt": "deleted <nil> <nil> true", "to.txt": "renamed ren.txt true <nil>",
		"both.txt": "modified <nil> true true", "-dash": "modified <nil> <nil> true", " space ": "modified <nil> <nil> true",
		quoted: "untracked <nil> <nil> <nil>",
	}, got)
	assert.Equal(t, 7.0, a.fields["count"])
	assert.Contains(t, a.text, "renamed  ren.txt -> to.txt  (staged)")
	assert.Contains(t, a.text, "modified  both.txt  (staged, and changed since)")

	assert.Equal(t, []string{"modified  both.txt  (staged)", "renamed  ren.txt -> to.txt  (staged)"}, lines(b.works("changed_files", "--staged")))
	b.git("add", "-A")
	b.git("commit", "-qm", "second")
	assert.Contains(t, b.works("changed_files", "HEAD~1..HEAD"), "added  "+quoted)
	assert.Equal(t, "added  "+quoted, lines(b.works("changed_files", "HEAD~1", "HEAD", "--", quoted))[0], "what is shown is accepted")
	assert.Equal(t, []string{"modified  -dash"}, lines(b.works("changed_files", "HEAD~1", "--", "-dash")))
	assert.Contains(t, b.works("log", "--oneline", "--", quoted), "second")
	assert.Contains(t, b.works("log", "--oneline", quoted), "second")
}

// A file that was added and is gone again never was in HEAD.
func TestChangedFilesThatAreGoneAgain(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	b.put("added.txt", "some other text\n")
	b.put("kept.txt", "kept\n")
	b.git("mv", "a.txt", "moved.txt")
	b.git("add", "added.txt", "kept.txt")
	require.NoError(t, os.Remove(filepath.Join(b.top, "added.txt")))
	require.NoError(t, os.Remove(filepath.Join(b.top, "moved.txt")))
	assert.Equal(t, []string{"added  added.txt  (staged, and deleted since)", "added  kept.txt  (staged)", "renamed  a.txt -> moved.txt  (staged, and deleted since)"},
		lines(b.works("changed_files")))
	for _, args := range [][]string{{"--staged"}, {"--cached", "HEAD"}} {
		a := b.call("changed_files", args...)
		for _, f := range a.fields["files"].([]any) {
			assert.Equal(t, true, f.(obj)["staged"], "%v", f)
		}
	}
	b.git("commit", "-qm", "x")
	assert.Contains(t, b.works("changed_files", "--staged", "HEAD~1"), "added  kept.txt\n")
}

func TestLongOutput(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("big.txt", strings.Repeat("a line of the file\n", 20_000)+"the end\n")
	a := b.call("show")
	assert.Equal(t, true, a.fields["truncated"])
	assert.Contains(t, a.text, "+the end")
	assert.Contains(t, a.text, "bytes of stdout omitted; the whole output: .executor/spill/")
	whole, err := os.ReadFile(filepath.Join(b.top, a.fields["output_file"].(string)))
	require.NoError(t, err)
	assert.Greater(t, len(whole), 380_000)
	assert.Contains(t, b.works("changed_files"), "[no changed files]", "the executor's own files are ignored")
}

func TestExtraSubcommands(t *testing.T) {
	b := newBench(t, Options{Subcommands: []string{"add", "ls-files"}})
	b.put("a.txt", "a\n")
	b.works("add", "a.txt")
	b.works("commit", "-m", "x")
	assert.Equal(t, "a.txt", strings.TrimSpace(b.works("ls-files")))
	assert.Contains(t, b.refused("forbidden", "rev-parse", "HEAD"), "Allowed are status, log, diff, show, blame, branches, changed_files, commit, add, ls-files")
	assert.Contains(t, b.refused("invalid_params", "statsu"), "Did you mean status?")
	assert.Contains(t, b.refused("invalid_params", "push"), "There are status")
	for _, bad := range []string{"", "-c", "-C", "--git-dir=x", "log --oneline", "-c core.pager=x log", "!sh", "config", "clone", "filter-branch"} {
		b.refused("invalid_params", bad)
	}
	assert.ErrorContains(t, capabilities.NewRegistry(nil).Install(New(Options{Subcommands: []string{"push"}})), `git subcommand "push" cannot be allowed; there are add, `)
}

func TestOtherKinds(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		b := newBench(t, Options{})
		b.commit("a.txt", "a\n")
		b.gitIn(b.base, "clone", "-q", "--bare", b.top, "bare.git")
		b.top = filepath.Join(b.base, "bare.git")
		b.start(Options{})
		assert.Contains(t, b.works("log", "--oneline"), "change a.txt")
		assert.Contains(t, b.works("branches"), "* main")
		assert.Contains(t, b.refused("conflict", "status"), "must be run in a work tree")
		b.refused("conflict", "changed_files")
		b.refused("conflict", "commit", "-m", "x")
	})
	t.Run("work tree", func(t *testing.T) {
		b := newBench(t, Options{})
		b.commit("a.txt", "a\n")
		main := b.top
		b.git("worktree", "add", "-q", "-b", "side", filepath.Join(b.base, "side"))
		b.top = filepath.Join(b.base, "side")
		b.start(Options{})
		message := b.refused("workspace_boundary", "status")
		assert.Contains(t, message, filepath.Join(main, ".git"))
		b.start(Options{}, capabilities.Root{Path: b.top}, capabilities.Root{Path: main})
		b.put("a.txt", "b\n")
		b.works("commit", "-am", "on the side")
		assert.Contains(t, b.works("branches"), "* side")
		b.start(Options{}, capabilities.Root{Path: b.top}, capabilities.Root{Path: main, ReadOnly: true})
		b.refused("workspace_read_only", "commit", "-am", "x", "--allow-empty")
		b.works("log")
	})
}
