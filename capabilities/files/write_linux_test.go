package files

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Case 61: both names of a hard-linked file have the new content, and a writer by
// one name knows of a change by the other.
func TestWriteHardLink(t *testing.T) {
	b := newBench(t)
	b.put("a", "old")
	require.NoError(t, os.Chmod(b.path("a"), 0o751))
	require.NoError(t, os.Link(b.path("a"), b.path("b")))
	b.read(obj{"path": "a"})
	out, got := b.write(obj{"path": "a", "content": "new"})
	assert.True(t, got.InPlace)
	assert.Contains(t, out.Content[0].Text, "in place")
	assert.Equal(t, "new", b.get("b"))
	b.refused(protocol.ReasonStaleFile, "write", obj{"path": "b", "content": "x"})
	b.read(obj{"path": "b"})
	b.write(obj{"path": "b", "content": "newer\n"})
	b.refused(protocol.ReasonStaleFile, "write", obj{"path": "a", "content": "x"})

	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			name := []string{"a", "b"}[i%2]
			_, err := b.call("write", obj{"path": name, "content": strings.Repeat(fmt.Sprintln(i), 10_000), "unsafe_overwrite": true})
			assert.NoError(t, err)
		})
		writers.Go(func() {
			out, err := b.call("read", obj{"path": "a"})
			assert.NoError(t, err)
			got := out.Structured.(readOutput)
			all := strings.Split(got.Content, "\n")
			assert.Equal(t, strings.Repeat(all[0]+"\n", len(all)-1), got.Content, "no reader sees half a change")
		})
	}
	writers.Wait()
	lines := strings.Split(strings.TrimSuffix(b.get("a"), "\n"), "\n")
	assert.Len(t, lines, 10_000)
	for _, l := range lines {
		require.Equal(t, lines[0], l, "one writer's content, whole")
	}
	a, err := os.Stat(b.path("a"))
	require.NoError(t, err)
	bb, err := os.Stat(b.path("b"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(a, bb))
	assert.Equal(t, os.FileMode(0o751), a.Mode())
	assert.Equal(t, []string{"a", "b"}, b.names(""))
}

// A writer waits for the one that has the file, by its name or by its inode.
func TestWriteWaitsForTheLock(t *testing.T) {
	b := newBench(t)
	b.put("a", "old")
	require.NoError(t, os.Link(b.path("a"), b.path("b")))
	info, err := os.Stat(b.path("a"))
	require.NoError(t, err)
	dir, err := os.OpenRoot(b.path())
	require.NoError(t, err)
	defer dir.Close()
	for _, key := range []string{fileKey(dir, "b", capabilities.Path{}), inodeKey(info)} {
		release, err := b.files.locks.acquire(t.Context(), key)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = b.callIn(ctx, b.session, "write", obj{"path": "b", "content": "x", "unsafe_overwrite": true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		release()
		assert.Equal(t, "old", b.get("a"))
	}
	b.write(obj{"path": "b", "content": "x", "unsafe_overwrite": true})
	assert.Empty(t, b.files.locks.held)
}

// Case 67: a FIFO that takes the file's name at the wrong moment stops nobody.
func TestSwappedFile(t *testing.T) {
	b := newBench(t)
	b.put("f", "text")
	require.NoError(t, syscall.Mkfifo(b.path("pipe"), 0o644))
	stop := exchange(t, b.path("f"), b.path("pipe"))
	for range 2000 {
		out, err := b.call("read", obj{"path": "f"})
		if err == nil {
			assert.Equal(t, "text", out.Structured.(readOutput).Content)
		}
	}
	stop()
}

// exchange swaps two names and back, as fast as it goes, until stop is called.
func exchange(t *testing.T, one, two string) (stop func()) {
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			for range 2 { // and back
				assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, two, unix.RENAME_EXCHANGE))
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	return func() { close(done); swapping.Wait() }
}

// Case 66: a full disk is an error and the old content is still there.
func TestWriteDiskFull(t *testing.T) {
	b := newBench(t)
	old := strings.Repeat("old\n", 1000)
	if err := syscall.Mount("tmpfs", b.path(), "tmpfs", 0, "size=1m"); err == nil {
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(b.path(), syscall.MNT_DETACH)) })
		b.put("filler", strings.Repeat("x", 1<<20-64<<10))
	} else { // no right to: a limit on the size of files stands in
		signal.Ignore(syscall.SIGXFSZ)
		var was syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(unix.RLIMIT_FSIZE, &was))
		require.NoError(t, syscall.Setrlimit(unix.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64 << 10, Max: was.Max}))
		t.Cleanup(func() {
			require.NoError(t, syscall.Setrlimit(unix.RLIMIT_FSIZE, &was))
			signal.Reset(syscall.SIGXFSZ)
		})
		b.put("filler", "x")
	}
	b.session = b.newSession(b.session.Workspace().Roots()...) // the old one's root is below the mount
	b.put("f", old)
	b.read(obj{"path": "f"})
	content := strings.Repeat("n", 100<<10)
	assert.Contains(t, b.refused("resource_unavailable", "write", obj{"path": "f", "content": content}), "no space left")
	b.refused("resource_unavailable", "write", obj{"path": "new/g", "content": content, "create_dirs": true})
	grow := edit("f", "old\n", strings.Repeat("o", 100)+"\n")
	grow["replace_all"] = true
	b.refused("resource_unavailable", "edit", grow)
	b.refused("resource_unavailable", "multi_edit", obj{"edits": []obj{grow}})
	assert.Equal(t, old, b.get("f"))
	assert.Equal(t, []string{"f", "filler"}, b.names(""), "no litter")
	b.write(obj{"path": "f", "content": "small"}) // it still counts as read
}

// The bits and the owner of a file survive a write.
func TestWriteKeepsMode(t *testing.T) {
	b := newBench(t)
	b.put("run.sh", "old")
	require.NoError(t, os.Chmod(b.path("run.sh"), 0o755|os.ModeSetuid))
	before, err := os.Stat(b.path("run.sh"))
	require.NoError(t, err)
	b.read(obj{"path": "run.sh"})
	b.write(obj{"path": "run.sh", "content": "new"})
	after, err := os.Stat(b.path("run.sh"))
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
	assert.False(t, os.SameFile(before, after))
}

// A directory of the path is swapped for a link to the outside and back while
// files below it are read and written: nothing outside is seen or changed.
func TestSwappedDirectory(t *testing.T) {
	b := newBench(t)
	b.put("d/f", "inside")
	b.put("../outside/f", "secret")
	require.NoError(t, os.Symlink("../outside", b.path("link")))
	stop := exchange(t, b.path("d"), b.path("link"))
	done := map[string]int{}
	rounds := full(3000, 500)
	for i := range rounds {
		out, err := b.call("read", obj{"path": "d/f"})
		if err == nil {
			done["read"]++
			assert.NotContains(t, out.Content[0].Text, "secret")
		}
		if i%4 == 0 {
			_, err = b.call("write", obj{"path": "d/f", "content": "inside", "unsafe_overwrite": true})
			if err == nil {
				done["written"]++
			}
		}
		if i%4 == 1 {
			_, _ = b.call("write", obj{"path": "d/new", "content": "inside", "unsafe_overwrite": true})
		}
	}
	stop()
	t.Logf("%v of %d", done, rounds)
	assert.Equal(t, "secret", b.get("../outside/f"))
	assert.Equal(t, []string{"f"}, b.names("../outside"))
	for _, name := range b.names("d") {
		assert.Contains(t, []string{"f", "new"}, name, "litter")
	}
}
