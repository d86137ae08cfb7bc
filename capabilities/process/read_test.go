//go:build unix

package process

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadWaits(t *testing.T) {
	b := newBench(t, Options{})
	p := sh("p", `read -r x; echo "got $x"; read -r y; exit 5`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	r, err := b.read(protocol.ProcessReadParams{ProcessID: "p"})
	require.NoError(t, err)
	assert.Empty(t, r.Data, "without wait_ms nothing is waited for")
	started := time.Now()
	r, err = b.read(protocol.ProcessReadParams{ProcessID: "p", WaitMS: 100})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(started), 100*time.Millisecond)
	assert.Empty(t, r.Data)
	assert.False(t, r.EOF || r.Truncated || r.Gap)
	assert.Equal(t, protocol.ProcessRunning, r.State)

	answers := make(chan protocol.ProcessReadResult, 1)
	wait := func(cursor int64) {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: cursor, WaitMS: 60_000})
		assert.NoError(t, err)
		answers <- r
	}
	go wait(0)
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte("it\n")})
	require.NoError(t, err)
	r = <-answers
	assert.Equal(t, "got it\n", string(r.Data))
	assert.EqualValues(t, 7, r.NextCursor)
	go wait(7)
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte("\n")})
	require.NoError(t, err)
	r = <-answers // the exit or the end of the stream, whichever is seen first
	assert.Empty(t, r.Data)
	b.ended("p")
	r, err = b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: 7, WaitMS: 60_000})
	require.NoError(t, err)
	assert.True(t, r.EOF)
	assert.Equal(t, 5, *r.ExitCode)
	assert.False(t, r.EndedAt.IsZero())

	_, err = b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: 8})
	e := requireError(t, err, protocol.CodeInvalidParams, "")
	assert.Contains(t, e.Message, "cursor: 8 is beyond the end of stdout, which is 7")
}

func TestReadInPieces(t *testing.T) {
	b := newBench(t, Options{MaxReadBytes: 4})
	b.run(sh("p", `printf 0123456789`))
	for _, c := range []struct {
		cursor    int64
		most      int
		want      string
		truncated bool
	}{
		{0, 3, "012", true}, {0, 0, "0123", true}, {0, 100, "0123", true}, {6, 4, "6789", false}, {8, 4, "89", false}, {10, 4, "", false},
	} {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: c.cursor, MaxBytes: c.most})
		require.NoError(t, err)
		assert.Equal(t, c.want, string(r.Data))
		assert.Equal(t, c.cursor, r.FromCursor)
		assert.Equal(t, c.cursor+int64(len(c.want)), r.NextCursor)
		assert.Equal(t, c.truncated, r.Truncated)
		assert.Equal(t, !c.truncated, r.EOF)
	}
}

// Without end and without a reader: the ring stays small, the program is not held up, and the loss is
// told (case 22).
func TestEndlessOutput(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 64 << 10})
	b.start(protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"yes"}})
	require.Eventually(t, func() bool { return b.list()[0].Cursors.Stdout > 64<<20 }, 30*time.Second, 10*time.Millisecond)
	r, err := b.read(protocol.ProcessReadParams{ProcessID: "p"})
	require.NoError(t, err)
	assert.True(t, r.Gap)
	assert.Positive(t, r.EarliestCursor)
	assert.Equal(t, r.EarliestCursor, r.FromCursor)
	s := b.signal(protocol.ProcessTerminate, "p", -1)
	assert.Equal(t, "SIGTERM", s.ExitSignal)
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	assert.Less(t, now.HeapInuse, uint64(64<<20))
}

// The exit is the process's own; who keeps the pipe open delays only the end of the stream.
func TestDescendantKeepsThePipe(t *testing.T) {
	b := newBench(t, Options{})
	started := time.Now()
	s := b.run(sh("p", `(read -r x < fifo; echo LATE) & mkfifo fifo; echo early`)) // the reader waits for a writer
	assert.Less(t, time.Since(started), 10*time.Second)
	assert.Equal(t, 0, *s.ExitCode)
	r, err := b.read(protocol.ProcessReadParams{ProcessID: "p"})
	require.NoError(t, err)
	assert.Contains(t, string(r.Data), "early\n")
	r, err = b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: r.NextCursor, WaitMS: 50})
	require.NoError(t, err)
	assert.Equal(t, protocol.ProcessExited, r.State)
	if !r.EOF { // unless the reader was there before the fifo
		b.run(sh("q", `echo x > fifo`))
		assert.Contains(t, b.all("p", ""), "LATE\n")
	}
}

// 200 programs that fail at once: what they said is there when their exit is (case 16).
func TestLastWords(t *testing.T) {
	b := newBench(t, Options{KeepFinished: 500})
	var all sync.WaitGroup
	for lane := range 8 {
		all.Go(func() {
			for i := range full(25, 4) {
				id := fmt.Sprintf("%d-%d", lane, i)
				p := sh(id, `echo "ModuleNotFoundError: $$" >&2; exit 1`)
				p.WaitMS = 60_000
				if s, err := b.try(p); !assert.NoError(t, err) || !assert.Equal(t, 1, *s.ExitCode) {
					return
				}
				r, err := b.read(protocol.ProcessReadParams{ProcessID: id, Stream: protocol.StreamStderr})
				assert.NoError(t, err)
				assert.Contains(t, string(r.Data), "ModuleNotFoundError", id)
			}
		})
	}
	all.Wait()
}

// Cases 18 and 19: what comes late comes.
func TestLateOutput(t *testing.T) {
	b := newBench(t, Options{})
	s := b.run(sh("p", `exec 1>&-; sleep 0.3; echo LATE >&2; exit 4`))
	assert.Equal(t, 4, *s.ExitCode)
	assert.Equal(t, "LATE\n", b.all("p", protocol.StreamStderr))

	p := sh("q", `echo BEFORE; trap 'echo CLEANUP >&2; exit 9' TERM; sleep 30 & wait`)
	p.TimeoutMS = 500
	s = b.run(p)
	assert.Equal(t, protocol.ProcessKilled, s.State)
	assert.Equal(t, "timeout", s.Reason)
	assert.Equal(t, "BEFORE\n", b.all("q", ""))
	assert.Equal(t, "CLEANUP\n", b.all("q", protocol.StreamStderr))
}

// Bytes are bytes, wherever a read cuts them (cases 24 to 28).
func TestBytes(t *testing.T) {
	b := newBench(t, Options{})
	want := bytes.Repeat([]byte("─"), 20_000)
	want = append(want, "\x00\xff\xfe\x80\x1b[1mend\r"...)
	p := protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"cat"}, Stdin: protocol.StdinOpen}
	b.start(p)
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 50_000)
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: rest[:n], CloseStdin: n == len(rest)})
		require.NoError(t, err)
		rest = rest[n:]
	}
	var got []byte
	for cursor := int64(0); ; {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "p", Cursor: cursor, MaxBytes: 1000, WaitMS: 10_000})
		require.NoError(t, err)
		got, cursor = append(got, r.Data...), r.NextCursor
		require.EqualValues(t, len(got), cursor)
		if r.EOF {
			break
		}
	}
	assert.True(t, bytes.Equal(want, got))
}

func TestReadsAreLimited(t *testing.T) {
	b := newBench(t, Options{MaxReads: 2})
	b.start(sh("p", "sleep 60"))
	ctx, cancel := context.WithCancel(b.ctx)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			waiter := *b
			waiter.ctx = ctx
			_, err := waiter.read(protocol.ProcessReadParams{ProcessID: "p", WaitMS: 60_000})
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	require.Eventually(t, func() bool { return b.cap.waiting.Load() == 2 }, 10*time.Second, time.Millisecond)
	_, err := b.read(protocol.ProcessReadParams{ProcessID: "p", WaitMS: 1})
	e := requireError(t, err, protocol.CodeExecutorBusy, "")
	assert.True(t, e.Data.Retryable)
	_, err = b.read(protocol.ProcessReadParams{ProcessID: "p"})
	require.NoError(t, err, "one that does not wait is none of them")
	cancel()
	all.Wait()
}

// on_full block: nothing is lost however slow the reader, and the exit does not wait for it.
func TestBlockedProgram(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 16 << 10})
	p := sh("p", `seq 1 100000; exit 7`)
	p.OnFull = protocol.OnFullBlock
	b.start(p)
	var want strings.Builder
	for i := range 100_000 {
		fmt.Fprintln(&want, i+1)
	}
	require.Eventually(t, func() bool { return b.list()[0].Cursors.Stdout == 16<<10 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, protocol.ProcessRunning, b.list()[0].State)
	assert.True(t, want.String() == b.all("p", ""))
	assert.Equal(t, 7, *b.ended("p").ExitCode)

	// All it prints fits into the pipe: it exits although nobody reads.
	p = sh("q", `head -c 60000 /dev/zero; exit 8`)
	p.OnFull = protocol.OnFullBlock
	s := b.run(p)
	assert.Equal(t, 8, *s.ExitCode)
	assert.Len(t, b.all("q", ""), 60_000)
}

// Who waits for readers can be ended all the same, by whatever ends others.
func TestBlockedProgramEnds(t *testing.T) {
	b := newBench(t, Options{BufferBytes: 16 << 10})
	start := func(id string, timeout int64) {
		b.start(protocol.ProcessStartParams{ProcessID: id, Argv: []string{"yes"}, OnFull: protocol.OnFullBlock, TimeoutMS: timeout})
		require.Eventually(t, func() bool { return b.list()[len(b.list())-1].Cursors.Stdout >= 16<<10 }, 10*time.Second, time.Millisecond)
	}
	start("timeout", 300)
	assert.Equal(t, "timeout", b.ended("timeout").Reason)
	start("terminate", 0)
	assert.Equal(t, "SIGTERM", b.signal(protocol.ProcessTerminate, "terminate", -1).ExitSignal)
	start("session", 0)
	b.End()
	assert.Equal(t, "session_ended", b.ended("session").Reason)
}
