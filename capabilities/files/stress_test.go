package files

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two sessions with eight editors each work on the same twenty files, half a second or
// 30 seconds in full: each accepted edit is in the final content, once, and each one
// that is refused is refused for what is so.
func TestManyEditors(t *testing.T) {
	b := newBench(t)
	const editors, files = 16, 20
	name := func(file int) string { return fmt.Sprintf("f%02d", file) }
	row := func(editor, n int) string { return fmt.Sprintf("editor %02d: %d;", editor, n) }
	for file := range files {
		var all strings.Builder
		for e := range editors {
			all.WriteString(row(e, 0) + []string{"\n", "\r\n"}[file%2])
		}
		b.put(name(file), all.String())
	}
	require.NoError(t, os.Link(b.path(name(0)), b.path("hard")))
	require.NoError(t, os.Symlink(name(1), b.path("soft")))
	sessions := []*capabilities.Session{b.session, b.newSession(capabilities.Root{Path: b.path()})}
	until := time.Now().Add(full(30*time.Second, time.Second/2))
	var accepted [editors][files]int
	reasons := make([]map[string]int, editors)
	var working sync.WaitGroup
	for e := range editors {
		reasons[e] = map[string]int{}
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(e), 3))
			s := sessions[e%2]
			for time.Now().Before(until) {
				file := random.IntN(files)
				path := name(file)
				switch {
				case file == 0 && random.IntN(2) == 0:
					path = "hard"
				case file == 1 && random.IntN(2) == 0:
					path = "soft"
				}
				n := accepted[e][file]
				one := edit(path, row(e, n), row(e, n+1))
				var err error
				switch random.IntN(4) {
				case 0: // two edits of two files, or of one
					other := random.IntN(files)
					m := accepted[e][other]
					if other == file {
						m++
					}
					_, err = b.callIn(t.Context(), s, "multi_edit", obj{"edits": []obj{one, edit(name(other), row(e, m), row(e, m+1))}})
					if err == nil {
						accepted[e][other]++
					}
				case 1: // one that cannot be
					_, err := b.callIn(t.Context(), s, "edit", edit(path, row(e, n+7), "x"))
					var refused *protocol.Error
					require.ErrorAs(t, err, &refused)
					assert.Contains(t, []string{protocol.ReasonNoMatch, protocol.ReasonStaleFile}, refused.Reason())
					continue
				default:
					_, err = b.callIn(t.Context(), s, "edit", one)
				}
				if err == nil {
					accepted[e][file]++
					continue
				}
				var refused *protocol.Error
				require.True(t, errors.As(err, &refused), err)
				reasons[e][refused.Reason()]++
				assert.Equal(t, protocol.ReasonStaleFile, refused.Reason(), refused.Message)
				for _, again := range []string{path, name(random.IntN(files))} {
					_, err = b.callIn(t.Context(), s, "read", obj{"path": again})
					require.NoError(t, err)
				}
			}
		})
	}
	working.Wait()
	total, stale := 0, 0
	for file := range files {
		content := b.get(name(file))
		end := []string{"\n", "\r\n"}[file%2]
		var want strings.Builder
		for e := range editors {
			want.WriteString(row(e, accepted[e][file]) + end)
			total += accepted[e][file]
		}
		assert.Equal(t, want.String(), content, name(file))
	}
	for e := range editors {
		stale += reasons[e][protocol.ReasonStaleFile]
	}
	t.Logf("%d edits accepted, %d refused as stale", total, stale)
	assert.Greater(t, total, 10)
	assert.Equal(t, b.get(name(0)), b.get("hard"))
	assert.Empty(t, b.files.locks.held)
}
