package control

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/executor"
)

func TestPrintStatus(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := Status{PID: 7, Version: "v1", Started: ago(time.Hour), StateDir: "/s", Config: "/c\x1b.yaml", Brains: []BrainStatus{
		{Name: "a", Status: executor.Status{State: executor.StateReady, Since: ago(time.Minute), Brain: "wss://a/", ExecutorID: "exe\n1", ConnectionID: "c1",
			Connected: ago(time.Minute), LastContact: ago(3 * time.Second), LeaseLeftMS: 27_000, CallsRunning: 18, Processes: 1, ResultsOwed: 2,
			JournalBytes: 300 << 10, Degraded: "no room", Sessions: []executor.SessionStatus{{ID: "s1", State: "active", Calls: 18, Processes: 1,
				Running: []executor.CallStatus{{ID: "call", Tool: "bash", Since: ago(12 * time.Second)}}}},
			Errors: []executor.ErrorStatus{{At: ago(time.Second), Text: "bad\x1b[31m", Times: 3}}}},
		{Name: "b", Status: executor.Status{State: executor.StateWaiting, Since: ago(time.Second), Brain: "wss://b/", Attempts: 1, NextAttempt: ago(-1500 * time.Millisecond), OverdueMS: 5000}},
		{Name: "c", Status: executor.Status{State: executor.StateDraining, Since: ago(time.Second), Brain: "wss://c/", DrainReason: "shutdown", DrainUntil: ago(-9 * time.Second)}},
	}}
	var out bytes.Buffer
	require.NoError(t, PrintStatus(&out, s, now))
	for _, says := range []string{
		"executor v1, pid 7, up for 1h0m0s", "/s", `$'/c\x1b.yaml'`, "brain wss://a/", "ready for 1m0s", `$'exe\n1'`,
		"c1, for 1m0s; the brain answered 3s ago", "27s left", "1 session, 18 calls running, 1 process", "2 owed, 0 lost; journal 300.0 KiB",
		"no room", "s1: active, 18 calls, 1 process", "call: bash, for 12s", "and 17 more", `1s ago: bad\x1b[31m (3 times)`,
		"waiting for 1s", "in 1.5s, after 1 failed one in a row", "for 5s, restart it", "shutdown; cancels what runs in 9s",
	} {
		assert.Contains(t, out.String(), says)
	}
	assert.Equal(t, "18 calls (bash), 1 process, 2 results to be delivered", WaitsFor(s))
	assert.NotContains(t, out.String(), "\x1b")
	assert.Empty(t, WaitsFor(Status{}))
	for n, text := range map[int64]string{5: "5 bytes", 2048: "2.0 KiB", 3 << 20: "3.0 MiB"} {
		assert.Equal(t, text, size(n))
	}
}
