package files

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// More of the kinds of cases 50, 54 and X3: edits that follow each other, marks and line
// ends together, all occurrences.
func TestEditSiblings(t *testing.T) {
	all := func(in obj) obj { in["replace_all"] = true; return in }
	for _, c := range []struct {
		name, content string
		edits         []obj
		want          string
	}{
		{"all, CRLF", "a\r\nb\r\na\r\nb\r\n", []obj{all(edit("f", "a\nb", "x\ny\nz"))}, "x\r\ny\r\nz\r\nx\r\ny\r\nz\r\n"},
		{"all, one after the other", "aaaa\n", []obj{all(edit("f", "aa", "b"))}, "bb\n"},
		{"all, into itself", "a b a\n", []obj{all(edit("f", "a", "aa"))}, "aa b aa\n"},
		{"a chain, CRLF", "a\r\nb\r\nc\r\n", []obj{edit("f", "a\nb", "1\n2"), edit("f", "2\nc", "3\n4"), edit("f", "1\n3\n4", "k")}, "k\r\n"},
		{"a chain, mark and CRLF", utf8Mark + "n=1\r\nb\r\n", []obj{edit("f", "n=1\nb", "# x\nn=2\nb"), edit("f", "# x\n", "")}, utf8Mark + "n=2\r\nb\r\n"},
		{"mark given", utf8Mark + "n=1\r\nb\r\n", []obj{edit("f", utf8Mark+"n=1\nb", utf8Mark+"n=2\nb")}, utf8Mark + "n=2\r\nb\r\n"},
		{"all of it taken away", "a\n", []obj{edit("f", "a\n", "")}, ""},
		{"UTF-16, CRLF", "\xff\xfea\x00\r\x00\n\x00b\x00", []obj{edit("f", "a\nb", "x\ny")}, "\xff\xfex\x00\r\x00\n\x00y\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.content)
			for _, e := range c.edits {
				b.edit(e)
			}
			assert.Equal(t, c.want, b.get("f"))
			b.put("f", c.content)
			_, err := b.call("multi_edit", obj{"edits": c.edits, "unsafe_overwrite": true})
			require.NoError(t, err)
			assert.Equal(t, c.want, b.get("f"), "together")
		})
	}
}

// More of the kind of case 58: texts that look as if they were there.
func TestEditLookalikes(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ content, old, want string }{
		{"x\ncafe\u0301\n", "café", `there once: line 2 is "cafe\u0301"`},
		{"it’s “x”\u00a0y\n", `it's "x" y`, `characters that look alike differ; with those of the file it is there once: line 1 is "it\u2019s \u201cx\u201d\u00a0y"`},
		{"a - b\na - b\n", "a – b", "there 2 times: line 1"},
		{"zero\u200bwidth\n", "zerowidth", `"zero\u200bwidth"`},
		{"a\nb", "b\n", "the file has no newline at its end, and old_string has"},
		{utf8Mark + "name=1\n", "name=2", "nearest lines:\n     1\tname=1"},
		{"", "a", "old_string is not in f"},
		{"a\rb\r", "a\nb", "old_string is not in f"},
		{"x\r\nfoo", "foo\r\n", "the file has no newline at its end"},
		{"x = 1\ny = 2\n", "y = 2\n\n", "old_string is not in f; nearest lines"},
		{"a\ufffdb\n", "a\ufffdc", "old_string is not in f; nearest lines"},
		{"a\xffb\n", "a\ufffdc", "U+FFFD in a text that was read"},
	} {
		b.put("f", c.content)
		in := edit("f", c.old, "new")
		in["unsafe_overwrite"] = true
		assert.Contains(t, b.refused("no_match", "edit", in), c.want)
		assert.Equal(t, c.content, b.get("f"))
	}
}

// More of the kinds of cases 63 and 65: what was seen and is now another thing.
func TestReplacedAfterReading(t *testing.T) {
	b := newBench(t)
	seen := func(name string) {
		b.put(name, "x")
		b.read(obj{"path": name})
		require.NoError(t, os.Remove(b.path(name)))
	}
	seen("dir")
	require.NoError(t, os.Mkdir(b.path("dir"), 0o755))
	b.refused("invalid_params", "write", obj{"path": "dir", "content": "y"})
	seen("gone")
	b.refused("not_found", "edit", edit("gone", "x", "y"))
	_, got := b.write(obj{"path": "gone", "content": "y"})
	assert.True(t, got.Created)
	seen("same")
	b.put("same", "x") // another inode and time, the same content
	b.write(obj{"path": "same", "content": "y"})
	seen("link")
	b.put("other", "mine")
	require.NoError(t, os.Symlink("other", b.path("link")))
	b.refused("stale_file", "write", obj{"path": "link", "content": "y"})
	assert.Equal(t, "mine", b.get("other"))
}

// Paths as deep and names as long as the system takes them cost no more than their length.
func TestDeepAndLong(t *testing.T) {
	b := newBench(t)
	deep := strings.Repeat("d/", 400)
	out, err := b.call("write", obj{"path": deep + "f", "content": "x", "create_dirs": true})
	require.NoError(t, err)
	require.Equal(t, 258, len(out.Mutations)) // of 401, see mkdirs
	assert.Equal(t, "d/d", out.Mutations[1].Path)
	assert.Equal(t, strings.Repeat("/d", 256)[1:], out.Mutations[255].Path)
	assert.Equal(t, strings.TrimSuffix(deep, "/"), out.Mutations[256].Path)
	_, got := b.read(obj{"path": deep + "f"})
	assert.Equal(t, "x", got.Content)
	b.refused("not_found", "write", obj{"path": deep + "f/g", "content": "x", "create_dirs": true})
	_, err = b.call("delete", obj{"path": "d", "recursive": true})
	require.NoError(t, err)

	long := strings.Repeat("é", 127)
	b.write(obj{"path": long, "content": "x"})
	b.edit(edit(long, "x", "y"))
	_, err = b.call("move", obj{"from": long, "to": strings.Repeat("n", 255)})
	require.NoError(t, err)
	assert.Equal(t, []string{strings.Repeat("n", 255)}, b.names(""))
	b.refused("invalid_params", "move", obj{"from": strings.Repeat("n", 255), "to": long + "éé"})
}

// However many directories a call makes, what it says of them is no more than a brain
// takes, and names all: a path names those above it.
func TestMutationsOfDeepDirectories(t *testing.T) {
	b := newBench(t)
	sane := strings.Repeat("directory/", 100)
	out, _ := b.write(obj{"path": sane + "f", "content": "x", "create_dirs": true})
	require.Equal(t, 101, len(out.Mutations))
	for i, m := range out.Mutations[:100] {
		assert.Equal(t, protocol.Mutation{Op: "mkdir", Path: sane[:10*i+9]}, m)
	}
	for tool, in := range map[string]obj{
		"write": {"path": strings.Repeat("w/", 1500) + "f", "content": "x", "create_dirs": true},
		"mkdir": {"path": strings.Repeat("m/", 1500)},
	} {
		out := b.ok(tool, in)
		require.Greater(t, len(out.Mutations), 256)
		size := 0
		for i, m := range out.Mutations[:256] {
			assert.Equal(t, strings.Repeat("/"+tool[:1], i+1)[1:], m.Path)
			size += len(m.Path)
		}
		assert.Equal(t, protocol.Mutation{Op: "mkdir", Path: strings.Repeat("/"+tool[:1], 1500)[1:]}, out.Mutations[256])
		assert.LessOrEqual(t, size, maxMadeBytes)
		sent, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Less(t, len(sent), 128<<10)
	}
	assert.Empty(t, mkdirs(nil))
	// One path alone may be as long as it likes.
	long := capabilities.Path{Display: strings.Repeat("x", maxMadeBytes+1)}
	assert.Len(t, mkdirs([]capabilities.Path{long}), 1)
	assert.Len(t, mkdirs([]capabilities.Path{long, long}), 2)
	assert.Len(t, mkdirs([]capabilities.Path{long, long, long}), 2)
}

// With several roots as well; and who has given up does not wait for the rest.
func TestDeepInSeveralRoots(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.base, "other"), 0o755))
	b.session = b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: filepath.Join(b.base, "other")})
	deep := strings.TrimSuffix(strings.Repeat("d/", 400), "/")
	out, err := b.call("mkdir", obj{"path": deep})
	require.NoError(t, err)
	require.Equal(t, 257, len(out.Mutations)) // of 400, see mkdirs
	assert.Equal(t, deep, out.Mutations[256].Path)

	p, err := b.session.Workspace().ResolveWrite("gone/a/b")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, made, err := makeDir(ctx, b.session.Workspace(), p.Abs)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, made)
}

// More of the kind of case 82 and 86: what a place is not moved, copied or deleted into.
func TestPlacesInThemselves(t *testing.T) {
	b := newBench(t)
	b.put("d/sub/f", "x\n")
	b.put("f", "x\n")
	require.NoError(t, os.Symlink("d", b.path("ld")))
	require.NoError(t, os.Symlink("loop2", b.path("loop1")))
	require.NoError(t, os.Symlink("loop1", b.path("loop2")))
	require.NoError(t, os.Link(b.path("f"), b.path("hard")))
	for _, c := range []struct {
		reason, tool string
		in           obj
	}{
		{"invalid_params", "move", obj{"from": "d", "to": "d/sub/e"}},
		{"invalid_params", "move", obj{"from": "d", "to": "ld/sub/e"}},
		{"invalid_params", "copy", obj{"from": "d", "to": "d/sub/e", "recursive": true}},
		{"invalid_params", "copy", obj{"from": "d", "to": "ld/e", "recursive": true}},
		{"invalid_params", "move", obj{"from": "d", "to": "./d/"}},
		{"conflict", "move", obj{"from": "f", "to": "d"}},
		{"conflict", "move", obj{"from": "f", "to": "d", "overwrite": true}},
		{"conflict", "move", obj{"from": "d", "to": "f", "overwrite": true}},
		{"invalid_params", "copy", obj{"from": "f", "to": "f", "overwrite": true}},
		{"invalid_params", "copy", obj{"from": "f", "to": "hard", "overwrite": true}},
		{"workspace_boundary", "delete", obj{"path": "d/..", "recursive": true}},
		{"workspace_boundary", "delete", obj{"path": "ld/../", "recursive": true}},
		{"conflict", "delete", obj{"path": "d"}},
		{"not_found", "read", obj{"path": "loop1"}},
		{"not_found", "write", obj{"path": "loop1", "content": "x"}},
	} {
		b.refused(c.reason, c.tool, c.in)
	}
	assert.Equal(t, "x\n", b.get("d/sub/f"))
	_, err := b.call("delete", obj{"path": "loop1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"d", "f", "hard", "ld", "loop2"}, b.names(""))
}

// A path that can only be a directory's is none for a file, and what is in the way of
// a new one is named.
func TestPlacesForFiles(t *testing.T) {
	b := newBench(t)
	b.put("f", "x")
	b.put("d/g", "y")
	for _, c := range []struct {
		reason, tool string
		in           obj
		want         string
	}{
		{"invalid_params", "write", obj{"path": "new/", "content": ""}, "path names a directory: new/; name the file itself"},
		{"invalid_params", "write", obj{"path": "new/.", "content": "", "create_dirs": true}, "path names a directory: new/."},
		{"invalid_params", "write", obj{"path": `$'new\x2f'`, "content": ""}, "path names a directory: new/"},
		{"invalid_params", "copy", obj{"from": "f", "to": "new/"}, "to names a directory: new/; name the file itself"},
		{"invalid_params", "copy", obj{"from": "f", "to": "d/"}, "to names a directory: d/"},
		{"invalid_params", "move", obj{"from": "f", "to": "new/"}, "to names a directory: new/; name the file itself"},
		{"invalid_params", "move", obj{"from": "f", "to": "d/g/", "overwrite": true}, "to names a directory: d/g/"},
		{"conflict", "move", obj{"from": "f", "to": "d/"}, "d is a directory: name the new path itself"},
		{"invalid_params", "copy", obj{"from": "f", "to": "d", "overwrite": true}, "d is a directory: name the file itself, one in it perhaps"},
		{"invalid_params", "write", obj{"path": "d", "content": ""}, "d is a directory: name the file itself"},
		{"invalid_params", "edit", edit("d", "a", "b"), "d is a directory: name the file itself"},
		{"not_found", "copy", obj{"from": "f", "to": "no/x"}, "the directory of no/x does not exist: mkdir makes it"},
		{"not_found", "copy", obj{"from": "d", "to": "no/x", "recursive": true}, "the directory of no/x does not exist: mkdir makes it"},
		{"not_found", "copy", obj{"from": "f", "to": "d/g/x/y"}, "d/g/x/y does not exist: d/g is not a directory"},
		{"not_found", "move", obj{"from": "f", "to": "d/g/x"}, "d/g/x does not exist: d/g is not a directory"},
		{"not_found", "write", obj{"path": "f/x", "content": ""}, "f/x does not exist: f is not a directory"},
		{"not_found", "edit", edit("no/x", "a", "b"), "the directory of no/x does not exist: mkdir makes it, or write with create_dirs"},
	} {
		assert.Contains(t, b.refused(c.reason, c.tool, c.in), c.want)
	}
	assert.Equal(t, []string{"d", "f"}, b.names(""))
	_, err := b.call("move", obj{"from": "d", "to": "e/"}) // of a directory it is one
	require.NoError(t, err)
	_, err = b.call("copy", obj{"from": "e", "to": "h/", "recursive": true})
	require.NoError(t, err)
	assert.Equal(t, []string{"e", "f", "h"}, b.names(""))
	b.put("a..b", "")
	b.write(obj{"path": "ends.", "content": ""})
	assert.Equal(t, []string{"a..b", "e", "ends.", "f", "h"}, b.names(""))
}
