package capabilities

import (
	"io"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The short way means the same place as the long one wherever it is taken, and nothing
// that is a link, special or elsewhere is opened by it.
func TestDirect(t *testing.T) {
	base := tree(t, "ws/f", "ws/sub/deep/g", "ws/link -> f", "ws/dir -> sub", "ws/out -> ../outside", "ws/sub/leak -> /etc/passwd",
		"ws/bad\xff.txt", "outside/o", "ws/dangling -> none", "alias -> ws")
	ws := Root{Path: base + "/alias"}
	for i, roots := range [][]Root{
		{ws}, {ws}, {ws, {Path: base + "/ws/sub", ReadOnly: true}}, {ws, {Path: base + "/outside"}},
		{{Path: base + "/ws/sub/deep"}, ws, {Path: base + "/ws/sub", ReadOnly: true}}, {{Path: base + "/outside"}, {Path: "/etc"}, ws},
	} {
		w := open(t, []string{base + "/ws", base + "/ws/sub"}[i%2], roots...)
		opened := 0
		for _, path := range []string{
			"", ".", "f", "f/", "./f", "sub/deep/g", "sub//deep/./g", "deep/g", "deep", "link", "dir", "dir/deep/g", "out", "out/o", "sub/leak", "leak",
			"dangling", "none", "f/x", "..", "../f", "sub/../f", "a\x00b", "bad\xff.txt", `$'bad\xff.txt'`, "/", "/etc/passwd", "~/f",
			base + "/ws", base + "/ws/f", base + "/alias/f", base + "/alias/sub/deep/g", base + "/outside/o", base + "/ws/../outside/o",
		} {
			f, info, p, ok := w.OpenRegular(path)
			if ok {
				opened++
				content, err := io.ReadAll(f)
				require.NoError(t, err)
				long, err := w.Resolve(path)
				require.NoError(t, err)
				assert.Equal(t, long, p, path)
				want, err := os.ReadFile(long.Abs)
				require.NoError(t, err)
				assert.Equal(t, string(want), string(content), path)
				assert.True(t, info.Mode().IsRegular())
				require.NoError(t, f.Close())
			}
			root, rel, ok := w.direct(UnquoteName(path))
			for _, follow := range []bool{true, false} {
				if !ok || root.vanished() || !linkless(root.top, rel, follow, root.others) {
					continue
				}
				cur, err := w.walk(UnquoteName(path), follow)
				require.NoError(t, err, path)
				assert.Equal(t, cur, w.pathAt(root, rel).Abs, path)
			}
		}
		if runtime.GOOS == "linux" {
			assert.GreaterOrEqual(t, opened, 4)
		}
	}
	// A root that has got another name within another root is still the root that it was.
	two := open(t, base+"/ws", Root{Path: base + "/ws"}, Root{Path: base + "/outside", ReadOnly: true})
	require.NoError(t, os.Rename(base+"/outside", base+"/ws/sub/inside"))
	_, _, _, ok := two.OpenRegular("sub/inside/o")
	assert.False(t, ok)
	for _, path := range []string{"sub/inside/o", "sub/inside"} {
		_, err := two.ResolveWrite(path)
		assert.Equal(t, protocol.ReasonWorkspaceUnavailable, reason(t, err), path)
	}
	_, _, _, ok = two.OpenRegular("sub/deep/g")
	assert.Equal(t, runtime.GOOS == "linux", ok)
	require.NoError(t, os.Rename(base+"/ws/sub/inside", base+"/outside"))
	_, err := two.ResolveWrite(base + "/outside/o")
	assert.Equal(t, protocol.ReasonWorkspaceReadOnly, reason(t, err))
	_, _, _, ok = (*Workspace)(nil).OpenRegular("f")
	assert.False(t, ok)
	gone := open(t, base+"/ws", Root{Path: base + "/ws"})
	require.NoError(t, os.Rename(base+"/ws", base+"/moved"))
	_, _, _, ok = gone.OpenRegular("f")
	assert.False(t, ok)
	require.NoError(t, gone.Close())
	require.NoError(t, gone.Close())
	_, _, _, ok = gone.OpenRegular("f")
	assert.False(t, ok)
}

// While a directory and a file are swapped for links that lead outside, whatever is
// opened is inside, with one root and with several.
func TestSwapsNeverLeadTheShortWayOut(t *testing.T) {
	for _, more := range [][]Root{nil, {{Path: "/etc"}}} {
		swapsNeverLeadTheShortWayOut(t, more)
	}
}

func swapsNeverLeadTheShortWayOut(t *testing.T, more []Root) {
	base := tree(t, "ws/d/f", "outside/f")
	w := open(t, base+"/ws", append([]Root{{Path: base + "/ws"}}, more...)...)
	stop, swapping := make(chan struct{}), sync.WaitGroup{}
	swapping.Go(func() {
		for i := 0; ; i++ {
			what, target := base+"/ws/d", "../outside"
			if i%2 == 1 {
				what, target = base+"/ws/d/f", "../../outside/f"
			}
			for _, step := range []error{
				os.Rename(what, base+"/ws/e"), os.Symlink(target, what), os.Remove(what), os.Rename(base+"/ws/e", what),
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
	for range 2000 {
		f, _, _, ok := w.OpenRegular("d/f")
		if !ok {
			continue
		}
		content, err := io.ReadAll(f)
		assert.NoError(t, err)
		assert.Equal(t, "ws/d/f", string(content))
		assert.NoError(t, f.Close())
	}
	close(stop)
	swapping.Wait()
}
