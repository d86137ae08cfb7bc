package files

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mount puts another file system at a directory of the workspace, where that may be
// done.
func (b *bench) mount(name string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(b.path(name), 0o755))
	if err := syscall.Mount("tmpfs", b.path(name), "tmpfs", 0, "size=8m"); err != nil {
		b.t.Skipf("mount: %v", err)
	}
	b.t.Cleanup(func() { assert.NoError(b.t, syscall.Unmount(b.path(name), syscall.MNT_DETACH)) })
}

// Case 67: no tool waits for what has no end, and a copy leaves it out.
func TestSpecialFilesInAllTools(t *testing.T) {
	b := newBench(t)
	b.put("d/f", "text\n")
	require.NoError(t, syscall.Mkfifo(b.path("d/pipe"), 0o644))
	t.Chdir(b.path("d"))
	listener, err := net.Listen("unix", "sock")
	require.NoError(t, err)
	defer listener.Close()
	began := time.Now()
	for _, name := range []string{"d/pipe", "d/sock"} {
		for tool, in := range map[string]obj{
			"read": {}, "write": {"content": "x", "unsafe_overwrite": true}, "edit": {"old_string": "a", "new_string": "b"}, "set_executable": {},
		} {
			in["path"] = name
			b.refused("invalid_params", tool, in)
		}
		b.refused("invalid_params", "multi_edit", obj{"edits": []obj{edit(name, "a", "b")}})
		b.refused("invalid_params", "diff", obj{"path_a": name, "content_b": ""})
		b.refused("invalid_params", "copy", obj{"from": name, "to": "x"})
		b.refused("invalid_params", "copy", obj{"from": "d/f", "to": name, "overwrite": true})
	}
	out := b.ok("stat", obj{"glob": "d/*"})
	types := map[string]string{}
	for _, e := range out.Structured.(statOutput).Entries {
		types[e.Path] = e.Type
	}
	assert.Equal(t, map[string]string{"d/f": "file", "d/pipe": "fifo", "d/sock": "socket"}, types)
	b.ok("list_files", obj{"path": "d"})
	out = b.ok("copy", obj{"from": "d", "to": "e", "recursive": true})
	assert.Equal(t, copyOutput{From: "d", To: "e", Copied: 2, Skipped: 2, Bytes: 5}, out.Structured)
	assert.Contains(t, out.Content[0].Text, "[2 left out: d/")
	b.ok("move", obj{"from": "d/pipe", "to": "pipe"})
	b.ok("delete", obj{"path": "pipe"})
	assert.Less(t, time.Since(began), 2*time.Second)
}

// A move to another file system is whole or has not been: what is moved keeps what it
// has, and what cannot be moved stays.
func TestMoveAcrossDevices(t *testing.T) {
	b := newBench(t)
	b.mount("other")
	b.session = b.newSession(b.session.Workspace().Roots()...)
	b.put("d/a/f", "x")
	b.put("d/g", strings.Repeat("y", 100_000))
	require.NoError(t, os.Symlink("../outside", b.path("d/link")))
	require.NoError(t, os.Chmod(b.path("d/a/f"), 0o4711|os.ModeSetuid))
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, os.Chtimes(b.path("d/a/f"), when, when))
	require.NoError(t, os.Chtimes(b.path("d/a"), when, when))
	b.read(obj{"path": "d/g"})
	out := b.ok("move", obj{"from": "d", "to": "other/d"})
	assert.Equal(t, moveOutput{From: "d", To: "other/d", Type: "directory", Copied: true}, out.Structured)
	assert.Equal(t, []protocol.Mutation{{Op: "move", Path: "other/d", From: "d"}}, out.Mutations)
	assert.Equal(t, []string{"other"}, b.names(""))
	assert.Equal(t, []string{"d"}, b.names("other"))
	info, err := os.Stat(b.path("other/d/a/f"))
	require.NoError(t, err)
	assert.Equal(t, os.ModeSetuid|0o711, info.Mode())
	assert.True(t, info.ModTime().Equal(when))
	info, err = os.Stat(b.path("other/d/a"))
	require.NoError(t, err)
	assert.True(t, info.ModTime().Equal(when))
	b.write(obj{"path": "other/d/g", "content": "known"})

	b.ok("move", obj{"from": "other/d/g", "to": "g"})
	assert.Equal(t, "known", b.get("g"))
	b.refused("conflict", "move", obj{"from": "g", "to": "other/d/a/f"})
	b.ok("move", obj{"from": "g", "to": "other/d/a/f", "overwrite": true})
	assert.Equal(t, "known", b.get("other/d/a/f"))
	b.ok("move", obj{"from": "other/d/link", "to": "link"})
	assert.False(t, b.exists("other/d/link"))

	// Full, or with something that cannot be moved: all stays where it was.
	b.put("big/f", strings.Repeat("z", 9<<20))
	b.refused("resource_unavailable", "move", obj{"from": "big", "to": "other/big"})
	assert.True(t, b.exists("big/f"))
	b.put("p/f", "x")
	require.NoError(t, syscall.Mkfifo(b.path("p/pipe"), 0o644))
	assert.Contains(t, b.refused("conflict", "move", obj{"from": "p", "to": "other/p"}), "p/pipe cannot be moved")
	assert.Equal(t, []string{"f", "pipe"}, b.names("p"))
	assert.Equal(t, []string{"d"}, b.names("other"), "no litter")
}

// A mount below a directory that is deleted, copied or listed is not entered, and is
// not deleted itself.
func TestMountPoints(t *testing.T) {
	b := newBench(t)
	b.mount("d/mnt")
	b.session = b.newSession(b.session.Workspace().Roots()...)
	b.put("d/f", "x")
	b.put("d/mnt/precious", "x")
	assert.Contains(t, b.refused("forbidden", "delete", obj{"path": "d", "recursive": true}), "another file system")
	b.refused("forbidden", "delete", obj{"path": "d/mnt", "recursive": true})
	assert.Contains(t, b.refused("conflict", "delete", obj{"path": "d/mnt"}), "mount point")
	assert.Contains(t, b.refused("conflict", "move", obj{"from": "d/mnt", "to": "x"}), "mount point")
	assert.True(t, b.exists("d/mnt/precious"))
	b.put("d/f", "x")
	out := b.ok("copy", obj{"from": "d", "to": "e", "recursive": true})
	assert.Contains(t, out.Content[0].Text, "d/mnt (")
	assert.Equal(t, []string{"f"}, b.names("e"))
	out = b.ok("list_files", obj{"path": "d", "recursive": true})
	assert.Len(t, out.Structured.(listOutput).Entries, 2)
	assert.Contains(t, out.Content[0].Text, "another file system")
	b.ok("copy", obj{"from": "d/mnt", "to": "g", "recursive": true}) // asked for
	assert.Equal(t, []string{"precious"}, b.names("g"))

	// A root that is mounted inside another one is the root.
	require.NoError(t, os.MkdirAll(b.path("again"), 0o755))
	require.NoError(t, os.MkdirAll(b.path("../ro"), 0o755))
	b.put("../ro/f", "x")
	require.NoError(t, syscall.Mount(b.path("../ro"), b.path("again"), "", syscall.MS_BIND, ""))
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(b.path("again"), syscall.MNT_DETACH)) })
	s := b.newSession(capabilities.Root{Path: b.path()}, capabilities.Root{Path: b.path("../ro"), ReadOnly: true})
	_, err := b.callIn(t.Context(), s, "write", obj{"path": "again/f", "content": "y", "unsafe_overwrite": true})
	refusal(t, protocol.ReasonWorkspaceReadOnly, err)
}

// Two names of one directory are one lock: nobody loses an edit.
func TestEditThroughTwoMounts(t *testing.T) {
	b := newBench(t)
	b.put("d/f", strings.Repeat("line\n", 40))
	require.NoError(t, os.MkdirAll(b.path("same"), 0o755))
	if err := syscall.Mount(b.path("d"), b.path("same"), "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(b.path("same"), syscall.MNT_DETACH)) })
	b.session = b.newSession(b.session.Workspace().Roots()...)
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("<%d>\n", i))
	}
	b.put("d/f", strings.Join(lines, ""))
	var editors sync.WaitGroup
	for i := range 40 {
		editors.Go(func() {
			in := edit([]string{"d/f", "same/f"}[i%2], fmt.Sprintf("<%d>", i), fmt.Sprintf("[%d]", i))
			in["unsafe_overwrite"] = true
			_, err := b.call("edit", in)
			assert.NoError(t, err)
		})
	}
	editors.Wait()
	assert.Equal(t, strings.NewReplacer("<", "[", ">", "]").Replace(strings.Join(lines, "")), b.get("d/f"))
}

// What a user may not do is refused, and half of a deletion is said to be one.
func TestPermissions(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may do everything")
	}
	b := newBench(t)
	b.put("d/closed/f", "x")
	b.put("d/a", "x")
	require.NoError(t, os.Chmod(b.path("d/closed"), 0o500))
	t.Cleanup(func() { os.Chmod(b.path("d/closed"), 0o700) })
	b.refused("forbidden", "delete", obj{"path": "d", "recursive": true})
	require.NoError(t, os.Chmod(b.path("d/closed"), 0))
	out := b.ok("list_files", obj{"path": "d", "recursive": true}) // case 74
	assert.NotEmpty(t, out.Structured.(listOutput).Unread)
	out = b.ok("stat", obj{"glob": "**/f"})
	assert.Equal(t, []string{"forbidden: d/closed: permission denied"}, out.Structured.(statOutput).Unread)
	assert.Contains(t, out.Content[0].Text, "[nothing matches **/f]\n[forbidden: d/closed: permission denied]")
	b.refused("forbidden", "read", obj{"path": "d/closed/f"})
}

// Whatever happens to directories and links while the tools work, nothing outside is
// seen or changed: 20,000 operations in full.
func TestSwapsDuringAllTools(t *testing.T) {
	b := newBench(t)
	outside := map[string]string{"../outside/f": "secret", "../outside/d/g": "secret", "../outside/run": "secret"}
	for name, content := range outside {
		b.put(name, content)
	}
	reset := func(i int) {
		dir := fmt.Sprintf("w%d", i)
		b.put(dir+"/d/f", "inside\n")
		b.put(dir+"/d/d/g", "inside\n")
		b.put(dir+"/d/run", "inside\n")
	}
	const workers = 4
	var stops []func()
	for i := range workers {
		reset(i)
		require.NoError(t, os.Symlink(b.path("../outside"), b.path(fmt.Sprintf("w%d/link", i))))
		require.NoError(t, syscall.Mkfifo(b.path(fmt.Sprintf("w%d/pipe", i)), 0o644))
		stops = append(stops, swapping(b.path(fmt.Sprintf("w%d", i))))
	}
	var done, worked atomic.Int64
	rounds := full(20_000, 240) / workers
	var users sync.WaitGroup
	for i := range workers {
		users.Go(func() {
			s := b.newSession(capabilities.Root{Path: b.path()})
			random := rand.New(rand.NewPCG(uint64(i), 7))
			at := func(names ...string) string { return fmt.Sprintf("w%d/%s", i, names[random.IntN(len(names))]) }
			for range rounds {
				file := func() string { return at("d/f", "d/d/g", "d/run", "d/new", "link/f") }
				dir := func() string { return at("d", "d/d", "link", "d/x", "copy") }
				tool, in := "", obj{}
				switch random.IntN(14) {
				case 0, 1:
					tool, in = "read", obj{"path": file()}
				case 2:
					tool, in = "write", obj{"path": file(), "content": "inside\n", "unsafe_overwrite": true, "create_dirs": true}
				case 3:
					tool, in = "edit", obj{"path": file(), "old_string": "inside", "new_string": "inside!", "unsafe_overwrite": true}
				case 4:
					tool, in = "multi_edit", obj{"edits": []obj{edit(file(), "inside", "inside?"), edit(file(), "inside", "inside.")}, "unsafe_overwrite": true}
				case 5:
					tool, in = "list_files", obj{"path": dir(), "recursive": true}
				case 6:
					tool, in = "stat", obj{"glob": "**/*", "path": fmt.Sprintf("w%d", i)}
				case 7:
					tool, in = "diff", obj{"path_a": file(), "path_b": file()}
				case 8:
					tool, in = "mkdir", obj{"path": dir() + "/made"}
				case 9:
					tool, in = "move", obj{"from": file(), "to": file(), "overwrite": true}
				case 10:
					tool, in = "copy", obj{"from": dir(), "to": dir(), "recursive": true}
				case 11:
					tool, in = "copy", obj{"from": file(), "to": file(), "overwrite": true}
				case 12:
					tool, in = "delete", obj{"path": dir(), "recursive": true}
				case 13:
					tool, in = "set_executable", obj{"path": file()}
				}
				out, err := b.callIn(t.Context(), s, tool, in)
				done.Add(1)
				if err == nil {
					worked.Add(1)
				}
				for _, c := range out.Content {
					assert.NotContains(t, c.Text, "secret", "%s %v", tool, in)
				}
				if err != nil {
					assert.NotContains(t, err.Error(), "secret")
				}
				if random.IntN(8) == 0 && !b.exists(fmt.Sprintf("w%d/d/f", i)) {
					_ = os.MkdirAll(b.path(fmt.Sprintf("w%d/d/d", i)), 0o755)
					for _, name := range []string{"d/f", "d/d/g", "d/run"} {
						_, _ = b.callIn(t.Context(), s, "write", obj{"path": fmt.Sprintf("w%d/%s", i, name), "content": "inside\n", "unsafe_overwrite": true, "create_dirs": true})
					}
				}
			}
		})
	}
	users.Wait()
	for _, stop := range stops {
		stop()
	}
	t.Logf("%d operations, %d of them worked", done.Load(), worked.Load())
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(b.path("../outside"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			got["../outside"+strings.TrimPrefix(path, b.path("../outside"))] = string(content)
			info, err := d.Info()
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o644), info.Mode(), path)
		}
		return err
	}))
	assert.Equal(t, outside, got)
	assert.Equal(t, []string{"d", "f", "run"}, b.names("../outside"), "nothing was made there")
	assert.Greater(t, worked.Load(), done.Load()/20, "most were not refused")
}

// swapping exchanges directories, files and links below dir until it is stopped.
func swapping(dir string) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		// By handles, or a name below d would lead out while d is a link, and the swap itself take
		// what is outside.
		base, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(base)
		swap := func(one, two string) {
			sub, err := unix.Openat(base, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				sub = -1
			} else {
				defer unix.Close(sub)
			}
			at := func(name string) (int, string) {
				if below, ok := strings.CutPrefix(name, "d/"); ok {
					return sub, below
				}
				return base, name
			}
			from, name := at(one)
			to, other := at(two)
			_ = unix.Renameat2(from, name, to, other, unix.RENAME_EXCHANGE)
		}
		pairs := [][2]string{{"d", "link"}, {"d/d", "link"}, {"d/f", "link"}, {"d/f", "pipe"}, {"d/d", "d/f"}}
		for i := 0; ; i++ {
			for range 2 { // and back, as far as they are still there
				swap(pairs[i%len(pairs)][0], pairs[i%len(pairs)][1])
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	return func() { close(done); running.Wait() }
}

// A copy is never open to more than what it was made of was.
func TestCopyOpensNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("reads files that nobody may read")
	}
	b := newBench(t)
	for i, mode := range []os.FileMode{0, os.ModeSetuid, os.ModeSetgid, os.ModeSticky, 0o001, 0o400, os.ModeSetuid | 0o755} {
		name := fmt.Sprint("d/", i)
		b.put(name, "secret")
		require.NoError(t, os.Chmod(b.path(name), mode))
		b.ok("copy", obj{"from": name, "to": fmt.Sprint("copy-", i)})
		info, err := os.Stat(b.path(fmt.Sprint("copy-", i)))
		require.NoError(t, err)
		assert.Equal(t, mode.Perm(), info.Mode(), mode)
		assert.Equal(t, "secret", b.get(fmt.Sprint("copy-", i)))
	}
	b.ok("copy", obj{"from": "d", "to": "e", "recursive": true})
	for i, mode := range []os.FileMode{0, 0, 0, 0, 0o001, 0o400, 0o755} {
		info, err := os.Stat(b.path(fmt.Sprint("e/", i)))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode())
	}
}
