//go:build !windows

package search

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directory and a file are swapped for links that lead outside, as fast as it goes, while the
// tree is searched: nothing from outside is ever found (case 82).
func TestSwappedNeverEscapes(t *testing.T) {
	base := tree(t, "ws/d/e/f=inside needle\n", "ws/g=inside needle\n", "outside/e/f=secret needle\n", "outside/g=secret needle\n")
	w := workspace(t, base+"/ws")
	stop, swapping := make(chan struct{}), sync.WaitGroup{}
	swapping.Go(func() {
		for {
			for _, err := range []error{
				os.Rename(base+"/ws/d", base+"/ws/d2"), os.Symlink("../outside", base+"/ws/d"), os.Rename(base+"/ws/g", base+"/ws/g2"), os.Symlink("../outside/g", base+"/ws/g"),
				os.Remove(base + "/ws/d"), os.Rename(base+"/ws/d2", base+"/ws/d"), os.Remove(base + "/ws/g"), os.Rename(base+"/ws/g2", base+"/ws/g"),
			} {
				assert.NoError(t, err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	rounds := 150
	if os.Getenv("EXECUTOR_STRESS") != "" {
		rounds = 2000
	}
	inside := 0
	for range rounds {
		for _, path := range []string{".", "d", "g", "d/e/f"} {
			found, err := Grep(t.Context(), w, GrepOptions{Pattern: "needle", Path: path})
			if err != nil {
				continue // the path leads outside just now, or has been replaced
			}
			assert.Zero(t, found.Skipped.UnreadableCount)
			for _, f := range found.Files {
				for _, r := range f.Rows {
					assert.Equal(t, "inside needle", r.Text)
					inside++
				}
			}
		}
		found, err := Glob(t.Context(), w, GlobOptions{Pattern: "**/e/*"})
		require.NoError(t, err)
		assert.LessOrEqual(t, found.Count, 2)
	}
	close(stop)
	swapping.Wait()
	assert.Positive(t, inside)
}
