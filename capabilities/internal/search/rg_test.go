package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/capabilities"
)

// ripgrep answers as our engine does: the rules of several levels, hidden names, binary files,
// long lines, links, names that are no text.
func TestGrepAsRipgrep(t *testing.T) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		t.Skip("rg is not there")
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	base := corpus(t, random)
	w := workspace(t, base)
	for _, c := range []struct {
		pattern string
		args    []string
	}{
		{"needle", nil}, {"needle", []string{"-i"}}, {"needle|thread", nil}, {`n\w+le`, nil}, {`^\s*needle`, nil}, {`needle$`, nil}, {"[a-z]+[0-9]+", nil},
		{"ärger", []string{"-i"}}, {"Kelvin", []string{"-i"}}, {"STOP", []string{"-i"}}, {"(foo|bar|baz|qux|quux)+", nil}, {"x{3,}", nil}, {"^$", nil}, {"needle", []string{"--hidden"}},
		{"needle", []string{"--no-ignore"}}, {"needle", []string{"--hidden", "--no-ignore"}}, {"zzzz", nil}, {"e", nil}, {`needle\n[a-z]`, []string{"-U"}}, {`needle[a-z \r\n]{1,30}thread`, []string{"-U"}},
		{`[^a-z]needle`, []string{"-i"}},
	} {
		has := func(arg string) bool { return slices.Contains(c.args, arg) }
		args := append([]string{"--no-config", "--no-require-git", "--no-ignore-global", "--no-messages", "--no-heading", "-n", "--column", "-0", "--color=never", "--crlf"}, c.args...)
		if !has("--no-ignore") {
			args = append(args, "-g", "!.git")
		}
		out := run(t, base, nil, rg, append(args, "-e", c.pattern, "--", ".")...)
		for _, path := range []string{".", "a", "a/b"} {
			t.Run(fmt.Sprint(c.pattern, c.args, path), func(t *testing.T) {
				found := grep(t, w, GrepOptions{Pattern: c.pattern, Path: path, IgnoreCase: has("-i"), Multiline: has("-U"), Hidden: has("--hidden"), NoIgnore: has("--no-ignore"), MaxLine: 1 << 20})
				var ours []string
				for _, f := range found.Files {
					for _, r := range f.Rows {
						for i, line := range strings.Split(r.Text, "\n") {
							column := r.Column
							if i > 0 {
								column = 0
							}
							ours = append(ours, fmt.Sprintf("%s:%d:%d:%s", f.Path, r.Line+i, column, line))
						}
					}
				}
				var theirs []string
				for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n"), "\n") {
					name, rest, ok := strings.Cut(line, "\x00")
					// Of rules in the directories above its argument it gets those with a slash wrong.
					// Now and then it shows the first line of a binary file.
					if !ok || strings.HasSuffix(name, ".bin") || path != "." && !strings.HasPrefix(name, "./"+path+"/") {
						continue
					}
					parts := strings.SplitN(rest, ":", 3)
					text := strings.TrimSuffix(strings.ToValidUTF8(parts[2], "\uFFFD"), "\r")
					theirs = append(theirs, fmt.Sprintf("%s:%s:%s:%s", capabilities.QuoteName(filepath.Clean(name)), parts[0], parts[1], text))
				}
				if has("-U") { // for the lines of one match they tell columns of their own
					for _, all := range [][]string{ours, theirs} {
						for i := range all {
							p := strings.SplitN(all[i], ":", 4)
							all[i] = p[0] + ":" + p[1] + ":" + p[3]
						}
					}
				}
				assert.True(t, slices.IsSortedFunc(found.Files, func(a, b File) int {
					return comparePaths(capabilities.UnquoteName(a.Path), capabilities.UnquoteName(b.Path))
				}))
				slices.Sort(ours)
				slices.Sort(theirs)
				if !slices.Equal(theirs, ours) {
					t.Errorf("seed %d; only rg:\n%s\nonly we:\n%s", seed, without(theirs, ours), without(ours, theirs))
				}
			})
		}
	}
}

// corpus makes a tree that has something of everything.
func corpus(t testing.TB, random *rand.Rand) string {
	base := tree(t)
	words := []string{"needle", "Needle", "NEEDLE", "thread", "foo", "bar", "baz", "x", "xxx", "ärger", "ÄRGER", "kelvin", "\u212aelvin", "stop", "\u017ftop", "a1", "b22", "\t", "  ", "caf\xe9", "-", "é"}
	dirs := []string{"", "a/", "a/b/", "a/b/c/", "build/", "a/build/", ".hid/", "a/.hid/", "out/keep/", "d\xfe/", "a b/"}
	exts := []string{".go", ".txt", ".log", "", ".min.js", ".bin"}
	for i := range 150 {
		name := dirs[random.IntN(len(dirs))] + []string{"f", "g", ".h", "n\xff", "$'q'"}[random.IntN(5)] + fmt.Sprint(random.IntN(40)) + exts[random.IntN(len(exts))]
		var b bytes.Buffer
		for range random.IntN(30) {
			for range random.IntN(6) {
				b.WriteString(words[random.IntN(len(words))])
				b.WriteByte(' ')
			}
			switch random.IntN(12) {
			case 0:
				b.WriteString("\r")
			case 1:
				b.WriteString(words[random.IntN(len(words))])
			case 2:
				if i%20 == 0 && !strings.HasSuffix(name, ".bin") {
					b.WriteString(strings.Repeat("long ", 40_000))
				}
			}
			b.WriteByte('\n')
		}
		if strings.HasSuffix(name, ".bin") {
			b.WriteByte(0)
		}
		if random.IntN(3) == 0 {
			b.WriteString("needle")
		}
		grow(t, base, name+"="+b.String())
	}
	grow(t, base, ".gitignore=*.log\n/build/\nout/*\n!out/keep/\n!a/b/*.log\n", "a/.gitignore=f1*\n!f11*\nb/c/\n", "a/b/.ignore=!c/\ng2*\n", ".ignore=*.min.js\n", "a/b/c/.gitignore=*.txt\n",
		".git/info/exclude=g3*\n", ".git/f=needle\n", "d\xfe/.gitignore=*.go\n", "link -> a", "a/up -> ..", "broken -> /nope", "out/file=needle\n", "a/b/le.txt=\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\n\x00")
	return base
}

// without lists what a has and b has not, shortened.
func without(a, b []string) string {
	var out strings.Builder
	for _, s := range a {
		if !slices.Contains(b, s) {
			fmt.Fprintf(&out, "\t%.100q\n", s)
		}
	}
	return out.String()
}
