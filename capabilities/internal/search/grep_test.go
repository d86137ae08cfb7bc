package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// grep searches what must be searchable.
func grep(t testing.TB, w *capabilities.Workspace, o GrepOptions) Lines {
	t.Helper()
	found, err := Grep(t.Context(), w, o)
	require.NoError(t, err)
	return found
}

// shown writes what was found as ripgrep does: path:line:column:text and path-line-text.
func shown(l Lines) string {
	var b strings.Builder
	for _, f := range l.Files {
		if f.Rows == nil {
			fmt.Fprintf(&b, "%s:%d ", f.Path, f.Matches)
		}
		for _, r := range f.Rows {
			if r.Column == 0 {
				fmt.Fprintf(&b, "%s-%d-%s ", f.Path, r.Line, r.Text)
			} else {
				fmt.Fprintf(&b, "%s:%d:%d:%s ", f.Path, r.Line, r.Column, r.Text)
			}
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}

func TestGrep(t *testing.T) {
	base := tree(t, "a.go=one\ntwo needle\nthree\nfour\nneedle needle\nsix", "sub/b.txt=Needle\r\nNEEDLE end\r\n", "sub/.h=needle\n", "empty=",
		"link -> a.go", "dirlink -> sub", "k=\u212aelvin \u017ftart\n")
	w := workspace(t, base)
	for _, c := range []struct {
		o    GrepOptions
		want string
	}{
		{GrepOptions{Pattern: "needle"}, "a.go:2:5:two needle a.go:5:1:needle needle"},
		{GrepOptions{Pattern: "needle", IgnoreCase: true}, "a.go:2:5:two needle a.go:5:1:needle needle sub/b.txt:1:1:Needle sub/b.txt:2:1:NEEDLE end"},
		{GrepOptions{Pattern: "(?i)NEEDLE$"}, "a.go:2:5:two needle a.go:5:8:needle needle sub/b.txt:1:1:Needle"},
		{GrepOptions{Pattern: "needle", Hidden: true, Path: "sub"}, "sub/.h:1:1:needle"},
		{GrepOptions{Pattern: "needle", Path: "sub/.h"}, "sub/.h:1:1:needle"},
		{GrepOptions{Pattern: "needle", Glob: ".h"}, "sub/.h:1:1:needle"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "*.txt", Mode: ModeCount}, "sub/b.txt:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "sub/*.{txt,go}", Mode: ModeCount}, "sub/b.txt:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "sub/", Mode: ModeCount}, "sub/b.txt:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!*.txt", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!sub/**", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!sub", Mode: ModeCount}, "a.go:2"}, // a directory of that name, too
		{GrepOptions{Pattern: "(?i)needle", Glob: "!sub/", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!**/", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!/sub", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!s[tu]b", Mode: ModeCount}, "a.go:2"},
		{GrepOptions{Pattern: "(?i)needle", Glob: "!su", Mode: ModeCount}, "a.go:2 sub/b.txt:2"},
		{GrepOptions{Pattern: "(?i)needle", Mode: ModeCount}, "a.go:2 sub/b.txt:2"},
		{GrepOptions{Pattern: "(?i)needle", Mode: ModeFiles, Limit: 1}, "a.go:1"},
		{GrepOptions{Pattern: "needle", Context: 1}, "a.go-1-one a.go:2:5:two needle a.go-3-three a.go-4-four a.go:5:1:needle needle a.go-6-six"},
		{GrepOptions{Pattern: "needle", Context: 1, Limit: 1}, "a.go-1-one a.go:2:5:two needle a.go-3-three"},
		{GrepOptions{Pattern: "six|one", Context: 1}, "a.go:1:1:one a.go-2-two needle a.go-5-needle needle a.go:6:1:six"},
		{GrepOptions{Pattern: "^$", Path: "a.go"}, ""},
		{GrepOptions{Pattern: "^", Path: "sub/b.txt"}, "sub/b.txt:1:1:Needle sub/b.txt:2:1:NEEDLE end"},
		{GrepOptions{Pattern: "end$"}, "sub/b.txt:2:8:NEEDLE end"},
		{GrepOptions{Pattern: `end\r$`}, "sub/b.txt:2:8:NEEDLE end"},
		{GrepOptions{Pattern: `o needle\nthr`, Multiline: true}, "a.go:2:3:two needle\nthree"},
		{GrepOptions{Pattern: `^needle[\s\S]*$`, Multiline: true}, "a.go:5:1:needle needle\nsix"},
		{GrepOptions{Pattern: `e$`, Multiline: true, Path: "a.go"}, "a.go:1:3:one a.go:2:10:two needle a.go:3:5:three a.go:5:13:needle needle"},
		{GrepOptions{Pattern: `\A\w`, Multiline: true, Path: "a.go"}, "a.go:1:1:one"},
		{GrepOptions{Pattern: `two`, Multiline: true, Context: 1}, "a.go-1-one a.go:2:1:two needle a.go-3-three"},
		{GrepOptions{Pattern: `\bkelvin\b`, IgnoreCase: true}, ""}, // the boundary knows ASCII only
		{GrepOptions{Pattern: `kelvin`, IgnoreCase: true}, "k:1:1:\u212aelvin \u017ftart"},
		{GrepOptions{Pattern: `START`, IgnoreCase: true}, "k:1:10:\u212aelvin \u017ftart"},
	} {
		t.Run(fmt.Sprintf("%+v", c.o), func(t *testing.T) {
			assert.Equal(t, c.want, shown(grep(t, w, c.o)))
		})
	}
	all := grep(t, w, GrepOptions{Pattern: "needle", Limit: 1, IgnoreCase: true})
	assert.Equal(t, 1, all.Shown)
	assert.Equal(t, 4, all.Matches)
	assert.Equal(t, 2, all.Matched)
	assert.Equal(t, 4, all.Searched)
	assert.Equal(t, Skipped{Hidden: 1, Links: 2}, all.Skipped)
}

// What is no regular expression is an error with the reason, never "no matches" (X4).
func TestGrepRefuses(t *testing.T) {
	base := tree(t, "f", "d/")
	w := workspace(t, base)
	for _, c := range []struct {
		o    GrepOptions
		want string
	}{
		{GrepOptions{}, "pattern: must not be empty"},
		{GrepOptions{Pattern: "foo(?=bar)"}, "pattern: not a regular expression (RE2): invalid or unsupported Perl syntax: `(?=`; RE2 has no look-around"},
		{GrepOptions{Pattern: "func ("}, "missing closing ): `func (`; for the text itself write `func \\(`"},
		{GrepOptions{Pattern: `(?P<x>a)\1`}, "invalid escape sequence: `\\1`; RE2 has no back-references"},
		{GrepOptions{Pattern: "(?<!a)b"}, "RE2 has no look-around"},
		{GrepOptions{Pattern: "(?P<x>a)(?P=x)"}, "RE2 has no back-references"},
		{GrepOptions{Pattern: `(?P<x>a)\k<x>`}, "RE2 has no back-references"},
		{GrepOptions{Pattern: "(?P<x"}, "a group with a name is (?P<name>...)"},
		{GrepOptions{Pattern: "(?x)a"}, "RE2 knows the flags i, m, s and U"},
		{GrepOptions{Pattern: "a++"}, "no possessive repetition"},
		{GrepOptions{Pattern: "a{2,1}"}, "the first number is larger than the second"},
		{GrepOptions{Pattern: "a{1001}"}, "invalid repeat count: `{1001}`; RE2 repeats at most 1,000 times"},
		{GrepOptions{Pattern: `a\nb`}, "say multiline"},
		{GrepOptions{Pattern: "a\xff"}, "invalid UTF-8"},
		{GrepOptions{Pattern: strings.Repeat("(", 2000) + strings.Repeat(")", 2000)}, "use a shorter pattern"},
		{GrepOptions{Pattern: strings.Repeat("a", maxPattern+1)}, "is longer than"},
		{GrepOptions{Pattern: "a", Glob: "[a"}, "glob: has a [ without a ]"},
		{GrepOptions{Pattern: "a", Path: "none"}, "none does not exist"},
		{GrepOptions{Pattern: "a", Path: "f/x"}, "not a directory"},
		{GrepOptions{Pattern: "a", Path: ".."}, "outside the workspace"},
	} {
		_, err := Grep(t.Context(), w, c.o)
		var e *protocol.Error
		require.ErrorAs(t, err, &e, "%+v", c.o)
		assert.Contains(t, e.Message, c.want)
	}
}

// One minified file takes neither the result nor the sight of the others; a cut line is
// flagged, and cut between characters (case 75).
func TestGrepLongLines(t *testing.T) {
	long := strings.Repeat("é", 160_000) + "stats" + strings.Repeat("€", 100_000)
	w := workspace(t, tree(t, "three.min.js="+long, "a.go=stats\n", "edge="+strings.Repeat("x", 401)))
	found := grep(t, w, GrepOptions{Pattern: "stats"})
	require.Len(t, found.Files, 2)
	row := found.Files[1].Rows[0]
	assert.True(t, row.Cut)
	assert.Equal(t, 320_001, row.Column)
	assert.Regexp(t, `^…é{40,50}stats€{90,110}…$`, row.Text)
	assert.Equal(t, 1, found.Cut)
	assert.Equal(t, 2, found.Shown)
	assert.Equal(t, found.Shown, found.Matches)
	edge := grep(t, w, GrepOptions{Pattern: "x$"}).Files[0].Rows[0]
	assert.Equal(t, Row{1, 401, "…" + strings.Repeat("x", 400), true}, edge)
}

// A NUL anywhere makes a file binary (case 72); byte order marks are understood.
func TestGrepEncodings(t *testing.T) {
	w := workspace(t, tree(t, "bin=word\n"+strings.Repeat("a", 300_000)+"\x00", "late="+strings.Repeat("word\n", 60_000)+"\x00", "latin=word caf\xe9\n",
		"bom=\xef\xbb\xbfword\n", "le=\xff\xfew\x00o\x00r\x00d\x00\n\x00", "be=\xfe\xff\x00w\x00o\x00r\x00d\x00\n", "odd=\xff\xfew"))
	for _, mode := range []Mode{ModeContent, ModeFiles, ModeCount} {
		found := grep(t, w, GrepOptions{Pattern: "^word", Mode: mode})
		assert.Equal(t, 2, found.Skipped.Binary, mode)
		assert.Equal(t, 5, found.Searched, mode)
		assert.Equal(t, 4, found.Matched, mode)
	}
	assert.Equal(t, "be:1:1:word bom:1:1:word latin:1:1:word caf\uFFFD le:1:1:word", shown(grep(t, w, GrepOptions{Pattern: "^word"})))
}

// Files that are larger than the buffer are searched in pieces, with their context.
func TestGrepLargeFile(t *testing.T) {
	var b strings.Builder
	for i := 1; b.Len() < 3*blockBytes; i++ {
		fmt.Fprintf(&b, "line %d%s\n", i, strings.Repeat("-", i%97))
	}
	text := b.String()
	w := workspace(t, tree(t, "big="+text))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, at := range []int{1, 4545, 4546, 4547, 4548, 4549, len(lines) - 1, len(lines)} {
		found := grep(t, w, GrepOptions{Pattern: fmt.Sprintf(`line %d\b`, at), Context: 3})
		require.Len(t, found.Files, 1)
		first := max(1, at-3)
		require.Len(t, found.Files[0].Rows, min(len(lines), at+3)-first+1)
		for i, r := range found.Files[0].Rows {
			assert.Equal(t, first+i, r.Line)
			assert.Equal(t, lines[first+i-1], r.Text)
			assert.Equal(t, r.Line == at, r.Column == 1)
		}
	}
	all := grep(t, w, GrepOptions{Pattern: `line \d+`})
	require.Len(t, all.Files[0].Rows, len(lines))
	for i, r := range all.Files[0].Rows {
		if r.Line != i+1 {
			require.Equal(t, i+1, r.Line)
		}
	}

	huge := strings.Repeat("ab", maxLineBytes/2+10) // longer than a line may be
	w = workspace(t, tree(t, "huge=x\n"+huge+"needle\nend needle"))
	found := grep(t, w, GrepOptions{Pattern: "needle"})
	assert.Equal(t, 2, found.Matches)
	assert.Positive(t, found.Long)
	assert.Equal(t, []int{2, 3}, []int{found.Files[0].Rows[0].Line, found.Files[0].Rows[1].Line})
	require.NoError(t, os.Truncate(filepath.Join(w.Dir(), "huge"), 0))
	grow(t, w.Dir(), "huge="+strings.Repeat("line\n", maxMultiline/5+1))
	assert.Equal(t, 1, grep(t, w, GrepOptions{Pattern: `needle\s`, Multiline: true}).Skipped.TooLong)
	assert.Zero(t, grep(t, w, GrepOptions{Pattern: "needle", Multiline: true}).Skipped, "no match of it is longer than a line")
}

// The first ones by path are shown whatever goroutine found them first, all are counted.
func TestGrepLimit(t *testing.T) {
	base := tree(t)
	for i := range 500 {
		grow(t, base, fmt.Sprintf("d%d/f%03d=x\nhit\nhit\n", i%10, i))
	}
	w := workspace(t, base)
	for limit, want := range map[int]string{1: "d0/f000:2", 3: "d0/f010:2", 100: "d0/f490:3", 101: "d1/f001:2"} {
		found := grep(t, w, GrepOptions{Pattern: "hit", Limit: limit})
		assert.Equal(t, []int{limit, 1000, 500, 500}, []int{found.Shown, found.Matches, found.Matched, found.Searched})
		last := found.Files[len(found.Files)-1]
		assert.Equal(t, want, fmt.Sprintf("%s:%d", last.Path, last.Rows[len(last.Rows)-1].Line))
	}
	found := grep(t, w, GrepOptions{Pattern: "hit", Limit: 60, Mode: ModeFiles})
	assert.Equal(t, 60, found.Shown)
	assert.Equal(t, "d1/f091", found.Files[59].Path)
	assert.Equal(t, 500, found.Matched)
}

// The same holds for a limit on the text: what is there are the first ones.
func TestGrepMaxText(t *testing.T) {
	base := tree(t)
	for i := range 300 {
		grow(t, base, fmt.Sprintf("d%d/f%03d=%s", i%10, i, strings.Repeat("hit hit\n", 100)))
	}
	w := workspace(t, base)
	for most, files := range map[int]int{1: 1, 500: 1, 900: 2, 9000: 13} {
		found := grep(t, w, GrepOptions{Pattern: "hit", Context: 2, MaxText: most})
		assert.Equal(t, files, len(found.Files), most)
		assert.Equal(t, "d0/f000", found.Files[0].Path)
		assert.Equal(t, []int{30_000, 300}, []int{found.Matches, found.Matched})
	}
	assert.Len(t, grep(t, w, GrepOptions{Pattern: "hit", Mode: ModeFiles, MaxText: 70}).Files, 10)
}

// A pattern that the automaton gives up on, over one long text, ends with its context.
func TestGrepCanceledInLongText(t *testing.T) {
	w := workspace(t, tree(t, "f="+strings.Repeat("ab", 1<<20)))
	ctx, cancel := context.WithCancel(t.Context())
	m, err := compile(`(a|b){300,400}c\nd`, false, true)
	require.NoError(t, err)
	f := m.finder(ctx)
	cancel()
	text, err := os.ReadFile(filepath.Join(w.Dir(), "f"))
	require.NoError(t, err)
	began := time.Now()
	assert.Nil(t, f.find(text))
	assert.Less(t, time.Since(began), 20*time.Second) // to its end it would be minutes
	f = m.finder(t.Context())
	assert.Equal(t, []int{100_000, 100_403}, f.find([]byte(strings.Repeat("-", 100_000)+strings.Repeat("ab", 200)+"c\nd")))
}

func TestGrepCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := workspace(t, tree(t, "a", "b/c"))
	for _, path := range []string{"", "a"} {
		_, err := Grep(ctx, w, GrepOptions{Pattern: "x", Path: path})
		require.ErrorIs(t, err, context.Canceled)
	}
}

// The workspace may lie under a hidden directory; what is named is meant; what is left out is
// counted (case 78). Rules hold without a repository, those above the root do not.
func TestHiddenAndIgnored(t *testing.T) {
	base := tree(t, ".gitignore=repo\n*.md", ".w/repo/.env.example=key", ".w/repo/.github/x.yml=key", ".w/repo/dist/y=key", ".w/repo/.gitignore=dist/\n*.log",
		".w/repo/a=key", ".w/repo/a.log=key", ".w/repo/a.md=key", ".w/repo/sub/b.log=key", ".w/repo/sub/.ignore=!b.log\nc\n", ".w/repo/sub/c=key", ".w/repo/.git/config=key")
	w := workspace(t, filepath.Join(base, ".w/repo"))
	files := func(o GrepOptions) string {
		o.Pattern, o.Mode = "key", ModeFiles
		return strings.ReplaceAll(shown(grep(t, w, o)), ":1", "")
	}
	assert.Equal(t, "a a.md sub/b.log", files(GrepOptions{}))
	assert.Equal(t, ".env.example .github/x.yml a a.md sub/b.log", files(GrepOptions{Hidden: true}))
	assert.Equal(t, "a a.log a.md dist/y sub/b.log sub/c", files(GrepOptions{NoIgnore: true}))
	assert.Equal(t, ".env.example .git/config .github/x.yml a a.log a.md dist/y sub/b.log sub/c", files(GrepOptions{NoIgnore: true, Hidden: true}))
	assert.Equal(t, "dist/y", files(GrepOptions{Path: "dist"}))
	assert.Equal(t, "a.log", files(GrepOptions{Path: "a.log"}))
	assert.Equal(t, ".github/x.yml", files(GrepOptions{Path: ".github"}))
	assert.Equal(t, ".git/config", files(GrepOptions{Path: ".git"}))
	assert.Equal(t, "sub/b.log", files(GrepOptions{Path: "sub"}))
	assert.Equal(t, ".github/x.yml", files(GrepOptions{Glob: ".github/**"}))
	s := grep(t, w, GrepOptions{Pattern: "key"}).Skipped
	assert.Equal(t, Skipped{Hidden: 4, Ignored: 3}, s) // .env.example .github .gitignore .ignore; dist a.log c

	// A repository inside begins anew.
	grow(t, base, ".w/repo/inner/.git/info/exclude=secret\n", ".w/repo/inner/x.log=key", ".w/repo/inner/secret=key")
	assert.Equal(t, "inner/x.log", files(GrepOptions{Path: "inner"}))
}

// What cannot be read is named and does not end the search (case 74).
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	base := tree(t, "locked/f=needle", "file=needle", "ok=needle")
	require.NoError(t, os.Chmod(base+"/locked", 0))
	require.NoError(t, os.Chmod(base+"/file", 0))
	t.Cleanup(func() { os.Chmod(base+"/locked", 0o755) })
	found := grep(t, workspace(t, base), GrepOptions{Pattern: "needle"})
	assert.Equal(t, "ok:1:1:needle", shown(found))
	assert.Equal(t, 2, found.Skipped.UnreadableCount)
	assert.Equal(t, []Unreadable{{"file", "permission denied"}, {"locked", "permission denied"}}, found.Skipped.Unreadable)
}
