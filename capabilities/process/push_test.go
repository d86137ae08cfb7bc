//go:build unix

package process

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (b *bench) subscribe(p protocol.ProcessSubscribeParams) error {
	p.SessionID = b.ID()
	_, err := capabilitytest.Do(b.ctx, b.Session, protocol.ProcessSubscribe, p)
	return err
}

func (b *bench) ack(id string, cursor int64) error {
	return capabilitytest.Send(b.ctx, b.Session, protocol.ProcessAck, protocol.ProcessAckParams{SessionID: b.ID(), ProcessID: id, Cursor: cursor})
}

// pushed is what has come of a process so far, from the n-th piece on.
func (b *bench) pushed(id string, n int) (pieces []protocol.ProcessOutputParams) {
	for _, p := range capabilitytest.Notified(b.t, b.Host.Peer, protocol.ProcessOutput) {
		if p.ProcessID == id {
			pieces = append(pieces, p)
		}
	}
	return pieces[min(n, len(pieces)):]
}

func (b *bench) pushedTo(id string, cursor int64) {
	b.t.Helper()
	capabilitytest.WaitNotified(b.t, b.Host.Peer, protocol.ProcessOutput, func(p protocol.ProcessOutputParams) bool {
		return p.ProcessID == id && p.Cursor+int64(len(p.Data)) >= cursor
	})
}

func TestPush(t *testing.T) {
	b := newBench(t, Options{})
	p := sh("p", `while read -r x; do echo "$x"; done`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", WindowBytes: 1 << 20}))
	var want strings.Builder
	for i := range 20 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte(line), CloseStdin: i == 19})
		require.NoError(t, err)
	}
	capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ProcessOutput, func(p protocol.ProcessOutputParams) bool { return p.EOF })
	var got []byte
	for _, piece := range b.pushed("p", 0) {
		assert.EqualValues(t, len(got), piece.Cursor)
		assert.Equal(t, protocol.StreamStdout, piece.Stream)
		got = append(got, piece.Data...)
	}
	assert.Equal(t, want.String(), string(got))
	require.NoError(t, b.ack("p", int64(len(got))), "also when nothing is pushed any more")
}

// No more is sent than the window lets through; acknowledgements move it.
func TestPushWindow(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 64 << 10})
	p := sh("p", `head -c 300000 /dev/zero`)
	p.OnFull = protocol.OnFullBlock
	b.start(p)
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", WindowBytes: 1000}))
	b.pushedTo("p", 1000)
	time.Sleep(20 * time.Millisecond)
	sent := func() (n int64) {
		for _, piece := range b.pushed("p", 0) {
			require.Equal(t, n, piece.Cursor)
			n += int64(len(piece.Data))
		}
		return n
	}
	assert.EqualValues(t, 1000, sent())
	require.NoError(t, b.ack("p", 400))
	b.pushedTo("p", 1400)
	assert.EqualValues(t, 1400, sent())
	require.NoError(t, b.ack("p", 100)) // no way back
	requireError(t, b.ack("p", 1<<40), protocol.CodeInvalidParams, "")
	requireError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", Cursor: 1 << 40, WindowBytes: 1}), protocol.CodeInvalidParams, "")

	// Another one replaces it; acknowledgements let a program go on that waits for its reader.
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", Cursor: 1400, WindowBytes: 50_000}))
	for cursor := int64(1400); cursor < 300_000; {
		b.pushedTo("p", cursor+1)
		cursor = sent()
		require.NoError(t, b.ack("p", cursor))
	}
	assert.EqualValues(t, 300_000, sent())
	assert.Equal(t, 0, *b.ended("p").ExitCode)
}

func TestPushStops(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 4096})
	b.start(protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"yes"}})
	require.Eventually(t, func() bool { return b.list()[0].Cursors.Stdout > 1<<20 }, 10*time.Second, time.Millisecond)
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", WindowBytes: 1 << 20}))
	b.pushedTo("p", 1)
	first := b.pushed("p", 0)[0]
	assert.True(t, first.Gap)
	assert.Positive(t, first.Cursor)
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p"}))
	n := len(b.pushed("p", 0))
	time.Sleep(20 * time.Millisecond)
	assert.Empty(t, b.pushed("p", n), "after the answer nothing comes")
	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p"}))

	require.NoError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "p", WindowBytes: 10})) // full when the session ends
	requireError(t, b.subscribe(protocol.ProcessSubscribeParams{ProcessID: "q", WindowBytes: 10}), protocol.CodeNotFound, "")
	b.End()
	for _, piece := range b.pushed("p", 0) {
		assert.Empty(t, bytes.Trim(piece.Data, "y\n"))
	}
}
