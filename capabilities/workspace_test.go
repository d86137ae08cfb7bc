package capabilities

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree makes directories ("d/"), files ("f") and links ("l -> target") below a
// fresh directory, which stands for @ in targets.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, e := range entries {
		name, target, isLink := strings.Cut(e, " -> ")
		path := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case isLink:
			require.NoError(t, os.Symlink(strings.ReplaceAll(target, "@", base), path))
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(path, 0o755))
		default:
			require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
		}
	}
	return base
}

func open(t *testing.T, dir string, roots ...Root) *Workspace {
	t.Helper()
	w, err := OpenWorkspace(dir, roots)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w
}

// reason is the reason of an error, "" for none.
func reason(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	return e.Reason()
}

func TestResolve(t *testing.T) {
	base := tree(t,
		"share/f", "share/sub/g", "share/dir/deep/h", "share/ro/r", "share/ro/rw/w",
		"share-secret/loot", "outside/o", "other/x", "alias -> @/share", "alias2 -> alias",
		// Cases 82 and following: links out, in, up, down, round.
		"share/leak -> /etc/passwd", "share/d -> @/outside", "share/up -> ../share-secret/loot",
		"share/abs -> @/share/sub/g", "share/absdir -> @/share/dir", "share/rel -> sub/g", "share/chain -> abs",
		"share/third -> @/alias2/f", "share/over -> @/other/x", "share/dangling -> sub/none", "share/danglingout -> @/outside/none",
		"share/loop -> loop2", "share/loop2 -> loop", "share/toro -> ro", "share/sub/back -> ..", "share/out-and-in -> ../share/f",
	)
	w := open(t, base+"/share", Root{Path: base + "/share"}, Root{Path: base + "/share/ro", ReadOnly: true},
		Root{Path: base + "/share/ro/rw"}, Root{Path: base + "/other", ReadOnly: true})
	const boundary, readOnly = protocol.ReasonWorkspaceBoundary, protocol.ReasonWorkspaceReadOnly
	for _, c := range []struct {
		path   string
		want   string // display; or
		reason string
		write  string // reason when it is to be written; "" = as for reading
	}{
		{path: "f", want: "f"},
		{path: "./sub//g", want: "sub/g"},
		{path: "sub/../f", want: "f"},
		{path: ".", want: "."},
		{path: "@/share", want: "."},
		{path: "@/share/f", want: "f"},
		{path: "@/other/x", want: "@/other/x", write: readOnly},
		{path: "new/file", want: "new/file"},
		{path: "new/../f", want: "f"},
		{path: "~/f", want: "~/f"},
		{path: "-rf", want: "-rf"},
		{path: "$'f'", want: "f"},
		{path: `$'bad\xff.txt'`, want: `$'bad\xff.txt'`}, // case 79
		{path: "bad\xff.txt", want: `$'bad\xff.txt'`},

		// Case 81: a sibling whose name begins like the root's.
		{path: "@/share-secret/loot", reason: boundary},
		{path: "@/share/../share-secret/f", reason: boundary},
		{path: "../share-secret/loot", reason: boundary},
		{path: "..", reason: boundary},
		{path: "../../../../../../etc/passwd", reason: boundary},
		{path: "/etc/passwd", reason: boundary},
		{path: "/", reason: boundary},
		{path: "/nowhere/at/all", reason: boundary},
		{path: "sub/../../outside/o", reason: boundary},
		{path: "../share/f", want: "f"},
		{path: "@/outside/../share/f", want: "f"},
		{path: "@/alias/f", want: "f"},
		{path: "@/alias2/sub/g", want: "sub/g"},

		// Case 82: links.
		{path: "leak", reason: boundary},
		{path: "d/o", reason: boundary},
		{path: "d/new", reason: boundary},
		{path: "d", reason: boundary},
		{path: "up", reason: boundary},
		{path: "danglingout", reason: boundary},
		{path: "rel", want: "sub/g"},
		{path: "abs", want: "sub/g"},
		{path: "chain", want: "sub/g"},
		{path: "absdir/deep/h", want: "dir/deep/h"},
		{path: "absdir/../f", want: "f"},
		{path: "sub/back/f", want: "f"},
		{path: "sub/back/../share-secret/loot", reason: boundary},
		{path: "third", want: "f"},
		{path: "out-and-in", want: "f"},
		{path: "over", want: "@/other/x", write: readOnly},
		{path: "dangling", want: "sub/none"},
		{path: "loop", reason: "not_found"},
		{path: "loop/x", reason: "not_found"},

		// Nested roots: the innermost one decides, whatever the way to it.
		{path: "ro/r", want: "ro/r", write: readOnly},
		{path: "ro", want: "ro", write: readOnly},
		{path: "toro/new", want: "ro/new", write: readOnly},
		{path: "ro/rw/w", want: "ro/rw/w"},
		{path: "ro/rw/../r", want: "ro/r", write: readOnly},
		{path: "ro/../f", want: "f"},

		{path: "f/x", reason: "not_found"},
		{path: "", reason: "invalid_params"},
		{path: "a\x00b", reason: "invalid_params"},
		{path: `$'a\0b'`, reason: "invalid_params"},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := strings.ReplaceAll(c.path, "@", base)
			p, err := w.Resolve(path)
			assert.Equal(t, c.reason, reason(t, err), "%v", err)
			assert.Equal(t, strings.ReplaceAll(c.want, "@", base), p.Display)
			if err == nil {
				assert.NotContains(t, p.Rel, "..")
				assert.True(t, filepath.IsAbs(p.Abs))
			}
			if c.write == "" {
				c.write = c.reason
			}
			_, err = w.ResolveWrite(path)
			assert.Equal(t, c.write, reason(t, err), "%v", err)
		})
	}
}

// A link at the end can be meant itself; slashes behind it change nothing
// (case 86: delete tree/link/).
func TestResolveLink(t *testing.T) {
	base := tree(t, "ws/f", "ws/tree/link -> ../../precious", "ws/in -> f", "precious/p")
	w := open(t, base+"/ws", Root{Path: base + "/ws"})
	for path, want := range map[string]string{"tree/link": "tree/link", "tree/link/": "tree/link", "tree/link/.": "tree/link", "in": "in", "f": "f"} {
		p, err := w.ResolveWriteLink(path)
		require.NoError(t, err)
		assert.Equal(t, want, p.Display)
		p, err = w.ResolveLink(path)
		require.NoError(t, err)
		assert.Equal(t, want, p.Display)
	}
	for _, path := range []string{"tree/link/p", "tree/link/.."} {
		_, err := w.ResolveWriteLink(path)
		assert.Equal(t, protocol.ReasonWorkspaceBoundary, reason(t, err), path)
	}
}

func TestOpenWorkspace(t *testing.T) {
	base := tree(t, "ws/s1/f", "ws/s2/f", "link -> ws", "file")
	root := Root{Path: base + "/link"}

	// The root is a link and the session has a directory below it.
	w := open(t, base+"/link/s1", root)
	assert.Equal(t, base+"/ws/s1", w.Dir())
	assert.Equal(t, []Root{root}, w.Roots())
	for path, want := range map[string]string{
		"f": "f", "../s2/f": base + "/ws/s2/f", base + "/link/s1/f": "f", base + "/ws/s1/f": "f", base + "/link": base + "/ws",
	} {
		p, err := w.Resolve(path)
		require.NoError(t, err)
		assert.Equal(t, want, p.Display)
	}

	// The link now leads elsewhere; the workspace stays where it was.
	require.NoError(t, os.Remove(base+"/link"))
	require.NoError(t, os.Symlink("/etc", base+"/link"))
	p, err := w.Resolve(base + "/link/s1/f")
	require.NoError(t, err)
	assert.Equal(t, base+"/ws/s1/f", p.Abs)

	for _, c := range []struct {
		dir    string
		roots  []Root
		reason string
	}{
		{base + "/ws", nil, "invalid_params"},
		{base + "/none", []Root{{Path: base + "/none"}}, protocol.ReasonWorkspaceUnavailable},
		{base + "/file", []Root{{Path: base + "/file"}}, protocol.ReasonWorkspaceUnavailable},
		{base, []Root{{Path: base + "/ws"}}, protocol.ReasonWorkspaceBoundary},
		{base + "/ws/none", []Root{{Path: base + "/ws"}}, "not_found"},
		{base + "/ws/s1/f", []Root{{Path: base + "/ws"}}, "not_found"},
	} {
		_, err := OpenWorkspace(c.dir, c.roots)
		assert.Equal(t, c.reason, reason(t, err), "%v", err)
	}

	both := open(t, base+"/ws", Root{Path: base + "/ws"}, Root{Path: base + "/ws/", ReadOnly: true})
	_, err = both.ResolveWrite("f")
	assert.Equal(t, protocol.ReasonWorkspaceReadOnly, reason(t, err))
}

func TestRootOfTheFileSystem(t *testing.T) {
	base := tree(t, "f")
	w := open(t, base, Root{Path: "/"})
	for path, want := range map[string]string{"f": "f", "..": filepath.Dir(base), "/": "/", base + "/f": "f"} {
		p, err := w.Resolve(path)
		require.NoError(t, err)
		assert.Equal(t, want, p.Display)
	}
}

// Case 81: what a command's directory may be.
func TestResolveDir(t *testing.T) {
	base := tree(t, "share/sub/f", "share/link -> sub", "share/out -> ../share-secret", "share-secret/loot")
	w := open(t, base+"/share", Root{Path: base + "/share"})
	for path, want := range map[string]string{"": "invalid_params", ".": "", "sub": "", "link": "", "sub/f": "not_found", "none": "not_found",
		"out": protocol.ReasonWorkspaceBoundary, base + "/share-secret": protocol.ReasonWorkspaceBoundary} {
		_, err := w.ResolveDir(path)
		assert.Equal(t, want, reason(t, err), path)
	}
	dir, err := w.ResolveDir("link")
	require.NoError(t, err)
	assert.Equal(t, base+"/share/sub", dir)
}

func TestVanishedRoot(t *testing.T) {
	base := tree(t, "ws/f")
	w := open(t, base+"/ws", Root{Path: base + "/ws"})
	_, err := w.Resolve("none")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(base+"/ws"))
	for range 2 {
		_, err = w.Resolve("f")
		assert.Equal(t, protocol.ReasonWorkspaceUnavailable, reason(t, err))
		require.NoError(t, os.MkdirAll(base+"/ws", 0o755)) // another one under the old name
	}
	require.NoError(t, w.Close())
	_, err = w.Resolve("f")
	assert.Equal(t, protocol.ReasonWorkspaceUnavailable, reason(t, err))
}

func TestNoWorkspace(t *testing.T) {
	_, err := (*Workspace)(nil).Resolve("f")
	assert.Equal(t, protocol.ReasonWorkspaceUnavailable, reason(t, err))
	_, err = (*Workspace)(nil).ResolveDir("f")
	assert.Equal(t, protocol.ReasonWorkspaceUnavailable, reason(t, err))
}

func TestOpenParent(t *testing.T) {
	base := tree(t, "ws/a/b/f", "ws/ro/f", "outside/b/f")
	w := open(t, base+"/ws", Root{Path: base + "/ws"}, Root{Path: base + "/ws/ro", ReadOnly: true})
	p, err := w.ResolveWrite("a/b/f")
	require.NoError(t, err)
	dir, name, err := p.OpenParent()
	require.NoError(t, err)
	got, err := dir.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "ws/a/b/f", string(got))
	require.NoError(t, dir.Close())

	// A directory on the way becomes a link: outside, or to a read-only root that
	// os.Root alone would follow into.
	require.NoError(t, os.Rename(base+"/ws/a", base+"/ws/was"))
	for _, target := range []string{"../outside", "ro", "was"} {
		require.NoError(t, os.Symlink(target, base+"/ws/a"))
		_, _, err = p.OpenParent()
		require.ErrorIs(t, err, protocol.ErrConflict, target)
		_, err = Path{Root: p.Root, Rel: "a", Display: "a"}.OpenDir()
		require.ErrorIs(t, err, protocol.ErrConflict, target)
		require.NoError(t, os.Remove(base+"/ws/a"))
	}
	_, _, err = p.OpenParent()
	require.ErrorIs(t, err, protocol.ErrNotFound)

	top, err := w.Resolve(".")
	require.NoError(t, err)
	dir, name, err = top.OpenParent()
	require.NoError(t, err)
	assert.Equal(t, ".", name)
	require.NoError(t, dir.Close())
}

// A directory is swapped for a link that leads outside and back, as fast as it
// goes, while paths through it are resolved and opened.
func TestSwappedDirectoryNeverEscapes(t *testing.T) {
	base := tree(t, "ws/d/f", "outside/f")
	w := open(t, base+"/ws", Root{Path: base + "/ws"})
	stop, swapping := make(chan struct{}), sync.WaitGroup{}
	swapping.Go(func() {
		for {
			for _, step := range []error{
				os.Rename(base+"/ws/d", base+"/ws/e"), os.Symlink("../outside", base+"/ws/d"),
				os.Remove(base + "/ws/d"), os.Rename(base+"/ws/e", base+"/ws/d"),
			} {
				assert.NoError(t, step)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	results := map[string]int{}
	for i := range 4000 {
		p, err := w.ResolveWrite([]string{"d/f", base + "/ws/d/f"}[i%2])
		if err == nil {
			var dir *os.Root
			var name string
			if dir, name, err = p.OpenParent(); err == nil {
				var got []byte
				if got, err = dir.ReadFile(name); err == nil && string(got) != "ws/d/f" {
					t.Errorf("escaped: %s", got)
				}
				dir.Close()
			}
		}
		var e *protocol.Error
		switch {
		case err == nil:
			results["read"]++
		case errors.As(err, &e):
			results[e.Reason()]++
		default:
			results[err.Error()]++
		}
	}
	close(stop)
	swapping.Wait()
	t.Logf("%v", results)
	for r := range results {
		assert.Contains(t, []string{"read", "conflict", "not_found", protocol.ReasonWorkspaceBoundary}, r)
	}
}

// A root that was moved away and replaced is no longer the workspace, not for what is
// still there through its handle either.
func TestReplacedRoot(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "w")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), nil, 0o644))
	w, err := OpenWorkspace(dir, []Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	_, err = w.ResolveWrite("a.txt")
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir, filepath.Join(top, "gone")))
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"a.txt", "b.txt", "."} {
		_, err = w.ResolveWrite(name)
		require.ErrorIs(t, err, protocol.ErrResourceUnavailable, name)
	}
}

// What holds a root is not to be deleted or moved, and a root is known by identity.
func TestHoldsRoot(t *testing.T) {
	base := tree(t, "ws/a/inner/f", "ws/b/f", "ws/a/link -> inner")
	w := open(t, base+"/ws", Root{Path: base + "/ws"}, Root{Path: base + "/ws/a/inner", ReadOnly: true})
	for path, want := range map[string]bool{".": true, "a": true, "a/inner": true, "a/inner/f": false, "b": false, "none": false} {
		p, err := w.ResolveLink(path)
		require.NoError(t, err)
		_, got := w.HoldsRoot(p)
		assert.Equal(t, want, got, path)
	}
	for path, want := range map[string]bool{"/ws": true, "/ws/a": false, "/ws/a/inner": true, "/ws/a/inner/f": false} {
		info, err := os.Stat(base + path)
		require.NoError(t, err)
		assert.Equal(t, want, w.IsRoot(info), path)
	}
	p, err := w.Resolve("a")
	require.NoError(t, err)
	dir, err := p.OpenDir()
	require.NoError(t, err)
	defer dir.Close()
	child, err := OpenChild(dir, "inner")
	require.NoError(t, err)
	require.NoError(t, child.Close())
	_, err = OpenChild(dir, "link")
	require.Error(t, err, "a link is not followed")
}
