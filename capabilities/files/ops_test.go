package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ok calls a tool, which must work.
func (b *bench) ok(tool string, input obj) protocol.ToolOutput {
	b.t.Helper()
	out, err := b.call(tool, input)
	require.NoError(b.t, err)
	return out
}

func (b *bench) exists(name string) bool {
	_, err := os.Lstat(b.path(name))
	return err == nil
}

func TestMkdir(t *testing.T) {
	b := newBench(t)
	out := b.ok("mkdir", obj{"path": "a/b/c"})
	assert.Equal(t, mkdirOutput{"a/b/c", true}, out.Structured)
	assert.Equal(t, []protocol.Mutation{{Op: "mkdir", Path: "a"}, {Op: "mkdir", Path: "a/b"}, {Op: "mkdir", Path: "a/b/c"}}, out.Mutations)
	out = b.ok("mkdir", obj{"path": "a/b/"})
	assert.Equal(t, mkdirOutput{"a/b", false}, out.Structured)
	assert.Empty(t, out.Mutations)
	b.put("f", "x")
	b.refused("conflict", "mkdir", obj{"path": "f"})
	b.refused("not_found", "mkdir", obj{"path": "f/d"})
	b.refused(protocol.ReasonWorkspaceBoundary, "mkdir", obj{"path": "../x"})
	require.NoError(t, os.Symlink("../outside", b.path("leak")))
	b.refused(protocol.ReasonWorkspaceBoundary, "mkdir", obj{"path": "leak/d"})
	b.refused(protocol.ReasonWorkspaceBoundary, "mkdir", obj{"path": "leak"})
	b.ok("mkdir", obj{"path": `$'bad\xff'`})
	assert.Equal(t, []string{"a", "bad\xff", "f", "leak"}, b.names(""))
}

func TestMove(t *testing.T) {
	b := newBench(t)
	b.put("f", "x")
	b.put("d/g", "y")
	b.read(obj{"path": "f"})
	out := b.ok("move", obj{"from": "f", "to": "d/f2"})
	assert.Equal(t, []protocol.Mutation{{Op: "move", Path: "d/f2", From: "f"}}, out.Mutations)
	assert.Equal(t, "x", b.get("d/f2"))
	b.write(obj{"path": "d/f2", "content": "z"}) // it was read under the old name

	assert.Contains(t, b.refused("conflict", "move", obj{"from": "d/f2", "to": "d/g"}), "overwrite")
	b.ok("move", obj{"from": "d/f2", "to": "d/g", "overwrite": true})
	assert.Equal(t, "z", b.get("d/g"))
	b.refused("not_found", "move", obj{"from": "d/f2", "to": "h"})
	b.refused("not_found", "move", obj{"from": "d/g", "to": "no/where"})
	b.refused("invalid_params", "move", obj{"from": "d/g", "to": "./d/g"})
	b.refused("invalid_params", "move", obj{"from": "d", "to": "d/e"})
	b.put("e/h", "")
	b.refused("conflict", "move", obj{"from": "d", "to": "e", "overwrite": true})
	b.refused("conflict", "move", obj{"from": "d/g", "to": "e", "overwrite": true})
	b.refused("conflict", "move", obj{"from": "d", "to": "e/h", "overwrite": true})
	b.ok("move", obj{"from": "d", "to": "e/d"}) // a directory, without more ado
	assert.Equal(t, "z", b.get("e/d/g"))
	b.write(obj{"path": "e/d/g", "content": "zz"}) // also what is below it keeps what is known of it

	// Two names of one file: the old one goes.
	require.NoError(t, os.Link(b.path("e/d/g"), b.path("second")))
	b.refused("conflict", "move", obj{"from": "e/d/g", "to": "second"})
	b.ok("move", obj{"from": "e/d/g", "to": "second", "overwrite": true})
	assert.False(t, b.exists("e/d/g"))
	assert.Equal(t, "zz", b.get("second"))

	// A root, what holds one, and what is outside. Cases 81 and 82.
	b.put("../outside/o", "secret")
	require.NoError(t, os.Symlink("../outside", b.path("leak")))
	b.refused(protocol.ReasonWorkspaceBoundary, "move", obj{"from": ".", "to": "x"})
	b.refused(protocol.ReasonWorkspaceBoundary, "move", obj{"from": "leak/o", "to": "x"})
	b.refused(protocol.ReasonWorkspaceBoundary, "move", obj{"from": "second", "to": "leak/x"})
	b.refused(protocol.ReasonWorkspaceBoundary, "move", obj{"from": "second", "to": "../x"})
	b.ok("move", obj{"from": "leak", "to": "link"}) // the link itself
	assert.Equal(t, []string{"e", "link", "second"}, b.names(""))
	b.put("top/inner/ro", "")
	s := b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: b.path("top/inner"), ReadOnly: true})
	for _, in := range []obj{{"from": "top", "to": "x"}, {"from": "second", "to": "top", "overwrite": true}} {
		_, err := b.callIn(t.Context(), s, "move", in)
		assert.Contains(t, refusal(t, protocol.ReasonWorkspaceBoundary, err), "a root of the workspace")
	}
	_, err := b.callIn(t.Context(), s, "move", obj{"from": "top/inner/ro", "to": "x"})
	refusal(t, protocol.ReasonWorkspaceReadOnly, err)
}

// Case 86: a recursive delete removes links, never what they lead to.
func TestDelete(t *testing.T) {
	b := newBench(t)
	b.put("../precious/p", "precious")
	b.put("inside/q", "precious")
	b.put("tree/a/b/f", "x")
	b.put("tree/g", "x")
	for _, l := range []string{"tree/link", "tree/a/link"} {
		require.NoError(t, os.Symlink(b.path("../precious"), b.path(l)))
		require.NoError(t, os.Symlink(b.path("inside"), b.path(l+"2")))
	}
	require.NoError(t, os.Symlink("nowhere", b.path("tree/broken")))
	assert.Contains(t, b.refused("conflict", "delete", obj{"path": "tree"}), "recursive")
	out := b.ok("delete", obj{"path": "tree/link/"})
	assert.Equal(t, deleteOutput{"tree/link", "symlink", 1}, out.Structured)
	out = b.ok("delete", obj{"path": "tree", "recursive": true})
	assert.Equal(t, deleteOutput{"tree", "directory", 9}, out.Structured)
	assert.Equal(t, []protocol.Mutation{{Op: "delete", Path: "tree"}}, out.Mutations)
	assert.Equal(t, "precious", b.get("../precious/p"))
	assert.Equal(t, "precious", b.get("inside/q"))

	b.put("d/f", "x")
	b.ok("delete", obj{"path": "d/f"})
	b.ok("delete", obj{"path": "d"}) // empty
	b.put("bad\xff", "")
	b.ok("delete", obj{"path": `$'bad\xff'`}) // case 79
	b.refused("not_found", "delete", obj{"path": "d"})
	b.refused(protocol.ReasonWorkspaceBoundary, "delete", obj{"path": ".", "recursive": true})
	b.refused(protocol.ReasonWorkspaceBoundary, "delete", obj{"path": "../precious", "recursive": true})
	require.NoError(t, os.Symlink("../precious", b.path("leak")))
	b.refused(protocol.ReasonWorkspaceBoundary, "delete", obj{"path": "leak/p"})

	b.put("top/inner/f", "")
	s := b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: b.path("top/inner"), ReadOnly: true})
	_, err := b.callIn(t.Context(), s, "delete", obj{"path": "top", "recursive": true})
	assert.Contains(t, refusal(t, protocol.ReasonWorkspaceBoundary, err), "holds")
	assert.True(t, b.exists("top/inner/f"))

	// What was deleted and is there again was not seen.
	b.put("f", "x")
	b.read(obj{"path": "f"})
	b.ok("delete", obj{"path": "f"})
	b.put("f", "x")
	b.refused(protocol.ReasonStaleFile, "write", obj{"path": "f", "content": "y"})
}

func TestCopy(t *testing.T) {
	b := newBench(t)
	b.put("f", "content")
	require.NoError(t, os.Chmod(b.path("f"), 0o750))
	out := b.ok("copy", obj{"from": "f", "to": "g"})
	assert.Equal(t, copyOutput{From: "f", To: "g", Copied: 1, Bytes: 7, SHA256: sha("content")}, out.Structured)
	assert.Equal(t, []protocol.Mutation{{Op: "create", Path: "g", SHA256: sha("content")}}, out.Mutations)
	info, err := os.Stat(b.path("g"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), info.Mode())
	assert.Contains(t, b.refused("conflict", "copy", obj{"from": "f", "to": "g"}), "overwrite")
	b.put("h", "other")
	b.ok("copy", obj{"from": "h", "to": "g", "overwrite": true})
	assert.Equal(t, "other", b.get("g"))
	require.NoError(t, os.Symlink("g", b.path("link")))
	b.refused("invalid_params", "copy", obj{"from": "g", "to": "link", "overwrite": true})
	b.refused("invalid_params", "copy", obj{"from": "g", "to": "g", "overwrite": true})
	b.ok("copy", obj{"from": "f", "to": "link", "overwrite": true}) // through the link, as write does
	assert.Equal(t, "content", b.get("g"))

	// Cases 81 and 82.
	b.put("../outside/o", "secret")
	require.NoError(t, os.Symlink("../outside/o", b.path("leak")))
	b.refused(protocol.ReasonWorkspaceBoundary, "copy", obj{"from": "leak", "to": "x"})
	b.refused(protocol.ReasonWorkspaceBoundary, "copy", obj{"from": "f", "to": "leak", "overwrite": true})
	b.refused(protocol.ReasonWorkspaceBoundary, "copy", obj{"from": "../outside/o", "to": "x"})
	b.refused("not_found", "copy", obj{"from": "none", "to": "x"})
	b.refused("not_found", "copy", obj{"from": "f", "to": "no/x"})
	assert.False(t, b.exists("x"))
	assert.Equal(t, "secret", b.get("../outside/o"))
}

func TestCopyDirectory(t *testing.T) {
	b := newBench(t)
	b.put("../outside/o", "secret")
	b.put("d/a/f", "x")
	b.put("d/bad\xff", "y")
	require.NoError(t, os.Chmod(b.path("d/a/f"), 0o555))
	require.NoError(t, os.Chmod(b.path("d/a"), 0o750))
	require.NoError(t, os.Symlink("../../outside", b.path("d/link")))
	b.refused("invalid_params", "copy", obj{"from": "d", "to": "e"})
	b.refused("invalid_params", "copy", obj{"from": "d", "to": "d/e", "recursive": true})
	b.refused("invalid_params", "copy", obj{"from": "d", "to": "d", "recursive": true})
	out := b.ok("copy", obj{"from": "d", "to": "e", "recursive": true})
	assert.Equal(t, copyOutput{From: "d", To: "e", Copied: 5, Bytes: 2}, out.Structured)
	assert.Equal(t, []protocol.Mutation{{Op: "create", Path: "e"}}, out.Mutations)
	assert.Equal(t, []string{"a", "bad\xff", "link"}, b.names("e"))
	assert.Equal(t, "x", b.get("e/a/f"))
	target, err := os.Readlink(b.path("e/link"))
	require.NoError(t, err)
	assert.Equal(t, "../../outside", target)
	for name, mode := range map[string]os.FileMode{"e/a/f": 0o555, "e/a": 0o750 | os.ModeDir} {
		info, err := os.Stat(b.path(name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), name)
	}
	assert.Contains(t, b.refused("conflict", "copy", obj{"from": "d", "to": "e", "recursive": true, "overwrite": true}), "exists already")
	assert.Equal(t, []string{"d", "e"}, b.names(""), "no litter")
}

func TestSetExecutable(t *testing.T) {
	b := newBench(t)
	b.put("run", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(b.path("run"), 0o640))
	mode := func() os.FileMode {
		info, err := os.Stat(b.path("run"))
		require.NoError(t, err)
		return info.Mode()
	}
	out := b.ok("set_executable", obj{"path": "run"})
	assert.Equal(t, os.FileMode(0o750), mode())
	assert.Equal(t, []protocol.Mutation{{Op: "chmod", Path: "run"}}, out.Mutations)
	assert.Equal(t, setExecutableOutput{"run", true, "0750", true}, out.Structured)
	out = b.ok("set_executable", obj{"path": "run", "executable": true})
	assert.Empty(t, out.Mutations)
	b.ok("set_executable", obj{"path": "run", "executable": false})
	assert.Equal(t, os.FileMode(0o640), mode())
	b.refused("not_found", "set_executable", obj{"path": "none"})
	b.refused("invalid_params", "set_executable", obj{"path": "."})
	require.NoError(t, os.Symlink("/bin/sh", b.path("leak")))
	b.refused(protocol.ReasonWorkspaceBoundary, "set_executable", obj{"path": "leak"})
}

func TestDiff(t *testing.T) {
	b := newBench(t)
	b.put("a", "one\ntwo\nthree\n")
	b.put("b", "one\n2\nthree")
	out := b.ok("diff", obj{"path_a": "a", "path_b": "b"})
	want := "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
	assert.Equal(t, diffOutput{Diff: want}, out.Structured)
	assert.Equal(t, want, out.Content[0].Text)
	out = b.ok("diff", obj{"path_a": "a", "content_b": "one\nTWO\nthree\n", "context": 0})
	assert.Equal(t, "--- a\n+++ a (content_b)\n@@ -2 +2 @@\n-two\n+TWO\n", out.Structured.(diffOutput).Diff)
	out = b.ok("diff", obj{"path_a": "a", "content_b": "one\ntwo\nthree\n"})
	assert.True(t, out.Structured.(diffOutput).Identical)
	assert.Contains(t, out.Content[0].Text, "identical")
	out = b.ok("diff", obj{"path_a": "a", "content_b": ""})
	assert.Equal(t, "--- a\n+++ a (content_b)\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n", out.Structured.(diffOutput).Diff)
	b.put("bin", "\x00\x01\x02")
	out = b.ok("diff", obj{"path_a": "a", "path_b": "bin"})
	assert.True(t, out.Structured.(diffOutput).Binary)
	assert.Contains(t, out.Content[0].Text, "differ; binary")
	b.put("latin", "caf\xe9\n")
	assert.Contains(t, b.ok("diff", obj{"path_a": "a", "path_b": "latin"}).Content[0].Text, "[not UTF-8: 1 byte")
	wide := "\xff\xfeo\x00n\x00e\x00\n\x00" // UTF-16, as read, edit and grep take it
	b.put("wide", wide)
	b.put("wide2", wide+"2\x00\n\x00")
	b.put("big-endian", "\xfe\xff\x00o\x00n\x00e\x00\n")
	b.put("mark", utf8Mark+"one\ntwo\nthree\n")
	b.put("half", wide+"\x00\xd8\n\x00")
	b.put("half2", wide+"\x01\xd8\n\x00")
	for _, c := range []struct {
		a, b  string
		want  diffOutput
		about string
	}{
		{"wide", "wide2", diffOutput{Diff: "--- wide\n+++ wide2\n@@ -1 +1,2 @@\n one\n+2\n"}, "[both are utf-16le]"},
		{"wide", "big-endian", diffOutput{EncodingA: "utf-16le", EncodingB: "utf-16be"}, "[wide and big-endian have the same text]\n[wide is utf-16le, big-endian is utf-16be; their texts are compared]"},
		{"mark", "a", diffOutput{EncodingA: "utf-8-bom", EncodingB: "utf-8"}, "[mark and a have the same text]\n[mark is utf-8-bom, a is utf-8; "},
		{"wide", "mark", diffOutput{Diff: "--- wide\n+++ mark\n@@ -1 +1,3 @@\n one\n+two\n+three\n", EncodingA: "utf-16le", EncodingB: "utf-8-bom"}, "[wide is utf-16le, mark is utf-8-bom; "},
		{"wide", "half", diffOutput{Diff: "--- wide\n+++ half\n@@ -1 +1,2 @@\n one\n+\ufffd\n"}, ""},
		{"half", "half2", diffOutput{}, "[half and half2 have the same text but for characters that are damaged]"},
		{"wide", "bin", diffOutput{Binary: true}, "binary, not shown"},
		{"wide", "wide", diffOutput{Identical: true}, "identical"},
	} {
		out = b.ok("diff", obj{"path_a": c.a, "path_b": c.b})
		assert.Equal(t, c.want, out.Structured, c)
		assert.Contains(t, out.Content[0].Text, c.about)
	}
	out = b.ok("diff", obj{"path_a": "wide", "content_b": "one\nmore\n"})
	assert.Equal(t, "--- wide\n+++ wide (content_b)\n@@ -1 +1,2 @@\n one\n+more\n", out.Structured.(diffOutput).Diff)
	b.refused("invalid_params", "diff", obj{"path_a": "a"})
	b.refused("invalid_params", "diff", obj{"path_a": "a", "path_b": "b", "content_b": ""})
	b.refused("invalid_params", "diff", obj{"path_a": "a", "path_b": "b", "context": -1})
	b.refused("not_found", "diff", obj{"path_a": "a", "path_b": "none"})
	b.refused(protocol.ReasonWorkspaceBoundary, "diff", obj{"path_a": "a", "path_b": "/etc/passwd"})
	b.put("long", strings.Repeat("a line\n", 20_000))
	out = b.ok("diff", obj{"path_a": "long", "content_b": ""})
	assert.True(t, out.Structured.(diffOutput).Truncated)
}

func TestList(t *testing.T) {
	b := newBench(t)
	b.put("b.go", "package b\n")
	b.put("a/c.go", "x")
	b.put("a/.hidden", "")
	b.put(".git/config", "")
	b.put("bad\xff.txt", "")
	require.NoError(t, os.Symlink("/nope", b.path("broken"))) // case 73
	when := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	require.NoError(t, os.Chtimes(b.path("b.go"), when, when))
	out := b.ok("list_files", obj{})
	got := out.Structured.(listOutput)
	paths := func(o protocol.ToolOutput) (all []string) {
		for _, e := range o.Structured.(listOutput).Entries {
			all = append(all, e.Path)
		}
		return all
	}
	assert.Equal(t, []string{".git", "a", "b.go", `$'bad\xff.txt'`, "broken"}, paths(out)) // case 79
	assert.Equal(t, listEntry{Path: "b.go", Type: "file", Size: 10, MTime: "2026-01-02T03:04:05.006Z"}, got.Entries[2])
	assert.Equal(t, "/nope", got.Entries[4].Target)
	assert.Equal(t, "directory", got.Entries[1].Type)
	assert.False(t, got.Truncated)
	assert.Contains(t, out.Content[0].Text, "          10  2026-01-02T03:04  b.go\n")
	assert.Contains(t, out.Content[0].Text, "broken -> /nope\n")

	out = b.ok("list_files", obj{"recursive": true})
	assert.Equal(t, []string{".git", "a", "b.go", `$'bad\xff.txt'`, "broken", "a/.hidden", "a/c.go"}, paths(out))
	assert.Contains(t, out.Content[0].Text, "[not entered: .git]")
	assert.Equal(t, []string{"b.go", "a/c.go"}, paths(b.ok("list_files", obj{"recursive": true, "glob": "*.go"})))
	assert.Equal(t, []string{"a/c.go"}, paths(b.ok("list_files", obj{"glob": "a/**/*.{go,rs}"})))
	assert.Equal(t, []string{"a/c.go"}, paths(b.ok("list_files", obj{"path": "a", "glob": "c.*"})))
	out = b.ok("list_files", obj{"limit": 2})
	assert.Equal(t, []string{".git", "a"}, paths(out))
	assert.True(t, out.Structured.(listOutput).Truncated)
	assert.Contains(t, out.Content[0].Text, "[2 of 5 entries; limit shows up to 5,000")
	assert.Contains(t, b.ok("list_files", obj{"glob": "*.none"}).Content[0].Text, "nothing to list")

	b.refused("not_found", "list_files", obj{"path": "none"})
	assert.Equal(t, "b.go is not a directory but a file: read shows a file, stat describes it", b.refused("invalid_params", "list_files", obj{"path": "b.go"}))
	b.refused("invalid_params", "stat", obj{"path": "b.go", "glob": "*"})
	b.refused("not_found", "list_files", obj{"path": "b.go/x"})
	b.refused("invalid_params", "list_files", obj{"glob": "[a"})
	b.refused("invalid_params", "list_files", obj{"limit": 1_000_000})
	b.put("../outside/o", "")
	require.NoError(t, os.Symlink("../outside", b.path("d"))) // case 82
	b.refused(protocol.ReasonWorkspaceBoundary, "list_files", obj{"path": "d"})
	assert.NotContains(t, paths(b.ok("list_files", obj{"recursive": true})), "d/o")
}

// full is the size of a test in full, which EXECUTOR_STRESS=1 asks for, or less.
func full[N any](all, less N) N {
	if os.Getenv("EXECUTOR_STRESS") != "" {
		return all
	}
	return less
}

// A directory of 100,000 files is listed in its order, and says how many there are.
func TestListLargeDirectory(t *testing.T) {
	b := newBench(t)
	n := full(100_000, 8_000)
	dir := b.path("many")
	require.NoError(t, os.Mkdir(dir, 0o755))
	first := filepath.Join(dir, "00000")
	require.NoError(t, os.WriteFile(first, nil, 0o644))
	for i := 1; i < n; i++ { // names of one file are made faster than files
		name := filepath.Join(dir, fmt.Sprintf("%05d", i*7919%n))
		if err := os.Link(first, name); err != nil {
			if first = name; os.WriteFile(name, nil, 0o644) != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	out := b.ok("list_files", obj{"path": "many", "limit": 1000})
	got := out.Structured.(listOutput)
	assert.Less(t, time.Since(began), 5*time.Second)
	assert.Equal(t, n, got.Total)
	assert.True(t, got.Truncated)
	require.Len(t, got.Entries, 1000)
	for i, e := range got.Entries {
		require.Equal(t, fmt.Sprintf("many/%05d", i), e.Path)
	}
	out = b.ok("delete", obj{"path": "many", "recursive": true})
	assert.Equal(t, n+1, out.Structured.(deleteOutput).Deleted)
}

func TestStat(t *testing.T) {
	b := newBench(t)
	b.put("main.go", "package main\n\nfunc main() {}\n")
	b.put("tool", "#!/usr/bin/env python3\nprint()\n")
	b.put("bin", "\x00\x01")
	b.put("d/x.md", "no end")
	require.NoError(t, os.Chmod(b.path("tool"), 0o755))
	require.NoError(t, os.Symlink("/etc/passwd", b.path("leak")))
	one := func(path string) statEntry {
		out := b.ok("stat", obj{"path": path})
		require.Len(t, out.Structured.(statOutput).Entries, 1)
		return out.Structured.(statOutput).Entries[0]
	}
	lines := func(n int64) *int64 { return &n }
	e := one("main.go")
	e.MTime = ""
	assert.Equal(t, statEntry{Path: "main.go", Exists: true, Type: "file", Size: 29, Mode: "0644", SHA256: sha(b.get("main.go")), Lines: lines(3), Language: "go"}, e)
	e = one("tool")
	assert.Equal(t, "python", e.Language)
	assert.Equal(t, "0755", e.Mode)
	e = one("bin")
	assert.True(t, e.Binary)
	assert.Nil(t, e.Lines)
	assert.NotEmpty(t, e.SHA256)
	assert.Equal(t, "directory", one("d").Type)
	assert.Equal(t, "directory", one(".").Type)
	e = one("leak")
	assert.Equal(t, "symlink", e.Type)
	assert.Equal(t, "/etc/passwd", e.Target)
	assert.Equal(t, statEntry{Path: "none"}, one("none"))
	assert.Equal(t, statEntry{Path: "none/none"}, one("none/none"))
	b.refused(protocol.ReasonWorkspaceBoundary, "stat", obj{"path": "../x"})
	b.refused(protocol.ReasonWorkspaceBoundary, "stat", obj{"path": "/etc/passwd"})
	b.refused("invalid_params", "stat", obj{})

	out := b.ok("stat", obj{"glob": "**/*.{go,md}"})
	all := out.Structured.(statOutput).Entries
	require.Len(t, all, 2)
	assert.Equal(t, "main.go", all[0].Path)
	assert.Equal(t, "d/x.md", all[1].Path)
	assert.Equal(t, lines(1), all[1].Lines)
	assert.Contains(t, b.ok("stat", obj{"glob": "*.none"}).Content[0].Text, "nothing matches")

	for i := range 205 {
		b.put(fmt.Sprint("many/", i), "")
	}
	out = b.ok("stat", obj{"glob": "many/*"})
	got := out.Structured.(statOutput)
	assert.Len(t, got.Entries, 200)
	assert.Equal(t, 205, got.Total)
	assert.True(t, got.Truncated)
	assert.Contains(t, out.Content[0].Text, "\n[only the first 200 of 205; a narrower pattern")
	b.put(".git/config", "")
	assert.Contains(t, b.ok("stat", obj{"glob": "**/config"}).Content[0].Text, "[nothing matches **/config]\n[not entered: .git]")

	f, err := os.Create(b.path("sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2<<30))
	require.NoError(t, f.Close())
	began := time.Now()
	e = one("sparse")
	assert.Equal(t, int64(2<<30), e.Size)
	assert.Empty(t, e.SHA256)
	assert.Less(t, time.Since(began), time.Second)
}
