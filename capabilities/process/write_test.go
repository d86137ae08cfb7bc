//go:build unix

package process

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func at(offset int64) *int64 { return &offset }

func TestWriteInOrder(t *testing.T) {
	b := newBench(t, Options{})
	b.start(protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"cat"}, Stdin: protocol.StdinOpen})
	write := func(text string, offset *int64, end bool) (int64, error) {
		r, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte(text), Offset: offset, CloseStdin: end})
		if err != nil {
			return 0, err
		}
		assert.True(t, r.Accepted)
		return *r.Offset, nil
	}
	for _, c := range []struct {
		text   string
		offset *int64
		want   int64
	}{
		{"abc", nil, 3}, {"def", at(3), 6},
		{"def", at(3), 6}, // a repeat
		{"efgh", at(4), 8}, {"", nil, 8}, {"a", at(0), 8},
	} {
		got, err := write(c.text, c.offset, false)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	_, err := write("x", at(9), false)
	e := requireError(t, err, protocol.CodeConflict, "")
	assert.Contains(t, e.Message, "offset")
	_, err = write("ij", at(8), true)
	require.NoError(t, err)
	got, err := write("ij", at(8), true)
	require.NoError(t, err, "a repeat of the last one")
	assert.EqualValues(t, 10, got)
	assert.Equal(t, "abcdefghij", b.all("p", ""))
	_, err = write("more", nil, false)
	requireError(t, err, protocol.CodeConflict, "")
	b.ended("p")
	_, err = write("more", at(10), false)
	requireError(t, err, protocol.CodeConflict, "")
	_, err = write("ij", at(8), true)
	require.NoError(t, err, "also after the end")
}

func TestWriteRefuses(t *testing.T) {
	b := newBench(t, Options{MaxWrite: 10})
	b.start(sh("closed", "sleep 60"))
	_, err := b.write(protocol.ProcessWriteParams{ProcessID: "closed", Data: []byte("x")})
	requireError(t, err, protocol.CodeConflict, "")
	b.start(protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"cat"}, Stdin: protocol.StdinOpen})
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: make([]byte, 11)})
	requireError(t, err, protocol.CodePayloadTooLarge, "")
	_, err = b.write(protocol.ProcessWriteParams{ProcessID: "none"})
	requireError(t, err, protocol.CodeNotFound, "")
	assert.Equal(t, 0, *b.run(sh("stdin", `[ "$(cat)" = "" ]`)).ExitCode, "closed means empty, not absent")
}

// A program that does not read holds up nobody but who writes to it, and for a bounded time.
func TestProgramThatDoesNotRead(t *testing.T) {
	b := newBench(t, Options{InputWait: 100 * time.Millisecond})
	p := sh("p", "while [ ! -e go ]; do sleep 0.02; done; exec wc -c")
	p.Stdin = protocol.StdinOpen
	b.start(p)
	var taken int64
	data := make([]byte, 64<<10)
	for {
		r, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: data, Offset: at(taken)})
		if err != nil {
			e := requireError(t, err, protocol.CodeExecutorBusy, "")
			assert.True(t, e.Data.Retryable)
			break
		}
		taken = *r.Offset
		require.Less(t, taken, int64(1<<20), "what is held is bounded")
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Millisecond)
	defer cancel()
	waiter := *b
	waiter.ctx = ctx
	_, err := waiter.write(protocol.ProcessWriteParams{ProcessID: "p", Data: data})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, protocol.ProcessRunning, b.list()[0].State)

	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	require.Eventually(t, func() bool {
		r, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: data, Offset: at(taken), CloseStdin: true})
		return err == nil && *r.Offset == taken+int64(len(data))
	}, 10*time.Second, time.Millisecond, "nothing was taken of what was refused")
	assert.Equal(t, taken+int64(len(data)), number(t, b.all("p", "")))
}

// A program that has closed its input, or has ended while somebody waits to write.
func TestInputIsGone(t *testing.T) {
	b := newBench(t, Options{InputWait: time.Minute})
	p := sh("p", "exec <&-; echo closed; sleep 60")
	p.Stdin = protocol.StdinOpen
	b.start(p)
	b.until("p", "", "closed")
	require.Eventually(t, func() bool {
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte("x")})
		return err != nil
	}, 10*time.Second, time.Millisecond)
	_, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: []byte("x")})
	requireError(t, err, protocol.CodeConflict, "")

	q := sh("q", "sleep 60")
	q.Stdin = protocol.StdinOpen
	b.start(q)
	refused := make(chan error, 1)
	go func() {
		for {
			if _, err := b.write(protocol.ProcessWriteParams{ProcessID: "q", Data: make([]byte, 64<<10)}); err != nil {
				refused <- err
				return
			}
		}
	}()
	b.signal(protocol.ProcessTerminate, "q", 0)
	requireError(t, <-refused, protocol.CodeConflict, "")
}
