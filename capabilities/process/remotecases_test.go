//go:build unix

package process_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities/process"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// What is printed while there is no connection is there afterwards, also to somebody who reads it for
// the first time then (cases 100 and 112).
func TestRemoteAway(t *testing.T) {
	r := newRemote(t, process.Options{})
	x := r.start(protocol.ProcessStartParams{Argv: slowly("$_", 0.015)})
	first := make([]byte, 4)
	_, err := io.ReadFull(x, first)
	require.NoError(t, err)
	stop := r.cutting(time.Millisecond)
	wait := time.NewTimer(time.Second)
	<-wait.C
	stop()
	rest, err := io.ReadAll(x)
	require.NoError(t, err)
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintln(&want, i+1)
	}
	assert.Equal(t, want.String(), string(first)+string(rest))
	state, err := x.Wait(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, 0, *state.ExitCode)
}

// Over a new connection the list has the one that lives and the newest of those that have ended; both
// ends count what runs (case 139).
func TestRemoteListOverConnections(t *testing.T) {
	r := newRemote(t, process.Options{})
	p := script("sleep 700")
	p.ProcessID = "live"
	live := r.start(p)
	for i := range 66 {
		x := r.start(protocol.ProcessStartParams{ProcessID: fmt.Sprint(i), Argv: []string{"true"}, WaitMS: 60_000})
		require.NotEqual(t, protocol.ProcessRunning, x.State().State)
	}
	status := r.ex.Status()
	assert.Equal(t, 1, status.Processes)
	assert.Equal(t, 1, status.Sessions[0].Processes)
	assert.Equal(t, 1, r.Running())
	before := status.ConnectionID
	r.faults.CutNow()
	require.Eventually(t, func() bool {
		now := r.ex.Status().ConnectionID
		return now != "" && now != before
	}, 30*time.Second, time.Millisecond)
	list, err := brain.Do(r.ctx, r.Executor(), protocol.ProcessList, protocol.ProcessListParams{SessionID: r.ID()})
	require.NoError(t, err)
	require.Len(t, list.Processes, 65)
	assert.Equal(t, "live", list.Processes[0].ProcessID)
	assert.Equal(t, protocol.ProcessRunning, list.Processes[0].State)
	assert.Equal(t, "65", list.Processes[64].ProcessID)
	grace := int64(0)
	_, err = live.Terminate(r.ctx, &grace)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.ex.Status().Processes == 0 && r.Running() == 0 }, 10*time.Second, time.Millisecond)
}
