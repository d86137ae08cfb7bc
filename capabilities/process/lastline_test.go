//go:build unix

package process

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
)

// For every size around every limit the last line of the output can be read after the exit, and what is
// missing in front of it is told exactly.
func TestLastLineAtEveryLimit(t *testing.T) {
	const last = "THE LAST LINE\n"
	b := newBench(t, Options{})
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for k, limit := range []int64{4 << 10, 64 << 10, protocol.DefaultMaxProcessRead, protocol.DefaultProcessRing} {
		for n := limit - 1; n <= limit+1; n++ {
			for i, stream := range []string{protocol.StreamStdout, protocol.StreamStderr} {
				if full(false, (int(n)+k+i)%2 == 0) {
					continue
				}
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					id, to := fmt.Sprintf("%s-%d", stream, n), ""
					if stream == protocol.StreamStderr {
						to = " >&2"
					}
					p := sh(id, fmt.Sprintf(`{ yes | head -c %d; printf 'THE LAST LINE\n'; }%s`, n-int64(len(last)), to))
					p.WaitMS = 60_000
					state, err := b.try(p)
					if !assert.NoError(t, err) || !assert.Equal(t, protocol.ProcessExited, state.State) {
						return
					}
					lost := max(0, n-protocol.DefaultProcessRing)
					var got strings.Builder
					for cursor, gaps := int64(0), 0; ; {
						r, err := b.read(protocol.ProcessReadParams{ProcessID: id, Stream: stream, Cursor: cursor, WaitMS: 60_000})
						if !assert.NoError(t, err) {
							return
						}
						if r.Gap {
							gaps++
							assert.Equal(t, lost, r.FromCursor, id)
						}
						got.Write(r.Data)
						if cursor = r.NextCursor; r.EOF {
							assert.Equal(t, n, cursor, id)
							assert.Equal(t, lost > 0, gaps == 1, id)
							break
						}
					}
					assert.EqualValues(t, n-lost, got.Len(), id)
					assert.True(t, strings.HasSuffix(got.String(), last), id)
				})
			}
		}
	}
	wg.Wait()
}
