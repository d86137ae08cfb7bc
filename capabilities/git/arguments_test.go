//go:build unix

package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refusedArguments are what leads out of the repository, starts a program, or needs somebody to answer.
var refusedArguments = []struct {
	reason string
	call   []string
}{
	{"workspace_boundary", []string{"diff", "--output=OUT"}},
	{"workspace_boundary", []string{"diff", "--output", "OUT"}},
	{"workspace_boundary", []string{"log", "--output=OUT"}},
	{"workspace_boundary", []string{"show", "-p", "--output=OUT", "HEAD"}},
	{"invalid_params", []string{"diff", "--outp=OUT"}}, // git would take it for --output
	{"invalid_params", []string{"log", "--ou", "OUT"}},
	{"workspace_boundary", []string{"diff", "--no-index", "a.txt", "SECRET"}},
	{"invalid_params", []string{"diff", "--no-ind", "a.txt", "SECRET"}},
	{"workspace_boundary", []string{"diff", "a.txt", "SECRET"}},
	{"workspace_boundary", []string{"diff", "--", "a.txt", "SECRET"}},
	{"workspace_boundary", []string{"diff", "../secret", "a.txt"}},
	{"workspace_boundary", []string{"diff", "a.txt", "sub/../../secret"}},
	{"workspace_boundary", []string{"diff", "link/secret", "a.txt"}},
	{"workspace_boundary", []string{"diff", "other/f", "other/g"}}, // inside the roots, and in no repository
	{"workspace_boundary", []string{"log", "--", "/etc/passwd"}},
	{"workspace_boundary", []string{"status", "../.."}},
	{"workspace_boundary", []string{"status", ":(top)../.."}},
	{"workspace_boundary", []string{"diff", "--", ":!/etc"}},
	{"workspace_boundary", []string{"log", "--", ":^../secret", "a.txt"}},
	{"workspace_boundary", []string{"blame", "--contents=SECRET", "a.txt"}},
	{"workspace_boundary", []string{"blame", "--contents", "SECRET", "a.txt"}},
	{"workspace_boundary", []string{"blame", "-S", "SECRET", "a.txt"}},
	{"workspace_boundary", []string{"blame", "-wS", "SECRET", "a.txt"}},
	{"workspace_boundary", []string{"blame", "--ignore-revs-file=SECRET", "a.txt"}},
	{"workspace_boundary", []string{"blame", "link/secret"}},
	{"workspace_boundary", []string{"blame", "HEAD", "--", "link/secret"}},
	{"workspace_boundary", []string{"log", "-L", "1,2:../secret"}},
	{"workspace_boundary", []string{"log", "-L1,2:/etc/passwd"}},
	{"workspace_boundary", []string{"diff", "--relative=../.."}},
	{"workspace_boundary", []string{"diff", "-OSECRET"}},
	{"workspace_boundary", []string{"log", "-O", "SECRET"}},
	{"workspace_boundary", []string{"commit", "-F", "SECRET"}},
	{"workspace_boundary", []string{"commit", "-aFSECRET"}},
	{"workspace_boundary", []string{"commit", "--file=SECRET"}},
	{"workspace_boundary", []string{"commit", "--template=SECRET", "-m", "x"}},
	{"workspace_boundary", []string{"commit", "--pathspec-from-file=SECRET", "-m", "x"}},
	{"workspace_boundary", []string{"commit", "-m", "x", "--", "../secret"}},
	{"workspace_boundary", []string{"log", "-C", "../other"}},
	{"workspace_boundary", []string{"status", "-C", "sub"}},
	{"invalid_params", []string{"log", "$'--output=OUT'"}}, // written out it is an option
	{"invalid_params", []string{"diff", `$'\x2d-output=OUT'`}},
	{"invalid_params", []string{"log", `$'\55OOUT'`}},
	{"invalid_params", []string{"show", "$'-'"}},
	{"invalid_params", []string{"show", "$''"}},
	{"invalid_params", []string{"show", `$'a\0b'`}},
	{"invalid_params", []string{"show", "--", `$'a\0b'`}},
	{"invalid_params", []string{"log", `-L1,1:$'a\0b'`}},
	{"workspace_boundary", []string{"log", `-L1,2:$'..\x2fsecret'`}},
	{"workspace_boundary", []string{"diff", "--", `"..\057secret"`}},
	{"workspace_boundary", []string{"diff", "a.txt", `"..\057secret"`}},
	{"workspace_boundary", []string{"status", "--git-dir=../x"}},
	{"workspace_boundary", []string{"log", "--work-tree", ".."}},
	{"workspace_boundary", []string{"log", "--exec-path=."}},
	{"forbidden", []string{"log", "-c", "core.pager=x"}},
	{"forbidden", []string{"status", "--config-env=a=b"}},
	{"forbidden", []string{"diff", "--ext-diff"}},
	{"forbidden", []string{"show", "--textconv", "HEAD:a.txt"}},
	{"forbidden", []string{"log", "--show-signature"}},
	{"forbidden", []string{"show", "--remerge-diff"}},
	{"forbidden", []string{"log", "-p", "--diff-merges=remerge"}},
	{"forbidden", []string{"log", "-p", "--diff-merges", "r"}},
	{"forbidden", []string{"diff", "--submodule=diff"}},
	{"forbidden", []string{"status", "--ignore-submodules=none"}},
	{"forbidden", []string{"log", "--stdin"}},
	{"forbidden", []string{"log", "--help"}},
	{"forbidden", []string{"status", "-h"}},
	{"forbidden", []string{"status", "-z"}},
	{"forbidden", []string{"log", "--paginate"}},
	{"forbidden", []string{"commit", "-S", "-m", "x"}},
	{"forbidden", []string{"commit", "--gpg-sign=key", "-m", "x"}},
	{"forbidden", []string{"commit", "-n", "-m", "x"}},
	{"forbidden", []string{"commit", "--no-verify", "-m", "x"}},
	{"forbidden", []string{"commit", "-p", "-m", "x"}},
	{"forbidden", []string{"commit", "--interactive"}},
	{"forbidden", []string{"commit", "-e", "-m", "x"}},
	{"forbidden", []string{"commit", "--trailer=x", "-m", "x"}},
	{"forbidden", []string{"commit", "-C", "HEAD"}},
	{"forbidden", []string{"commit", "--reuse-message=HEAD"}},
	{"forbidden", []string{"commit", "-c", "HEAD"}},
	{"forbidden", []string{"diff", "-"}},
	{"invalid_params", []string{"commit", "--squash=HEAD"}},
	{"invalid_params", []string{"log", "--graph=x"}},
	{"invalid_params", []string{"log", "--n=3"}},
	{"invalid_params", []string{"log", "--max-count"}},
	{"invalid_params", []string{"log", "-S"}},
	{"invalid_params", []string{"log", "--upload-pack=x"}},
	{"invalid_params", []string{"branches", "--format=%(if)"}},
	{"invalid_params", []string{"branches", "-D", "main"}},
	{"forbidden", []string{"changed_files", "--ext-diff"}},
	{"invalid_params", []string{"status", "-sv"}},
	{"invalid_params", []string{"log", ""}},
	{"invalid_params", []string{"log", "a\x00b"}},
	{"invalid_params", []string{"log", "--", "a\x00b"}},
	{"invalid_params", []string{"log", "--grep=a\x00b"}},
}

func TestRefusedArguments(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	secret := b.put(filepath.Join(b.base, "secret"), "the secret\n")
	out := filepath.Join(b.base, "out")
	require.NoError(t, os.Symlink(b.base, filepath.Join(b.top, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(b.top, "sub"), 0o755))
	for _, name := range []string{"ws2/f", "ws2/g"} {
		b.put(filepath.Join(b.base, name), "f\n")
	}
	b.start(Options{}, capabilities.Root{Path: b.top}, capabilities.Root{Path: filepath.Join(b.base, "ws2")})
	b.put("a.txt", "b\n")
	for _, c := range refusedArguments {
		var args []string
		for _, arg := range c.call[1:] {
			args = append(args, strings.NewReplacer("OUT", out, "SECRET", secret, "other/", filepath.Join(b.base, "ws2")+"/").Replace(arg))
		}
		a := b.call(c.call[0], args...)
		if assert.Equal(t, protocol.OutcomeFailed, a.Outcome, "git %q: %s", c.call, a.text) {
			assert.Equal(t, c.reason, a.Error.Reason, "git %q: %s", c.call, a.text)
		}
		assert.NotContains(t, a.text, "the secret")
		assert.NoFileExists(t, out)
	}
	assert.Equal(t, "1\n", b.git("rev-list", "--count", "HEAD"), "nothing was committed")
}

func TestRefusalsSayWhatIsAllowed(t *testing.T) {
	b := newBench(t, Options{})
	message := b.refused("invalid_params", "log", "--one-line")
	assert.Contains(t, message, "git log: --one-line is refused: it is not on the list of what is allowed. Did you mean --oneline? Allowed are: -n --max-count=, ")
	message = b.refused("workspace_boundary", "diff", "--output=/tmp/x")
	assert.Contains(t, message, "git diff: --output=/tmp/x is refused: it writes a file outside git. Allowed are: ")
	message = b.refused("workspace_boundary", "status", "-C", "sub")
	assert.Contains(t, message, "-C is refused: the directory is the workspace, and cannot be changed; paths are given after --")
}

// What is written for git can be read in one way only.
func TestArgumentsAreWrittenAnew(t *testing.T) {
	named := commands()
	for _, c := range []struct {
		call []string
		want []string
	}{
		{[]string{"commit", "-am", "text", "a b"}, []string{"-a", "--message=text", "a b"}},
		{[]string{"commit", "-amtext"}, []string{"-a", "--message=text"}},
		{[]string{"commit", "-m", "--output=x"}, []string{"--message=--output=x"}},
		{[]string{"commit", "--message", "--", "--", "-x"}, []string{"--message=--", "--", "-x"}},
		{[]string{"commit", "--amend"}, []string{"--amend", "--no-edit"}},
		{[]string{"log", "-5", "-n3", "-n", "2", "--skip", "1"}, []string{"-5", "--max-count=3", "--max-count=2", "--skip=1"}},
		{[]string{"log", "-S", "--output=x", "-G", "a", "-pU5"}, []string{"-S--output=x", "-Ga", "-p", "--unified=5"}},
		{[]string{"log", "--stat", "HEAD", "--stat=80"}, []string{"--stat", "HEAD", "--stat=80"}},
		{[]string{"diff", "-M", "-M50%", "--find-renames"}, []string{"-M", "-M50%", "--find-renames"}},
		{[]string{"status", "-sbuno"}, []string{"-s", "-b", "-uno"}},
		{[]string{"log", "--grep", "", `$'caf\xe9'`, "--", `$'\t'`}, []string{"--grep=", "caf\xe9", "--", "\t"}},
	} {
		a, err := take(named[c.call[0]], c.call[1:])
		require.NoError(t, err, "%q", c.call)
		assert.Equal(t, c.want, a.argv()[1+len(a.command.fixed):], "%q", c.call)
	}
}

// Whatever git knows as an option and is not allowed here is refused, also shortened.
func TestNoOptionSlipsThrough(t *testing.T) {
	dangerous := []string{"output", "no-index", "ext-diff", "textconv", "contents", "show-signature", "remerge-diff", "gpg-sign", "file", "template",
		"pathspec-from-file", "exec-path", "git-dir", "work-tree", "config-env", "ignore-revs-file", "submodule", "recurse-submodules", "edit", "trailer", "no-verify", "stdin", "help"}
	for _, c := range commands() {
		for _, name := range dangerous {
			for n := 2; n <= len(name); n++ {
				short := name[:n]
				if o := c.options.named[short]; o != nil {
					assert.NotEqual(t, name, o.name, "git %s allows --%s", c.name, name)
					continue
				}
				_, err := take(c, []string{"--" + short + "=x"})
				assert.Error(t, err, "git %s --%s", c.name, short)
				_, err = take(c, []string{"--" + short, "x"})
				assert.Error(t, err, "git %s --%s", c.name, short)
			}
		}
	}
}

func FuzzArguments(f *testing.F) {
	for _, c := range refusedArguments {
		f.Add(c.call[0], strings.Join(c.call[1:], "\n"))
	}
	named := commands()
	f.Fuzz(func(t *testing.T, name, text string) {
		c := named[name]
		if c == nil {
			return
		}
		a, err := take(c, strings.Split(text, "\n"))
		if err != nil {
			return
		}
		// What was written is taken again, and is the same.
		again, err := take(c, a.argv()[1+len(c.fixed):])
		if err != nil {
			if strings.Contains(text, "$'") { // names are written out, and may look like something else then
				return
			}
			t.Fatalf("%q became %q, which is refused: %v", text, a.argv(), err)
		}
		if got, want := strings.Join(again.argv(), "\n"), strings.Join(a.argv(), "\n"); got != want && !strings.Contains(text, "$'") {
			t.Fatalf("%q is not %q", got, want)
		}
	})
}
