//go:build unix

package process

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
)

// pushWhole has 3 MB pushed to the end, through a window that is acknowledged by the quarter, and returns
// the largest piece.
func (b *bench) pushWhole(onFull string) (largest int) {
	const size, window = 3_000_000, 1 << 20
	p := sh("p", `head -c 3000000 /dev/zero`)
	p.OnFull = onFull
	b.start(p)
	require.NoError(b.t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", WindowBytes: window}))
	var cursor int64
	for seen, end := 0, false; !end; {
		b.pushedTo("p", cursor+1)
		for _, piece := range b.pushed("p", seen) {
			seen++
			require.Equal(b.t, cursor, piece.Cursor)
			require.False(b.t, piece.Gap)
			largest = max(largest, len(piece.Data))
			cursor += int64(len(piece.Data))
			end = piece.EOF
		}
		if !end && cursor == size {
			capabilitytest.WaitNotified(b.t, b.Host.Peer, protocol.ProcessOutput, func(p protocol.ProcessOutputParams) bool { return p.EOF })
			end = true
		}
		require.NoError(b.t, b.ack("p", cursor))
	}
	require.EqualValues(b.t, size, cursor)
	return largest
}

// What a program prints is sent by who reads it, and by the loop when that would have to wait: nothing is
// lost, and nothing comes twice, however the two take turns.
func TestPushByTheWriter(t *testing.T) {
	for name, fails := range map[string]func(n int64) bool{
		"never waits":  func(int64) bool { return false },
		"always waits": func(int64) bool { return true },
		"by turns":     func(n int64) bool { return n%3 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			var n, waited atomic.Int64
			b.Host.Peer.OnNotify = func(ctx context.Context, method string, _ any) error {
				if method != protocol.ProcessOutput.Name || ctx.Err() == nil {
					return nil
				}
				if fails(n.Add(1)) {
					waited.Add(1)
					return ctx.Err()
				}
				return nil
			}
			assert.LessOrEqual(t, b.pushWhole(protocol.OnFullBlock), pushPiece)
			assert.Positive(t, n.Load(), "the writer has tried")
		})
	}
}

// A brain that takes only small messages gets small pieces.
func TestPushToASmallLimit(t *testing.T) {
	b := newBench(t, Options{})
	b.Host.Peer.OnNotify = func(_ context.Context, _ string, params any) error {
		if p, ok := params.(*protocol.ProcessOutputParams); ok && len(p.Data) > 30_000 {
			return protocol.Errorf(protocol.CodePayloadTooLarge, "a message of %d bytes is over the peer's limit", len(p.Data))
		}
		return nil
	}
	assert.LessOrEqual(t, b.pushWhole(protocol.OnFullBlock), 30_000)
}
