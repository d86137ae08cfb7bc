package files

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// search calls a search that must work and returns its text and its result as JSON, which
// is what its output schema says.
func (b *bench) search(tool string, input obj) (text string, result obj) {
	b.t.Helper()
	out, err := b.call(tool, input)
	require.NoError(b.t, err)
	raw, err := json.Marshal(out.Structured)
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(raw, &result))
	registered, _ := b.registry.Tool(tool)
	var schema jsonschema.Schema
	require.NoError(b.t, json.Unmarshal(registered.Info().OutputSchema, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(b.t, err)
	require.NoError(b.t, resolved.Validate(result), "what is advertised is what comes: %s", raw)
	return out.Content[0].Text, result
}

func TestGlobTool(t *testing.T) {
	b := newBench(t)
	b.put("a.txt", "a")
	b.put("sub/b.txt", "b")
	b.put(".hidden/c.txt", "c")
	b.put("out/d.txt", "d")
	b.put(".gitignore", "out/\n")
	require.NoError(t, os.Symlink("/nope", b.path("broken"))) // case 73
	require.NoError(t, os.Symlink("/etc", b.path("etc")))     // case 82
	text, result := b.search("glob", obj{"pattern": "**/*.txt"})
	assert.Equal(t, 2.0, result["count"])
	assert.ElementsMatch(t, []any{"a.txt", "sub/b.txt"}, result["matches"])
	assert.Equal(t, false, result["truncated"])
	assert.Equal(t, obj{"hidden": 2.0, "ignored": 1.0}, result["skipped"])
	assert.Contains(t, text, "a.txt\n")
	assert.Contains(t, text, "[left out: 2 hidden (hidden: true takes them in); 1 by .gitignore or .ignore (no_ignore: true takes them in)]")

	text, result = b.search("glob", obj{"pattern": "**/*.txt", "hidden": true, "no_ignore": true, "limit": 3})
	assert.Len(t, result["matches"], 3)
	assert.Equal(t, 4.0, result["count"])
	assert.Equal(t, true, result["truncated"])
	assert.Contains(t, text, "[the newest 3 of 4 paths; limit shows more")

	text, result = b.search("glob", obj{"pattern": "*.md"})
	assert.Equal(t, []any{}, result["matches"])
	assert.Contains(t, text, "[nothing matches]\n[*.md is for one directory only; **/*.md looks below, too]")
	for pattern, hint := range map[string]string{
		"sub":     "[nothing matches]\n[sub is a directory: sub/ finds directories, sub/** what is in them]",
		"**/sub":  "[sub is a directory: **/sub/ finds directories, **/sub/** what is in them]",
		".hidden": "[.hidden is a directory: .hidden/ finds",
		"[so]u*":  "[sub is a directory: ",
		"none":    "[none is for one directory only; ",
		"sub/*.c": "[nothing matches]",
	} {
		text, _ = b.search("glob", obj{"pattern": pattern})
		assert.Contains(t, text, hint, pattern)
	}
	text, _ = b.search("glob", obj{"pattern": "{sub,out}", "no_ignore": true})
	assert.Contains(t, text, "[2 directories do, ")
	_, result = b.search("glob", obj{"pattern": "sub/"})
	assert.Equal(t, []any{"sub"}, result["matches"])
	assert.Contains(t, b.refused(protocol.ReasonWorkspaceBoundary, "glob", obj{"pattern": "etc/**"}), "etc is outside the workspace")
}

// The text of many paths stays within its bounds and says so.
func TestGlobManyPaths(t *testing.T) {
	b := newBench(t)
	for i := range 300 {
		b.put(fmt.Sprintf("%s-%d", strings.Repeat("long", 50), i), "")
	}
	text, result := b.search("glob", obj{"pattern": "*"})
	shown := len(result["matches"].([]any))
	assert.Less(t, shown, 200)
	assert.Contains(t, text, fmt.Sprintf("[the newest %d of 300 paths; a narrower pattern or path shows others]", shown))
	assert.Equal(t, true, result["truncated"])
}

func TestGrepTool(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "one\ntwo needle\nthree\nfour\nfive\nsix needle\nneedle seven\n")
	b.put("sub/b.go", "needle\r\n")
	b.put("bin", "needle\x00")
	require.NoError(t, os.Symlink("a.go", b.path("link")))
	text, result := b.search("grep", obj{"pattern": "needle"})
	assert.Equal(t, "a.go\n2:two needle\n6:six needle\n7:needle seven\n\nsub/b.go\n1:needle\n[4 matching lines in 2 files; 2 files searched]\n"+
		"[left out: 1 symbolic links, not followed; 1 binary (the command grep -a takes them in)]", text)
	assert.Equal(t, obj{"path": "a.go", "line": 2.0, "column": 5.0, "text": "two needle"}, result["matches"].([]any)[0])
	assert.Equal(t, 2.0, result["files_searched"])
	assert.Equal(t, false, result["truncated"])

	text, result = b.search("grep", obj{"pattern": "needle", "context": 1, "path": "a.go"})
	assert.Equal(t, "a.go\n1-one\n2:two needle\n3-three\n--\n5-five\n6:six needle\n7:needle seven\n[3 matching lines in 1 file; 1 file searched]", text)
	assert.Equal(t, obj{"path": "a.go", "line": 6.0, "column": 5.0, "text": "six needle", "before": []any{"five"}}, result["matches"].([]any)[1])
	assert.Equal(t, []any{"three"}, result["matches"].([]any)[0].(obj)["after"])

	text, result = b.search("grep", obj{"pattern": "needle", "limit": 2})
	assert.Len(t, result["matches"], 2)
	assert.Equal(t, 4.0, result["count"])
	assert.Equal(t, true, result["truncated"])
	assert.Contains(t, text, "[2 of 4 matching lines shown, the matches are in 2 files; 2 files searched; limit shows more, a narrower path, glob or pattern shows others]")

	text, result = b.search("grep", obj{"pattern": "needle", "mode": "files"})
	assert.Equal(t, []any{obj{"path": "a.go"}, obj{"path": "sub/b.go"}}, result["matches"])
	assert.True(t, strings.HasPrefix(text, "a.go\nsub/b.go\n[2 files with a match; 2 files searched]"), text)
	text, result = b.search("grep", obj{"pattern": "needle", "mode": "count", "limit": 1})
	assert.Equal(t, []any{obj{"path": "a.go", "count": 3.0}}, result["matches"])
	assert.Contains(t, text, "a.go:3\n[1 of 2 files shown")
	text, _ = b.search("grep", obj{"pattern": "nowhere"})
	assert.True(t, strings.HasPrefix(text, "[no match; 2 files searched]"), text)
	text, _ = b.search("grep", obj{"pattern": `needle\n.*three\n`, "multiline": true})
	assert.True(t, strings.HasPrefix(text, "a.go\n2:two needle\n3:three\n["), text)
	text, _ = b.search("grep", obj{"pattern": "needle", "path": "bin"})
	assert.Equal(t, "[no match; 0 files searched]\n[left out: 1 binary (the command grep -a takes them in)]\n[bin is taken for binary, for it has NUL characters: "+
		"the command `grep -a PATTERN FILE` searches it, `tr -d '\\000' <FILE` makes a text of it]", text)
}

// A long line is cut round the match, and that is told apart from more matches (case 75).
func TestGrepCutsLongLines(t *testing.T) {
	b := newBench(t)
	b.put("three.min.js", strings.Repeat("ü", 160_000)+"stats"+strings.Repeat("ü", 160_000))
	b.put("a.go", "stats\n")
	text, result := b.search("grep", obj{"pattern": "stats", "context": 100})
	assert.Len(t, result["matches"], 2)
	assert.Equal(t, false, result["truncated"])
	assert.Equal(t, 1.0, result["lines_cut"])
	assert.Equal(t, true, result["matches"].([]any)[1].(obj)["cut"])
	assert.Less(t, len(text), 1000)
	assert.NotContains(t, text, "\uFFFD")
	assert.Contains(t, text, "[1 line cut to 400 bytes round the match; read with full shows the whole]")

	// Lines around a match are cut, too, and counted once.
	b.put("around", strings.Repeat("w", 500)+"\nmatch here\n"+strings.Repeat("x", 500)+"\nmatch here\nshort\n")
	text, result = b.search("grep", obj{"pattern": "match here", "context": 1, "path": "around"})
	assert.Equal(t, 2.0, result["lines_cut"])
	assert.Equal(t, true, result["matches"].([]any)[0].(obj)["around_cut"])
	assert.Equal(t, true, result["matches"].([]any)[1].(obj)["around_cut"])
	assert.Contains(t, text, "[2 lines cut to 400 bytes; read with full shows the whole]")
	text, result = b.search("grep", obj{"pattern": "match here|w", "context": 1, "path": "around"})
	assert.Equal(t, 2.0, result["lines_cut"])
	assert.Equal(t, true, result["matches"].([]any)[0].(obj)["cut"])
	assert.NotContains(t, result["matches"].([]any)[0], "around_cut")
	assert.Contains(t, text, "[2 lines cut to 400 bytes round the match; ")
	require.NoError(t, os.Remove(b.path("around")))

	// Much context does not take the place of the match.
	b.put("wide", strings.Repeat(strings.Repeat("w", 390)+"\n", 100)+"match\n")
	text, result = b.search("grep", obj{"pattern": "match", "context": 100})
	assert.Len(t, result["matches"], 1)
	assert.Contains(t, text, "101:match\n")
	for range 6 { // a hundred long lines are more than fits
		b.put("more", strings.Repeat("match "+strings.Repeat("w", 380)+"\n", 100))
	}
	text, result = b.search("grep", obj{"pattern": "match"})
	assert.Equal(t, true, result["truncated"])
	assert.Equal(t, 101.0, result["count"])
	assert.NotContains(t, text, "limit shows more")
}

// What is no pattern is an error with the reason, never "no matches" (X4).
func TestSearchRefuses(t *testing.T) {
	b := newBench(t)
	for _, pattern := range []string{"foo(?=bar)", "func (", `(?P<x>a)\1`, "a{1001}"} {
		assert.Contains(t, b.refused("invalid_params", "grep", obj{"pattern": pattern}), "not a regular expression (RE2)")
	}
	for _, c := range []struct {
		tool  string
		input obj
		want  string
	}{
		{"grep", obj{}, "pattern"},
		{"grep", obj{"pattern": "x", "mode": "list"}, "mode: must be content, files or count"},
		{"grep", obj{"pattern": "x", "context": -1}, "context: must be between"},
		{"grep", obj{"pattern": "x", "limit": -1}, "limit: must be between"},
		{"grep", obj{"pattern": "x", "glob": "{a"}, "glob: has a {"},
		{"grep", obj{"pattern": "x", "path": "a\x00"}, "NUL"},
		{"glob", obj{"pattern": "x", "limit": 1 << 20}, "limit: must be between"},
		{"glob", obj{"pattern": ""}, "pattern: must not be empty"},
		{"glob", obj{"pattern": "x", "depth": 1}, "depth"},
	} {
		assert.Contains(t, b.refused("invalid_params", c.tool, c.input), c.want)
	}
	b.refused(protocol.ReasonWorkspaceBoundary, "grep", obj{"pattern": "x", "path": "/etc"})
	b.refused(protocol.ReasonWorkspaceBoundary, "glob", obj{"pattern": "/etc/*"})
	b.refused("not_found", "grep", obj{"pattern": "x", "path": "none"})
}

// A name that is no text is shown so that read takes it back (case 79).
func TestSearchNames(t *testing.T) {
	b := newBench(t)
	b.put("good.txt", "needle")
	b.put("bad\xff.txt", "needle")
	_, result := b.search("glob", obj{"pattern": "*.txt"})
	assert.ElementsMatch(t, []any{"good.txt", `$'bad\xff.txt'`}, result["matches"])
	_, result = b.search("grep", obj{"pattern": "needle"})
	path := result["matches"].([]any)[0].(obj)["path"]
	assert.Equal(t, `$'bad\xff.txt'`, path)
	_, out := b.read(obj{"path": path})
	assert.Equal(t, "needle", out.Content)
}
