package files

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteCreates(t *testing.T) {
	b := newBench(t)
	out, got := b.write(obj{"path": "a.txt", "content": "x\n"})
	assert.Equal(t, writeOutput{Path: "a.txt", BytesWritten: 2, Created: true, SHA256: sha("x\n")}, got)
	assert.Equal(t, []protocol.Mutation{{Op: "create", Path: "a.txt", SHA256: sha("x\n")}}, out.Mutations)
	assert.Equal(t, "Created a.txt (2 bytes)", out.Content[0].Text)
	assert.Equal(t, "x\n", b.get("a.txt"))

	// What a session wrote it has seen.
	out, got = b.write(obj{"path": "./a.txt", "content": ""})
	assert.Equal(t, writeOutput{Path: "a.txt", SHA256: sha("")}, got)
	assert.Equal(t, []protocol.Mutation{{Op: "modify", Path: "a.txt", SHA256: sha("")}}, out.Mutations)
	assert.Equal(t, "", b.get("a.txt"))

	b.write(obj{"path": `$'bad\xff.txt'`, "content": "y"}) // case 79
	assert.Equal(t, "y", b.get("bad\xff.txt"))
	b.write(obj{"path": "crlf", "content": "a\r\n\x00é"})
	assert.Equal(t, "a\r\n\x00é", b.get("crlf"))
	b.refused("invalid_params", "write", obj{"path": strings.Repeat("n", 300), "content": ""})
	assert.Equal(t, []string{"a.txt", "bad\xff.txt", "crlf"}, b.names(""), "no litter")
}

func TestWriteModesAndDirectories(t *testing.T) {
	b := newBench(t)
	b.put("f", "old")
	b.read(obj{"path": "f"})
	b.refused("conflict", "write", obj{"path": "f", "content": "x", "mode": "create"})
	b.refused("conflict", "write", obj{"path": "f", "content": "x", "mode": "create", "unsafe_overwrite": true})
	b.write(obj{"path": "g", "content": "x", "mode": "create"})
	b.write(obj{"path": "f", "content": "new", "mode": "overwrite"})
	assert.Equal(t, "new", b.get("f"))

	assert.Contains(t, b.refused("not_found", "write", obj{"path": "a/b/f", "content": ""}), "create_dirs")
	out, _ := b.write(obj{"path": `$'a/b\xff/f'`, "content": "x", "create_dirs": true})
	assert.Equal(t, []protocol.Mutation{{Op: "mkdir", Path: "a"}, {Op: "mkdir", Path: `$'a/b\xff'`},
		{Op: "create", Path: `$'a/b\xff/f'`, SHA256: sha("x")}}, out.Mutations)
	out, _ = b.write(obj{"path": "a/f", "content": "x", "create_dirs": true})
	assert.Len(t, out.Mutations, 1)

	// Nothing stays of directories that were made for nothing.
	b.refused("not_found", "write", obj{"path": "f/b/c", "content": "", "create_dirs": true})
	b.refused("invalid_params", "write", obj{"path": "a", "content": ""})
	b.refused("invalid_params", "write", obj{"path": "x/y/" + strings.Repeat("n", 300), "content": "", "create_dirs": true})
	assert.Equal(t, []string{"a", "f", "g"}, b.names(""))
}

// Case 63 and 65: the stale-write rule.
func TestStaleWrites(t *testing.T) {
	b := newBench(t)
	other := b.newSession(capabilities.Root{Path: b.path()})
	in := obj{"path": "f", "content": "mine"}

	b.put("f", "one\ntwo\n")
	assert.Contains(t, b.refused(protocol.ReasonStaleFile, "write", in), "has not read it")
	b.read(obj{"path": "f", "offset": 2, "limit": 1}) // a part is enough to have seen the file
	b.write(in)
	for i := range 3 { // one's own changes are no changes by others
		b.write(obj{"path": "f", "content": fmt.Sprint(i)})
	}

	// Another session has not read it, and changes it when it has.
	_, err := b.callIn(t.Context(), other, "write", in)
	refusal(t, protocol.ReasonStaleFile, err)
	_, err = b.callIn(t.Context(), other, "read", obj{"path": "f"})
	require.NoError(t, err)
	_, err = b.callIn(t.Context(), other, "write", obj{"path": "f", "content": "theirs"})
	require.NoError(t, err)
	assert.Contains(t, b.refused(protocol.ReasonStaleFile, "write", in), "has changed since")
	assert.Equal(t, "theirs", b.get("f"))

	// The content decides, not the time: touched, and changed back.
	b.read(obj{"path": "f"})
	b.put("f", "between")
	b.refused(protocol.ReasonStaleFile, "write", in)
	b.put("f", "theirs")
	b.write(in)

	// The same size in the same instant is a change nonetheless.
	info, err := os.Stat(b.path("f"))
	require.NoError(t, err)
	b.put("f", "MINE")
	require.NoError(t, os.Chtimes(b.path("f"), info.ModTime(), info.ModTime()))
	b.refused(protocol.ReasonStaleFile, "write", in)
	assert.Equal(t, "MINE", b.get("f"))
	_, got := b.write(obj{"path": "f", "content": "mine", "unsafe_overwrite": true})
	assert.False(t, got.Created)
	b.write(in)

	// Gone is not stale: there is nothing to lose.
	require.NoError(t, os.Remove(b.path("f")))
	_, got = b.write(in)
	assert.True(t, got.Created)

	// A binary file and an image count as read too.
	b.put("bin", "\x00")
	b.read(obj{"path": "bin"})
	b.write(obj{"path": "bin", "content": "text"})
	assert.Equal(t, []string{"bin", "f"}, b.names(""))
}

// A change from outside between the check and the rename is seen too.
func TestChangeAtTheLastMoment(t *testing.T) {
	b := newBench(t)
	b.put("f", "old")
	newTarget := func() *target {
		tg, _, err := b.files.aim(t.Context(), b.session, "f", false)
		require.NoError(t, err)
		t.Cleanup(tg.close)
		require.NoError(t, tg.look())
		require.NoError(t, tg.hash(t.Context()))
		return tg
	}
	tg := newTarget()
	b.put("f", "theirs")
	_, err := tg.write([]byte("mine"))
	refusal(t, protocol.ReasonStaleFile, err)
	assert.Equal(t, "theirs", b.get("f"))

	tg = newTarget()
	b.put("f", "theirs") // written again, the same
	_, err = tg.write([]byte("mine"))
	require.NoError(t, err)
	assert.Equal(t, "mine", b.get("f"))

	tg = newTarget()
	require.NoError(t, os.Remove(b.path("f")))
	_, err = tg.write([]byte("mine"))
	require.ErrorIs(t, err, protocol.ErrConflict)
	assert.Empty(t, b.names(""))

	tg.exists = false
	b.put("f", "newcomer")
	_, err = tg.write([]byte("mine"))
	refusal(t, protocol.ReasonStaleFile, err)
	assert.Equal(t, "newcomer", b.get("f"))
}

// Case 59: a link stays a link and its target gets the content.
func TestWriteThroughLinks(t *testing.T) {
	b := newBench(t)
	b.put("docs/real.md", "old")
	require.NoError(t, os.Symlink("docs/real.md", b.path("link.md")))
	require.NoError(t, os.Symlink(b.path("link.md"), b.path("abs.md")))
	require.NoError(t, os.Symlink("docs/later.md", b.path("dangling.md")))
	b.read(obj{"path": "docs/real.md"})
	for _, name := range []string{"link.md", "abs.md", "docs/real.md"} { // one file, seen by any name
		out, got := b.write(obj{"path": name, "content": name})
		assert.Equal(t, "docs/real.md", got.Path)
		assert.Equal(t, "docs/real.md", out.Mutations[0].Path)
		assert.Equal(t, name, b.get("docs/real.md"))
	}
	_, got := b.write(obj{"path": "dangling.md", "content": "x"})
	assert.True(t, got.Created)
	for _, name := range []string{"link.md", "abs.md", "dangling.md"} {
		info, err := os.Lstat(b.path(name))
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeSymlink, name)
	}
	assert.Equal(t, []string{"later.md", "real.md"}, b.names("docs"))
}

// Cases 81 and 82, for writing.
func TestWriteBoundary(t *testing.T) {
	b := newBench(t)
	b.put("../ws-secret/loot", "secret")
	require.NoError(t, os.Symlink("../ws-secret", b.path("d")))
	require.NoError(t, os.Symlink("../ws-secret/loot", b.path("leak")))
	require.NoError(t, os.Symlink("../ws-secret/none", b.path("dangling")))
	for _, path := range []string{"leak", "dangling", "d/f", "d/sub/f", "../ws-secret/f", b.path("../ws-secret/loot"), b.base + "/ws/../ws-secret/f"} {
		b.refused(protocol.ReasonWorkspaceBoundary, "write", obj{"path": path, "content": "x", "unsafe_overwrite": true, "create_dirs": true})
	}
	assert.Equal(t, []string{"loot"}, b.names("../ws-secret"))
	assert.Equal(t, "secret", b.get("../ws-secret/loot"))

	s := b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: b.path("../ws-secret"), ReadOnly: true})
	for _, path := range []string{"leak", "d/f", "d/sub/f"} {
		_, err := b.callIn(t.Context(), s, "write", obj{"path": path, "content": "x", "unsafe_overwrite": true, "create_dirs": true})
		refusal(t, protocol.ReasonWorkspaceReadOnly, err)
	}
	assert.Equal(t, []string{"loot"}, b.names("../ws-secret"))
}

// Of writers that saw the same content, one wins and the others are told.
func TestParallelWritesOfOneFile(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.MkdirAll(b.path("d"), 0o755))
	require.NoError(t, os.Symlink("d", b.path("e")))
	var writers sync.WaitGroup
	var mu sync.Mutex
	for round := range 10 {
		b.put("d/f", fmt.Sprint("round ", round))
		var sessions []*capabilities.Session
		for range 8 {
			s := b.newSession(capabilities.Root{Path: b.path()})
			_, err := b.callIn(t.Context(), s, "read", obj{"path": "d/f"})
			require.NoError(t, err)
			sessions = append(sessions, s)
		}
		won := 0
		for i, s := range sessions {
			writers.Go(func() {
				_, err := b.callIn(t.Context(), s, "write", obj{"path": []string{"d/f", "e/f"}[i%2], "content": fmt.Sprint("writer ", round, i)})
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won++
					return
				}
				refusal(t, protocol.ReasonStaleFile, err)
			})
		}
		writers.Wait()
		assert.Equal(t, 1, won)
	}

	// Different files go in parallel, and so do new ones of one name.
	created := 0
	for i := range 20 {
		writers.Go(func() {
			_, err := b.call("write", obj{"path": fmt.Sprint("new/", i%10), "content": "x", "create_dirs": true, "mode": "create"})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				created++
				return
			}
			refusal(t, "conflict", err)
		})
	}
	writers.Wait()
	assert.Equal(t, 10, created)
}

func TestLocks(t *testing.T) {
	var l locks
	release, err := l.acquire(t.Context(), "a")
	require.NoError(t, err)
	other, err := l.acquire(t.Context(), "b")
	require.NoError(t, err)
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.acquire(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	release()
	n := 0
	var users sync.WaitGroup
	for range 20 {
		users.Go(func() {
			release, err := l.acquire(context.Background(), "a")
			assert.NoError(t, err)
			n++
			release()
		})
	}
	users.Wait()
	assert.Equal(t, 20, n)
	assert.Empty(t, l.held)

	// One key for whatever leads to a file.
	dir, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	assert.Equal(t, fileKey(dir, "README", capabilities.Path{Abs: "/w/README"}), fileKey(dir, "readme", capabilities.Path{Abs: "/elsewhere/readme"}))
}

// Locks that are taken together are taken in one order, and given back when one of
// them cannot be had.
func TestLocksTogether(t *testing.T) {
	var l locks
	var users sync.WaitGroup
	for i := range 20 {
		users.Go(func() {
			keys := []string{"a", "b", "c", "a"}
			if i%2 == 0 {
				slices.Reverse(keys)
			}
			release, err := l.acquireAll(context.Background(), keys...)
			assert.NoError(t, err)
			release()
		})
	}
	users.Wait()
	release, err := l.acquire(t.Context(), "b")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.acquireAll(ctx, "a", "b")
	require.ErrorIs(t, err, context.Canceled)
	release()
	assert.Empty(t, l.held)
}
