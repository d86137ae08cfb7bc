//go:build linux

package process

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// zombies are children of this process that nobody has waited for.
func zombies(t *testing.T) []string {
	var found []string
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err == nil && strings.Contains(string(text), fmt.Sprintf(") Z %d ", os.Getpid())) {
			found = append(found, string(text))
		}
	}
	return found
}

// Many short ones one after another, and many at once: nothing of them is left (case 137).
// EXECUTOR_STRESS=1 makes it 300 and 200.
func TestNothingLeaks(t *testing.T) {
	turns, atOnce := full(75, 10), full(200, 30)
	b := newBench(t, Options{MaxProcesses: atOnce})
	b.run(sh("first", "true"))
	fds, goroutines := open(t), runtime.NumGoroutine()
	var all sync.WaitGroup
	for lane := range 4 {
		all.Go(func() {
			for i := range turns {
				p := protocol.ProcessStartParams{ProcessID: fmt.Sprintf("short %d %d", lane, i), Argv: []string{"true"}, WaitMS: 60_000}
				if i%2 == 0 {
					p.Stdin = protocol.StdinOpen
				}
				if i%3 == 0 && b.cap.pty {
					p.IOMode = protocol.IOModePTY
				}
				s, err := b.try(p)
				assert.NoError(t, err)
				assert.Equal(t, protocol.ProcessExited, s.State)
			}
		})
	}
	all.Wait()
	for i := range atOnce {
		p := protocol.ProcessStartParams{ProcessID: fmt.Sprint(i), Argv: []string{"cat"}, Stdin: protocol.StdinOpen}
		b.start(p)
	}
	_, err := b.try(sh("more", "true"))
	requireError(t, err, protocol.CodeResourceUnavailable, "")
	for i := range atOnce {
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: fmt.Sprint(i), Data: []byte("hello"), CloseStdin: true})
		require.NoError(t, err)
	}
	for i := range atOnce {
		b.ended(fmt.Sprint(i))
	}
	require.Eventually(t, func() bool {
		return open(t) <= fds+5 && runtime.NumGoroutine() <= goroutines+5 && len(zombies(t)) == 0
	}, 10*time.Second, 20*time.Millisecond, "%d → %d descriptors, %d → %d goroutines", fds, open(t), goroutines, runtime.NumGoroutine())
}
