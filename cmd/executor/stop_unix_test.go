//go:build unix

package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// Stopped for three leases, as a laptop that sleeps: it registers anew at once, and what
// had ended meanwhile is told once, not under the lost lease (case 98).
func TestStoppedForThreeLeases(t *testing.T) {
	s := newSite(t)
	const lease = time.Second
	var mu sync.Mutex
	var came []time.Time // executors
	b := brain.New(brain.Options{HeartbeatInterval: 300 * time.Millisecond, LeaseTTL: lease, OnExecutor: func(_ *brain.Executor, connected bool) {
		mu.Lock()
		defer mu.Unlock()
		if connected {
			came = append(came, time.Now())
		}
	}})
	defer b.Close("test ends")
	server := httptest.NewServer(b)
	defer server.Close()
	agent := s.start("executor", "run", "--brain", strings.Replace(server.URL, "http", "ws", 1))
	x, err := b.WaitExecutor(t.Context())
	require.NoError(t, err)
	session, err := x.Assign(t.Context(), protocol.SessionAssignParams{})
	require.NoError(t, err)
	call, err := session.Start(t.Context(), protocol.ToolCallParams{Tool: "bash", Input: []byte(`{"command":"echo run >> counter; sleep 1.5; echo done"}`)})
	require.NoError(t, err)
	s.waitFor("counter")
	agent.signal(syscall.SIGSTOP)
	<-time.After(3 * lease)
	woke := time.Now()
	agent.signal(syscall.SIGCONT)
	result, err := call.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "done\n", result.Content[0].Text)
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, len(came), 2)
	assert.Less(t, came[1].Sub(woke), 5*time.Second)
	counter, err := os.ReadFile(filepath.Join(s.work, "counter"))
	require.NoError(t, err)
	assert.Equal(t, "run\n", string(counter))
}
