package capabilities

import (
	"io"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The short way means the same place as the long one wherever it is taken, and nothing
// that is a link, special or elsewhere is opened by it.
func TestDirect(t *testing.T) {
	base := tree(t, "ws/f", "ws/sub/deep/g", "ws/link -> f", "ws/dir -> sub", "ws/out -> ../outside", "ws/sub/leak -> /etc/passwd",
		"ws/bad\xff.txt", "outside/o", "ws/dangling -> none", "alias -> ws")
	for _, dir := range []string{base + "/ws", base + "/ws/sub"} {
		w := open(t, dir, Root{Path: base + "/alias"})
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
				if !ok || !linkless(root.top, rel, follow) {
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
	two := open(t, base+"/ws", Root{Path: base + "/ws"}, Root{Path: base + "/ws/sub"})
	_, _, _, ok := two.OpenRegular("f")
	assert.False(t, ok, "one of several roots may be on the way")
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
// opened is inside.
func TestSwapsNeverLeadTheShortWayOut(t *testing.T) {
	base := tree(t, "ws/d/f", "outside/f")
	w := open(t, base+"/ws", Root{Path: base + "/ws"})
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
	for range 4000 {
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
