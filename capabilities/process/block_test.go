//go:build unix

package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbers are what a printer prints: each four bytes say where they are.
func numbers(n int) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return b
}

// printer prints numbers without end, with on_full block.
func printer(id string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{ProcessID: id, OnFull: protocol.OnFullBlock,
		Argv: []string{"perl", "-e", `for ($i = 0; ; $i++) { print pack("N", $i) }`}}
}

// full is how much a test does: less, or all with EXECUTOR_STRESS.
func full[N any](all, less N) N {
	if os.Getenv("EXECUTOR_STRESS") != "" {
		return all
	}
	return less
}

// 2 MB for a slow reader, 20 with EXECUTOR_STRESS: each byte once, before the exit and behind it.
func TestBlockIsLossless(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 512 << 10})
	n := full(2_700_000, 300_000)
	var want []byte
	for i := range n {
		want = append(strconv.AppendInt(want, int64(i+1), 10), '\n')
	}
	b.start(protocol.ProcessStartParams{ProcessID: "p", OnFull: protocol.OnFullBlock, Argv: []string{"seq", "1", fmt.Sprint(n)}})
	got := make([]byte, 0, len(want))
	exited := false
	for cursor, piece := int64(0), 0; ; piece++ {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: cursor, WaitMS: 60_000, MaxBytes: 1 + piece*79_193%250_000})
		require.NoError(t, err)
		require.Equal(t, cursor, r.FromCursor)
		require.False(t, r.Gap)
		got, cursor = append(got, r.Data...), r.NextCursor
		if len(got) > len(want)-(200<<10) && !exited { // the rest fits: it exits before anybody reads it
			assert.Equal(t, 0, *b.ended("p").ExitCode)
			exited = true
		}
		if r.EOF {
			break
		}
		if piece%20 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	assert.True(t, exited)
	assert.True(t, bytes.Equal(want, got), "%d bytes of %d", len(got), len(want))
}

// Who ends such a program loses nothing of what it had printed: what the reader gets is whole up to
// where it ends, and a hole there would be said.
func TestBlockIsLosslessUpToTheEnd(t *testing.T) {
	before := full(1<<20, 300<<10) // how much is read before the end
	for name, end := range map[string]func(*bench){
		"terminate": func(b *bench) { b.signal(protocol.ProcessTerminate, "p", -1) },
		"kill":      func(b *bench) { b.signal(protocol.ProcessTerminate, "p", 0) },
		"interrupt": func(b *bench) { b.signal(protocol.ProcessInterrupt, "p", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{BufferBytes: 64 << 10})
			b.start(printer("p"))
			var got []byte
			ended := false
			for cursor := int64(0); ; {
				r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: cursor, WaitMS: 60_000, MaxBytes: 10_007})
				require.NoError(t, err)
				require.Equal(t, cursor, r.FromCursor)
				require.False(t, r.Gap)
				got, cursor = append(got, r.Data...), r.NextCursor
				if len(got) > before && !ended { // it waits for its reader
					require.Eventually(t, func() bool { return b.list()[0].Cursors.Stdout == r.FromCursor+64<<10 }, 10*time.Second, time.Millisecond)
					end(b)
					b.ended("p")
					ended = true
				}
				if r.EOF {
					break
				}
			}
			assert.Greater(t, len(got), before+50_000)
			assert.True(t, bytes.Equal(numbers(len(got)/4 + 1)[:len(got)], got), "the prefix is whole")
		})
	}
}

// One that prints without end while it is being ended: what was there before stays, the last of it is
// missing, and that is said.
func TestBlockedFloodIsCutAtTheEnd(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 64 << 10})
	p := printer("p")
	p.Argv[2] = `$SIG{TERM} = 'IGNORE'; ` + p.Argv[2]
	b.start(p)
	require.Eventually(t, func() bool { return b.list()[0].Cursors.Stdout == 64<<10 }, 10*time.Second, time.Millisecond)
	s := b.signal(protocol.ProcessTerminate, "p", 2000) // long enough to print more than is kept, also on a busy machine
	assert.Equal(t, "SIGKILL", s.ExitSignal)
	var got []byte
	gap := false
	for cursor := int64(0); ; {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: cursor, WaitMS: 60_000})
		require.NoError(t, err)
		require.False(t, gap && len(r.Data) > 0, "nothing behind the gap")
		gap = gap || r.Gap
		got, cursor = append(got, r.Data...), r.NextCursor
		if r.EOF {
			assert.Equal(t, b.list()[0].Cursors.Stdout, cursor)
			break
		}
	}
	assert.True(t, gap)
	assert.Len(t, got, 64<<10+onItsWay)
	assert.True(t, bytes.Equal(numbers(len(got)/4), got))
}
