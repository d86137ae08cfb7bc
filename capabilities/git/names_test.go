//go:build unix

package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnquoteC(t *testing.T) {
	for text, want := range map[string]string{
		`"caf\351"`: "caf\xe9", `"a\tb\n\"\\"`: "a\tb\n\"\\", `"\a\b\f\r\v"`: "\a\b\f\r\v", `"a b"`: "a b",
		``: "", `"`: "", `""`: "", `"a`: "", `a"`: "", `"a"b"`: "", `"\"`: "", `"\x41"`: "", `"\000"`: "", `"\18"`: "", `"\400"`: "", `"\1"`: "", "\"a\x00\"": "",
	} {
		got, ok := unquoteC(text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, want != "", ok, text)
	}
}

// What a result shows as the name of a file is taken for that file.
func TestNamesComeBack(t *testing.T) {
	b := newBench(t, Options{Subcommands: Extra()})
	names := []string{"[br]", "*star", ":(top)x", ":colon", "b", "star", "x", "caf\xe9", "é", "tab\tx", `q"uote`, `back\slash`, "a b", " lead", "a -> b", "$'x'", `"x"`, "dir[1]/f?", "dir1/f1", "#h"}
	b.commit("a.txt", "a\n")
	for _, name := range names {
		b.put(name, "text of "+strings.ToValidUTF8(name, "")+"\n")
	}
	file := func(a answer) []string {
		var paths []string
		for _, f := range a.fields["files"].([]any) {
			paths = append(paths, f.(obj)["path"].(string))
		}
		return paths
	}
	shown := file(b.call("changed_files"))
	require.Len(t, shown, len(names))
	check := func(name string) {
		t.Helper()
		assert.Equal(t, []string{name}, file(b.call("changed_files", "--", name)), "%s", name)
	}
	for _, name := range shown {
		check(name)
		if name != "a -> b" { // which keeps its quotes, since in a status it would look like a renaming
			assert.Equal(t, "?? "+name+"\n\n", b.works("status", "-s", "--", name))
		}
	}
	b.works("add", append([]string{"--"}, shown...)...)
	assert.ElementsMatch(t, append(shown, "a.txt"), strings.Split(strings.TrimSuffix(b.works("ls-files"), "\n\n"), "\n"))
	b.works("commit", "-m", "odd")
	for _, name := range []string{"[br]", ":(top)x", "$'caf\\xe9'", "$'tab\\tx'", `back\slash`, "$'$\\'x\\''", "dir[1]/f?"} {
		assert.Len(t, lines(b.works("blame", "-s", "--", name)), 1, "%s", name)
		log := []string{"log", "--format=", "--name-only", "--", name}
		require.Len(t, lines(b.works(log[0], log[1:]...)), 1, "%s", name)
		back := strings.TrimSuffix(strings.TrimPrefix(b.works(log[0], log[1:]...), "\n"), "\n\n")
		assert.Equal(t, []string{"odd"}, lines(b.works("log", "--format=%s", "--", back)), "%s", back)
	}
	assert.Contains(t, b.works("log", "--format=%s", "--", `"a -> b"`), "odd")
	assert.Contains(t, b.works("log", "--format=%s", `"tab\tx"`), "odd")
	assert.Contains(t, b.works("diff", "--name-only", "HEAD~1"), "\n$'caf\\xe9'\n")
	assert.Contains(t, b.works("diff", "--name-only", "HEAD~1"), "\né\n")
	assert.Contains(t, b.works("log", "--name-only", "-1"), `"caf\351"`)
	assert.Contains(t, b.works("show", "--", "$'caf\\xe9'"), "\n+++ \"b/caf\\351\"\n@@ -0,0 +1 @@\n+text of caf\n")
	assert.Contains(t, b.works("log", "-L1,1:"+`$'caf\xe9'`), "+text of caf")
	assert.Contains(t, b.works("show", `HEAD:$'caf\xe9'`), "text of caf")
	assert.Contains(t, b.works("log", "--format=%s", "dir[1]"), "odd")
	b.put("a.txt", "b\n")
	b.works("commit", "-m", "one", ":(top)a.txt")

	for _, name := range []string{"[br]", "*star", ":(top)x", "dir[1]/f?"} {
		require.NoError(t, os.Remove(filepath.Join(b.top, name)))
		check(name)
		b.git("--literal-pathspecs", "rm", "-q", "--cached", "--", name)
		check(name)
		assert.Equal(t, []string{"odd"}, lines(b.works("log", "--format=%s", "--", name)))
	}
	assert.Len(t, file(b.call("changed_files", "--", "*")), 4, "a pattern is one still")
	b.put("new\xff", "")
	assert.Contains(t, b.works("status"), "\t$'new\\xff'\n")
}
