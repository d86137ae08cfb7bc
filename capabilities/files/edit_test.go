package files

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func (b *bench) edit(input obj) (protocol.ToolOutput, editOutput) {
	b.t.Helper()
	out, err := b.call("edit", input)
	require.NoError(b.t, err)
	return out, out.Structured.(editOutput)
}

func edit(path, old, text string) obj {
	return obj{"path": path, "old_string": old, "new_string": text}
}

// Cases 50, 52, 54, 55, X2: every byte outside the match stays, and what is put in is
// taken literally.
func TestEditBytes(t *testing.T) {
	crlf := strings.Repeat("line\r\n", 500) + "here\r\n" + strings.Repeat("line\r\n", 499)
	for _, c := range []struct{ name, content, old, text, want string }{
		{"CRLF, several lines", "a\r\nb\r\nc\r\n", "a\nb", "A\nB", "A\r\nB\r\nc\r\n"},
		{"CRLF, more lines than before", "a\r\nb\r\nc\r\n", "b", "b1\nb2", "a\r\nb1\r\nb2\r\nc\r\n"},
		{"CRLF, ends given", "a\r\nb\r\n", "a\r\nb", "A\r\nB", "A\r\nB\r\n"},
		{"CRLF, ends changed on purpose", "a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"},
		{"CRLF, a newline first", "a\r\nb\r\n", "\nb", "\nB\nC", "a\r\nB\r\nC\r\n"},
		{"CRLF, long", crlf, "here", "there", strings.Replace(crlf, "here", "there", 1)},
		{"LF, new text with CRLF", "a\nb\n", "a", "x\r\ny", "x\r\ny\nb\n"},
		{"mixed, an LF line", "a\nb\r\nc\n", "a", "x\ny", "x\ny\nb\r\nc\n"},
		{"mixed, a CRLF line", "a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n"},
		{"mixed, over both", "a\nb\r\nc\n", "a\nb\nc", "A\nB\nC", "A\nB\r\nC\n"},
		{"mixed, one line less", "a\nb\r\nc\n", "b\nc", "bc", "a\nbc\n"},
		{"mixed, from the middle of a line", "a1\nb2\r\nc3\n", "2\nc", "-\n-\n-", "a1\nb-\r\n-\r\n-3\n"},
		{"at the end, CRLF before", "a\r\nb", "b", "b\nc", "a\r\nb\r\nc"},
		{"no newline at the end", "a\nb", "b", "c", "a\nc"},
		{"newline at the end taken", "a\nb\n", "b\n", "b", "a\nb"},
		{"mark kept", "\xef\xbb\xbfname=1\n", "name=1", "name=2", "\xef\xbb\xbfname=2\n"},
		{"no mark added", "name=1\n", "name=1", "name=2", "name=2\n"},
		{"tabs", "all:\n\techo a\n\techo b\n", "echo a", "echo c", "all:\n\techo c\n\techo b\n"},
		{"dollars", "price\n", "price", "$1.00 and ${x}", "$1.00 and ${x}\n"},
		{"other signs", "a.c abc\n", "a.c", `\1 & %s \\1 $0`, `\1 & %s \\1 $0 abc` + "\n"},
		{"signs in what is looked for", "f(x) $1 [a]\n", "(x) $1 [", "", "fa]\n"},
		{"deletion", "a\nb\nc\n", "b\n", "", "a\nc\n"},
		{"everything", "a", "a", "b", "b"},
		{"bytes that are no text", "caf\xe9 \x00 x\n", "x", "y", "caf\xe9 \x00 y\n"},
		{"lone carriage returns", "a\rb\rc", "b", "x\ny", "a\rx\ny\rc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.content)
			out, got := b.edit(edit("f", c.old, c.text))
			assert.Equal(t, c.want, b.get("f"))
			assert.Equal(t, 1, got.Replacements)
			assert.Equal(t, sha(c.want), got.SHA256)
			assert.Equal(t, []protocol.Mutation{{Op: "modify", Path: "f", SHA256: sha(c.want)}}, out.Mutations)
			if utf8.ValidString(c.content) {
				assert.Equal(t, c.want, patched(t, c.content, got.Diff))
			}
			assert.Equal(t, []string{"f"}, b.names(""))
		})
	}
	// Case 52: one line changed is one line of difference.
	b := newBench(t)
	b.put("f", crlf)
	_, got := b.edit(edit("f", "here", "there"))
	assert.Equal(t, "--- f\n+++ f\n@@ -498,7 +498,7 @@\n"+strings.Repeat(" line\r\n", 3)+"-here\r\n+there\r\n"+strings.Repeat(" line\r\n", 3), got.Diff)
}

// Case 55: what is there more than once is not guessed at.
func TestEditAmbiguous(t *testing.T) {
	b := newBench(t)
	content := "all:\n\techo a\n\techo b\n"
	b.put("Makefile", content)
	message := b.refused(protocol.ReasonAmbiguousMatch, "edit", edit("Makefile", "echo", "print"))
	assert.Contains(t, message, "2 times")
	assert.Contains(t, message, "lines 2, 3")
	assert.Equal(t, content, b.get("Makefile"))
	in := edit("Makefile", "echo", "print")
	in["replace_all"] = true
	_, got := b.edit(in)
	assert.Equal(t, 2, got.Replacements)
	assert.Equal(t, "all:\n\tprint a\n\tprint b\n", b.get("Makefile"))
	assert.Equal(t, "--- Makefile\n+++ Makefile\n@@ -1,3 +1,3 @@\n all:\n-\techo a\n-\techo b\n+\tprint a\n+\tprint b\n", got.Diff)

	b.put("many", strings.Repeat("x\n", 100))
	message = b.refused(protocol.ReasonAmbiguousMatch, "edit", edit("many", "x", "y"))
	assert.Contains(t, message, "100 times")
	assert.Contains(t, message, "19, 20, …")
}

// Case 58, and what else may be wrong with a text that is not there.
func TestEditNoMatch(t *testing.T) {
	b := newBench(t)
	b.put("f", "func main() {\n\tfmt.Println(\"hello\")\n\treturn\n}\n")
	b.put("crlf", "a\r\nb\r\n")
	b.put("latin", "caf\xe9 one\n")
	b.put("wide", "\xff\xfeh\x00i\x00\x00\xd8")
	b.put("real", "     1\tfoo\n")
	for _, c := range []struct{ file, old, want string }{
		{"f", "     2\t\tfmt.Println(\"hello\")", "begins with line numbers and a tab as read shows them, which are not in the file; without them it is there once"},
		{"f", "     1\tfunc main() {\n     2\t\tfmt.Println(\"hello\")\n", "without them it is there once"},
		{"f", "     9\tnothing", "not either"},
		{"f", "fmt.Println(\"helo\")", "nearest lines:\n     2\t\tfmt.Println(\"hello\")"},
		{"f", "func main() {\n    fmt.Println(\"hello\")\n    return", `line 2 differs in white space: the file has "\tfmt.Println(\"hello\")", old_string "    fmt.Println(\"hello\")"`},
		{"f", "\tfmt.Println(\"hello\")\n\tbreak\n", "line 3 differs: the file has \"\\treturn\", old_string \"\\tbreak\""},
		{"crlf", "a\nc", "line 2 differs: the file has \"b\""},
		{"f", "main() {\r\n", "the file has other line ends; with plain newlines it is there once"},
		{"latin", "caf\ufffd one", "stands for a byte that is not UTF-8"},
		{"wide", "hi", "the file is utf-16le"},
		{"f", "\n\n\n", "old_string is not in f"},
	} {
		before := b.get(c.file)
		assert.Contains(t, b.refused(protocol.ReasonNoMatch, "edit", edit(c.file, c.old, "new")), c.want)
		assert.Equal(t, before, b.get(c.file))
	}
	b.edit(edit("real", "     1\tfoo", "     1\tbar"))
	assert.Equal(t, "     1\tbar\n", b.get("real"))

	b.put("long", strings.Repeat(strings.Repeat("word ", 4000)+"\n", 100))
	assert.Less(t, len(b.refused(protocol.ReasonNoMatch, "edit", edit("long", strings.Repeat("word ", 3999)+"end", "x"))), 4000)
}

// Case X3, and files that are none.
func TestEditRefuses(t *testing.T) {
	b := newBench(t)
	b.put("f", "abc")
	b.put("d/f", "abc")
	b.refused("invalid_params", "edit", edit("f", "", "x"))
	b.refused("invalid_params", "edit", edit("f", "a", "a"))
	b.refused("invalid_params", "edit", edit("d", "a", "b"))
	b.refused("not_found", "edit", edit("none", "a", "b"))
	b.refused("not_found", "edit", edit("none/none", "a", "b"))
	b.refused(protocol.ReasonWorkspaceBoundary, "edit", edit("../f", "a", "b"))
	assert.Equal(t, "abc", b.get("f"))
	f, err := os.Create(b.path("sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxEdit+1))
	require.NoError(t, f.Close())
	b.refused("payload_too_large", "edit", edit("sparse", "a", "b"))
	ro := b.newSession(capabilities.Root{Path: b.path(), ReadOnly: true})
	_, err = b.callIn(t.Context(), ro, "edit", edit("f", "a", "b"))
	refusal(t, protocol.ReasonWorkspaceReadOnly, err)
}

// Cases 63 and 65: one's own edits are no changes by others, and those of others are
// seen.
func TestEditStale(t *testing.T) {
	b := newBench(t)
	b.put("f", "one\ntwo\nthree\n")
	b.edit(edit("f", "one", "1")) // no reading before
	b.edit(edit("f", "two", "2"))
	_, err := b.call("multi_edit", obj{"edits": []obj{edit("f", "three", "3")}})
	require.NoError(t, err)
	b.write(obj{"path": "f", "content": "1\n2\n3\n"}) // an edit counts as read

	b.put("f", "1\n2\n3\nX\n") // from outside
	assert.Contains(t, b.refused(protocol.ReasonStaleFile, "edit", edit("f", "1", "one")), "f has changed since")
	assert.Contains(t, b.refused(protocol.ReasonStaleFile, "multi_edit", obj{"edits": []obj{edit("f", "1", "one")}}), "f has changed since")
	assert.Equal(t, "1\n2\n3\nX\n", b.get("f"))
	in := edit("f", "1", "one")
	in["unsafe_overwrite"] = true
	b.edit(in)
	assert.Equal(t, "one\n2\n3\nX\n", b.get("f"))
	b.edit(edit("f", "2", "two")) // what it saw then counts

	b.put("f", "a\nb\n")
	b.read(obj{"path": "f"})
	b.edit(edit("f", "a", "A"))

	// Another session that has not read it edits what is there; the first one is told.
	other := b.newSession(capabilities.Root{Path: b.path()})
	_, err = b.callIn(t.Context(), other, "edit", edit("f", "b", "B"))
	require.NoError(t, err)
	b.refused(protocol.ReasonStaleFile, "edit", edit("f", "A", "a"))
	assert.Equal(t, "A\nB\n", b.get("f"))
}

// Cases 59 and 61: links of both kinds.
func TestEditLinks(t *testing.T) {
	b := newBench(t)
	b.put("real.md", "one\n")
	require.NoError(t, os.Symlink("real.md", b.path("link.md")))
	out, got := b.edit(edit("link.md", "one", "two"))
	assert.Equal(t, "real.md", got.Path)
	assert.Equal(t, "real.md", out.Mutations[0].Path)
	_, err := b.call("multi_edit", obj{"edits": []obj{edit("link.md", "two", "three"), edit("real.md", "three", "four")}})
	require.NoError(t, err)
	assert.Equal(t, "four\n", b.get("real.md"))
	info, err := os.Lstat(b.path("link.md"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)

	require.NoError(t, os.Link(b.path("real.md"), b.path("hard.md")))
	_, got = b.edit(edit("real.md", "four", "five"))
	assert.True(t, got.InPlace)
	assert.Equal(t, "five\n", b.get("hard.md"))
	_, err = b.call("multi_edit", obj{"edits": []obj{edit("real.md", "five", "six"), edit("hard.md", "six", "seven")}, "unsafe_overwrite": true})
	require.NoError(t, err)
	assert.Equal(t, "seven\n", b.get("real.md"))
	assert.Equal(t, "seven\n", b.get("hard.md"))
}

// Case 56: what read shows, without the numbers, is what edit finds.
func TestEditWhatWasRead(t *testing.T) {
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.StringOf(rapid.SampledFrom([]rune("\t\t\t ${x}`'\"\\é─😀abc  ")))
		all := rapid.SliceOfN(line, 1, 50).Draw(rt, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "end")
		content := strings.Join(all, end)
		if content == "" {
			return
		}
		if rapid.Bool().Draw(rt, "mark") {
			content = utf8Mark + content
		}
		b.put("f", content)
		out, err := b.call("read", obj{"path": "f"})
		require.NoError(rt, err)
		var shown []string
		for _, l := range strings.Split(out.Content[0].Text, "\n") {
			if number := numbered().FindString(l); number != "" {
				shown = append(shown, l[len(number):])
			}
		}
		if len(shown) == 0 {
			return
		}
		from := rapid.IntRange(0, len(shown)-1).Draw(rt, "from")
		to := rapid.IntRange(from, len(shown)-1).Draw(rt, "to")
		old := strings.Join(shown[from:to+1], "\n")
		if old == "" {
			return
		}
		found := matches([]byte(content), old)
		require.NotEmpty(rt, found, "%q in %q", old, content)
	})
}

// The result of a large edit is bounded; the whole difference is in a file.
func TestEditLongDiff(t *testing.T) {
	b := newBench(t)
	content := strings.Repeat("some line of text\n", 20_000)
	b.put("f", content)
	in := edit("f", "some line", "another line")
	in["replace_all"] = true
	out, got := b.edit(in)
	assert.Equal(t, 20_000, got.Replacements)
	assert.True(t, got.Truncated)
	assert.LessOrEqual(t, len(out.Content[0].Text), protocol.DefaultInlineResult)
	spilled := regexp.MustCompile(`it is in (\S+) …`).FindStringSubmatch(got.Diff)
	require.Len(t, spilled, 2)
	assert.Equal(t, b.get("f"), patched(t, content, b.get(spilled[1])))
}

func TestMultiEdit(t *testing.T) {
	b := newBench(t)
	b.put("a", "one\ntwo\n")
	b.put("d/b", "red\r\nblue\r\n")
	out, err := b.call("multi_edit", obj{"edits": []obj{edit("a", "one", "1"), edit("d/b", "red\nblue", "R\nB"), edit("a", "1\ntwo", "done"), edit("./a", "done", "end")}})
	require.NoError(t, err)
	assert.Equal(t, "end\n", b.get("a"))
	assert.Equal(t, "R\r\nB\r\n", b.get("d/b"))
	got := out.Structured.(multiEditOutput)
	assert.Equal(t, 4, got.Replacements)
	assert.Equal(t, []editedFile{{"a", 3, sha("end\n")}, {"d/b", 1, sha("R\r\nB\r\n")}}, got.Files)
	assert.Equal(t, []protocol.Mutation{{Op: "modify", Path: "a", SHA256: sha("end\n")}, {Op: "modify", Path: "d/b", SHA256: sha("R\r\nB\r\n")}}, out.Mutations)
	assert.Equal(t, "--- a\n+++ a\n@@ -1,2 +1 @@\n-one\n-two\n+end\n--- d/b\n+++ d/b\n@@ -1,2 +1,2 @@\n-red\r\n-blue\r\n+R\r\n+B\r\n", got.Diff)

	// One bad edit, and nothing is written; all bad ones are named.
	message := b.refused(protocol.ReasonNoMatch, "multi_edit", obj{"edits": []obj{
		edit("a", "end", "x"), edit("a", "nowhere", "y"), edit("d/b", "R", "r"), edit("none", "a", "b"), edit("../out", "a", "b")}})
	for _, want := range []string{"nothing was written: 3 of 5", "edits[1] a: no_match", "edits[3] none: not_found", "edits[4] ../out: workspace_boundary"} {
		assert.Contains(t, message, want)
	}
	assert.Equal(t, "end\n", b.get("a"))
	assert.Equal(t, "R\r\nB\r\n", b.get("d/b"))

	// An edit that takes back another changes nothing.
	out, err = b.call("multi_edit", obj{"edits": []obj{edit("a", "end", "x"), edit("a", "x", "end")}})
	require.NoError(t, err)
	assert.Empty(t, out.Mutations)

	b.refused("invalid_params", "multi_edit", obj{"edits": []obj{}})
	assert.Contains(t, b.refused("invalid_params", "multi_edit", obj{"edits": []obj{edit("a", "x", "y"), edit("a", "", "y")}}), "edits[1].old_string")
	b.put("e", strings.Repeat("e", 100_000)) // it would fill the memory
	in := edit("e", "e", strings.Repeat("e", 10_000))
	in["replace_all"] = true
	b.refused("payload_too_large", "edit", in)
	b.refused("payload_too_large", "multi_edit", obj{"edits": []obj{in}})
}

// When a file cannot be written, those before it have their old content again.
func TestMultiEditIsUndone(t *testing.T) {
	b := newBench(t)
	b.put("a", "one\n")
	b.put("b", "one\n")
	b.put("c", "one\n")
	m := &batch{files: b.files, call: capabilities.NewCall(capabilities.CallConfig{Session: b.session}),
		in: multiEditInput{Edits: []editItem{{Path: "a", OldString: "one", NewString: "two"}, {Path: "b", OldString: "one", NewString: "two"}, {Path: "c", OldString: "one", NewString: "two"}}},
		of: make([]*edited, 3), failed: make([]error, 3)}
	defer m.close()
	m.aim(t.Context())
	release, err := m.lock(t.Context())
	require.NoError(t, err)
	defer release()
	require.NoError(t, m.load(t.Context()))
	for i, item := range m.in.Edits {
		require.NoError(t, m.of[i].apply(item))
	}
	b.put("c", "somebody else was here\n")
	out, err := m.write(t.Context())
	refusal(t, protocol.ReasonStaleFile, err)
	assert.Empty(t, out.Mutations)
	assert.Equal(t, "one\n", b.get("a"))
	assert.Equal(t, "one\n", b.get("b"))
	assert.Equal(t, "somebody else was here\n", b.get("c"))
	assert.Equal(t, []string{"a", "b", "c"}, b.names(""))
}

// Case 63: edits of different lines at the same time all survive, whoever makes them.
func TestParallelEdits(t *testing.T) {
	b := newBench(t)
	var all strings.Builder
	for i := range 64 {
		fmt.Fprintf(&all, "line %02d\n", i)
	}
	b.put("f", all.String())
	require.NoError(t, os.Symlink("f", b.path("link")))
	other := b.newSession(capabilities.Root{Path: b.path()})
	var editors sync.WaitGroup
	for i := range 64 {
		editors.Go(func() {
			s := b.session
			if i%4 == 0 {
				s = other
			}
			old := fmt.Sprintf("line %02d", i)
			in := edit([]string{"f", "link"}[i%2], old, "edited "+old)
			in["unsafe_overwrite"] = true
			_, err := b.callIn(t.Context(), s, "edit", in)
			assert.NoError(t, err)
		})
	}
	editors.Wait()
	assert.Equal(t, 64, strings.Count(b.get("f"), "edited line"))
	assert.Empty(t, b.files.locks.held)
}

// UTF-16 is edited as the text that read shows, and stays what it is to the byte.
func TestEditUTF16(t *testing.T) {
	b := newBench(t)
	wide := func(big bool, text string) string {
		var out []byte
		for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
			if big {
				out = append(out, byte(unit>>8), byte(unit))
			} else {
				out = append(out, byte(unit), byte(unit>>8))
			}
		}
		return string(out)
	}
	for name, big := range map[string]bool{"little": false, "big": true} {
		b.put(name, wide(big, "first\r\nsecond 😀\r\nthird"))
		_, got := b.read(obj{"path": name})
		assert.Equal(t, "first\r\nsecond 😀\r\nthird", got.Content)
		_, edited := b.edit(edit(name, "second 😀\nthird", "zweite ü\nthird"))
		assert.Equal(t, wide(big, "first\r\nzweite ü\r\nthird"), b.get(name))
		assert.Equal(t, sha(b.get(name)), edited.SHA256)
		assert.Contains(t, edited.Diff, "-second 😀")
		b.edit(edit(name, "zweite", "second")) // one's own edit is no change by others
		_, err := b.call("multi_edit", obj{"edits": []obj{edit(name, "first", "1st"), edit(name, "1st\nsecond", "x")}})
		require.NoError(t, err)
		assert.Equal(t, wide(big, "x ü\r\nthird"), b.get(name))
		_, err = b.call("multi_edit", obj{"edits": []obj{edit(name, "x", "y"), edit(name, "none", "x")}})
		refusal(t, protocol.ReasonNoMatch, err)
		assert.Equal(t, wide(big, "x ü\r\nthird"), b.get(name))
	}
}
