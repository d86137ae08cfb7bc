package outbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// awaitLate waits until nothing is late any more.
func awaitLate(t *testing.T, b *Box) {
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.late) == 0
	}, 5*time.Second, time.Millisecond)
	b.flush() // and its sync has ended
}

// A result is there for whoever sends it before the disk has it, and the acceptance is
// kept until then.
func TestResultIsSyncedLate(t *testing.T) {
	dir := t.TempDir()
	b := openIn(t, dir)
	_, err := b.Accept(call("s", "c", ""), false)
	require.NoError(t, err)
	awaitLate(t, b)
	b.mu.Lock()
	accepted := b.calls[key{"s", "c"}].ref
	b.mu.Unlock()
	require.NoError(t, b.Put(result("s", "c", "text")))
	r, ok := b.Peek(nil)
	require.True(t, ok)
	require.Equal(t, "c", r.ToolCallID)
	b.mu.Lock()
	for _, l := range b.late { // none when this test was not run for a while
		require.Equal(t, accepted, l.before)
	}
	b.mu.Unlock()
	require.NoError(t, b.Ack("s", "c"))
	awaitLate(t, b)
	require.NoError(t, b.Degraded())
	require.NoError(t, b.Close())
	require.NoError(t, b.Put(result("s", "late", "nobody waits for this one"))) // and nothing is started for it

	b = openIn(t, dir)
	require.Zero(t, b.Owed())
	state, err := b.Lookup(call("s", "c", ""))
	require.NoError(t, err)
	require.Equal(t, Done, state)
}

// A disk that fails after a result was sent: what it has not taken is written again.
func TestLateSyncFails(t *testing.T) {
	dir := t.TempDir()
	b := openIn(t, dir)
	for i := range 3 {
		_, err := b.Accept(call("s", fmt.Sprint(i), ""), false)
		require.NoError(t, err)
	}
	awaitLate(t, b)
	var pipe [2]int
	require.NoError(t, syscall.Pipe2(pipe[:], syscall.O_CLOEXEC))
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	segment := segmentFD(t, dir)
	b.flushing.Lock() // until the disk has failed
	for i := range 3 {
		require.NoError(t, b.Put(result("s", fmt.Sprint(i), "text")))
	}
	require.NoError(t, b.Degraded())
	require.NoError(t, syscall.Dup3(pipe[0], segment, syscall.O_CLOEXEC)) // it cannot be synced
	b.flushing.Unlock()
	awaitLate(t, b)
	require.ErrorContains(t, b.Degraded(), "sync the journal")
	require.NoError(t, b.Ack("s", "1"))

	require.NoError(t, b.Recover())
	require.NoError(t, b.Close())
	b = openIn(t, dir)
	var ids []string
	for range 2 {
		r := peek(t, b)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome)
		require.NoError(t, b.Ack("s", r.ToolCallID))
		ids = append(ids, r.ToolCallID)
	}
	require.ElementsMatch(t, []string{"0", "2"}, ids)
	require.Zero(t, b.Owed())
}

// segmentFD is the descriptor of the one segment of a journal.
func segmentFD(t *testing.T, dir string) int {
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasPrefix(to, dir) && strings.HasSuffix(to, ".log") {
			var fd int
			_, err := fmt.Sscan(filepath.Base(link), &fd)
			require.NoError(t, err)
			return fd
		}
	}
	require.Fail(t, "the journal has no segment open")
	return 0
}
