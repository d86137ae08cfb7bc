package files

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is not there is said with what may have been meant.
func TestAbsent(t *testing.T) {
	b := newBench(t)
	b.put("README.md", "x\n")
	b.put("src/handler_test.go", "x\n")
	b.put("f", "x\n")
	b.put("../outside/config.yaml", "")
	require.NoError(t, os.Symlink("nowhere", b.path("dangling")))
	for path, want := range map[string]string{
		"readme.md":            "readme.md does not exist; there is README.md",
		"src/handlers_test.go": "src/handlers_test.go does not exist; there is src/handler_test.go",
		"SRC/handler_test.go":  "SRC/handler_test.go does not exist; there is src",
		"source/of/all":        "source/of/all does not exist",
		"src/g":                "src/g does not exist",
		"f ":                   "f  does not exist; f does",
		"\"f\"":                "\"f\" does not exist; f does",
		"f:12":                 "f:12 does not exist; f does: give the line as offset",
		"f:12:3:":              "f:12:3: does not exist; f does: give the line as offset",
		"~/f":                  "~/f does not exist: ~ is not expanded",
		"*.md":                 "*.md does not exist; a path is no pattern: glob finds files by one",
		"dangling":             "dangling is a link to nowhere, which does not exist",
		"f/g":                  "f/g does not exist: f is not a directory",
		"../ws/readme.md":      "readme.md does not exist; there is README.md",
	} {
		assert.Equal(t, want, b.refused("not_found", "read", obj{"path": path}), path)
		assert.Equal(t, want, b.refused("not_found", "diff", obj{"path_a": "f", "path_b": path}), path)
		if path == "dangling" {
			continue // the link itself is there
		}
		assert.Equal(t, want, b.refused("not_found", "move", obj{"from": path, "to": "x"}), path)
		assert.Equal(t, want, b.refused("not_found", "copy", obj{"from": path, "to": "x"}), path)
		assert.Equal(t, want, b.refused("not_found", "set_executable", obj{"path": path}), path)
		assert.Equal(t, want, b.refused("not_found", "delete", obj{"path": path}), path)
	}
	assert.Contains(t, b.refused("not_found", "edit", edit("readme.md", "a", "b")), "there is README.md")
	assert.NotContains(t, b.refused("not_found", "read", obj{"path": "outside"}), "config")
	for i := range 3000 {
		b.put(fmt.Sprint("many/", i), "")
	}
	assert.Equal(t, "many/x does not exist", b.refused("not_found", "read", obj{"path": "many/x"}))
	assert.Equal(t, []statEntry{{Path: "f/g", Error: "f/g does not exist: f is not a directory"}}, b.ok("stat", obj{"path": "f/g"}).Structured.(statOutput).Entries)
	assert.Equal(t, "f exists already, and is a file", b.refused("conflict", "mkdir", obj{"path": "f"}))
}

// Nothing new gets the name ~ by mistake.
func TestNoHome(t *testing.T) {
	b := newBench(t)
	b.put("f", "x\n")
	for tool, in := range map[string]obj{
		"write": {"path": "~/x", "content": "", "create_dirs": true},
		"mkdir": {"path": "~/x"},
		"copy":  {"from": "f", "to": "~"},
		"move":  {"from": "f", "to": "~/x"},
	} {
		assert.Contains(t, b.refused("invalid_params", tool, in), "~ is not expanded; give the absolute path, or ./~ for")
	}
	b.write(obj{"path": "./~/x", "content": "", "create_dirs": true})
	b.write(obj{"path": "~x", "content": ""})
	_, got := b.read(obj{"path": "~/x"})
	assert.Equal(t, "~/x", got.Path)
	assert.Equal(t, []string{"f", "~", "~x"}, b.names(""))
}

// Patterns of other programs and lists of patterns get a hint, once nothing is found.
func TestPatternHints(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "one|two\n")
	b.put("src/b.go", "word\n")
	for _, c := range []struct {
		tool string
		in   obj
		hint string
	}{
		{"grep", obj{"pattern": `foo\|bar`}, `[\| is the character itself; alternatives are written a|b]`},
		{"grep", obj{"pattern": `\<word\>`}, `the edge of a word is \b]`},
		{"grep", obj{"pattern": "word", "glob": "*.go,*.rs"}, "[this is one pattern; several are written {*.go,*.rs}]"},
		{"grep", obj{"pattern": "word", "glob": "src"}, "[src is a directory: src/** is what is in it]"},
		{"list_files", obj{"glob": "*.c *.h"}, "[this is one pattern; several are written {*.c,*.h}]"},
		{"stat", obj{"glob": "*.c|*.h"}, "[this is one pattern; several are written {*.c,*.h}]"},
		{"glob", obj{"pattern": "*.go|*.rs"}, "[this is one pattern; several are written {*.go,*.rs}]"},
	} {
		assert.Contains(t, b.ok(c.tool, c.in).Content[0].Text, c.hint)
	}
	assert.NotContains(t, b.ok("grep", obj{"pattern": `one\|two`}).Content[0].Text, "alternatives")
	assert.Contains(t, b.refused("invalid_params", "grep", obj{"pattern": "x", "glob": "!"}), "and there is none")
}

// A path as long as it likes is refused at once, and is not repeated in full.
func TestVeryLongInputs(t *testing.T) {
	b := newBench(t)
	b.put("f", "x\n")
	long, deep := strings.Repeat("x", 300_000), strings.Repeat("d/", 150_000)
	for _, c := range []struct {
		tool string
		in   obj
	}{
		{"read", obj{"path": long}},
		{"read", obj{"path": deep}},
		{"read", obj{"path": strings.Repeat("../", 150_000)}},
		{"write", obj{"path": deep + "f", "content": "", "create_dirs": true}},
		{"write", obj{"path": deep, "content": ""}},
		{"write", obj{"path": "f", "content": "", "mode": long}},
		{"mkdir", obj{"path": deep}},
		{"mkdir", obj{"path": "~/" + long}},
		{"copy", obj{"from": "f", "to": long}},
		{"multi_edit", obj{"edits": []obj{edit(long, "a", "b")}}},
		{"grep", obj{"pattern": "x", "path": deep}},
		{"grep", obj{"pattern": "x", "mode": long}},
		{"grep", obj{"pattern": "x", "glob": "../" + long}},
		{"list_files", obj{"path": deep, "glob": "*"}},
	} {
		assert.Less(t, len(b.refused("invalid_params", c.tool, c.in)), 2000, c.tool)
	}
	b.refused("not_found", "read", obj{"path": strings.Repeat("d/", 2000)})
	b.refused("not_found", "move", obj{"from": strings.Repeat("d/", 2000), "to": "x"})
	assert.Equal(t, []string{"f"}, b.names(""))
}
