//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// How often TestKilledExecutor kills; EXECUTOR_KILLS is for more: 200 before a release. TestRestartedExecutor
// asks for the end less often: a twentieth of EXECUTOR_KILLS.
const (
	kills    = 10
	restarts = 4
)

// killsWanted is how often to end the executor.
func killsWanted(t *testing.T, few, part int) int {
	t.Helper()
	text := os.Getenv("EXECUTOR_KILLS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "EXECUTOR_KILLS")
	return max(n/part, 1)
}

// An executor that is killed, at whatever moment, again and again, while calls come:
// none runs twice, none that was accepted is lost, and nobody waits for ever. (case 108)
func TestKilledExecutor(t *testing.T) {
	endAgainAndAgain(t, killsWanted(t, kills, 1), syscall.SIGKILL)
}

// One that is asked to end, as by a service manager that restarts it, lets running
// calls finish: each that was accepted has a result, and it is known how it ended.
func TestRestartedExecutor(t *testing.T) {
	fates := endAgainAndAgain(t, killsWanted(t, restarts, 20), syscall.SIGTERM)
	require.Zero(t, fates["failed outcome_unknown"])
}

func endAgainAndAgain(t *testing.T, times int, how syscall.Signal) map[string]int {
	t.Helper()
	r := newRig(t)
	seed, stream := seeded(t)
	began := time.Now()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for n := range 6 {
		workers.Go(func() { r.keepCalling(n, stream(uint64(n)+1), stop) })
	}
	chance := stream(0)
	for range times {
		event := []string{"", eventRegistered, eventSent, eventAccepted, eventStored}[chance.IntN(5)]
		came := r.next(eventRegistered)
		r.startExecutor()
		if event == "" { // in the middle of its start
			wait(span(chance, 0, 300*time.Millisecond))
		} else {
			awaitEvent(t, came, eventRegistered)
			if event != eventRegistered {
				awaitEvent(t, r.next(event), event)
			}
			at := 60 * time.Millisecond
			if chance.IntN(4) == 0 {
				at = 300 * time.Millisecond // some calls have come to their end by then
			}
			wait(span(chance, 0, at))
		}
		r.stopExecutor(how)
	}
	r.startExecutor()
	close(stop)
	r.settle(&workers)
	fates := r.audit(t)
	t.Logf("%d times %v in %v, seed %d; %s", times, how, time.Since(began).Round(time.Second), seed, told(fates))
	require.Greater(t, fates["succeeded"], times/5, "too few calls went well for the test to say much")
	return fates
}

func awaitEvent(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("waited for the event %q in vain", what)
	}
}

func wait(d time.Duration) { <-time.After(d) }

// keepCalling makes calls, one after another, until it is told to stop.
func (r *rig) keepCalling(n int, chance *rand.Rand, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(span(chance, 0, 10*time.Millisecond)):
		}
		id := fmt.Sprintf("w%d-%d", n, i)
		r.make(id, shortTask(id, chance))
	}
}

// shortTask is a call of a tenth of a second at most.
func shortTask(id string, chance *rand.Rand) task {
	switch chance.IntN(5) {
	case 0:
		return task{tool: "read", input: object{"path": "constant"}, holds: "this does not change"}
	case 1:
		return bash(id, "sleep 0.0%d; echo %s >> counter; sleep 0.0%d; echo done", chance.IntN(9)+1, id, chance.IntN(9)+1)
	case 2: // more than fits into the journal's line
		return bash(id, "echo %s >> counter; head -c %d /dev/zero | tr '\\0' x; echo done", id, 10_000+chance.IntN(40_000))
	default:
		return bash(id, "echo %s >> counter; echo done", id)
	}
}

type object = map[string]any

// bash is a call with a side effect that can be counted.
func bash(id, format string, args ...any) task {
	return task{tool: "bash", input: object{"command": fmt.Sprintf(format, args...)}, effect: true, holds: "done"}
}

// Calls that are sent again to an executor that was killed: while they ran, when their
// result was not acknowledged, and long after it was (case 108, case 110).
func TestRedeliveredAfterKill(t *testing.T) {
	r := newRig(t)
	again := func() { // killed, and back
		r.stopExecutor(syscall.SIGKILL)
		came := r.next(eventRegistered)
		r.startExecutor()
		awaitEvent(t, came, eventRegistered)
	}
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	call := func(id, command string) *brain.PendingCall {
		t.Helper()
		if r.ledger.record(id) == nil {
			r.open(id, task{})
		}
		c, err := s.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: "bash", Input: inputOf(object{"command": command})})
		require.NoError(t, err)
		return c
	}
	result := func(c *brain.PendingCall) protocol.ToolResultParams {
		t.Helper()
		p, err := c.Result(ctx)
		require.NoError(t, err)
		return p
	}

	const lasts = "echo lasts >> counter; sleep 3"
	c := call("lasts", lasts)
	require.Eventually(t, func() bool { return r.ledger.ran(t, "lasts") == 1 }, 20*time.Second, 10*time.Millisecond)
	again()
	p := result(c) // without being asked again
	require.Equal(t, protocol.OutcomeFailed, p.Outcome)
	require.NotNil(t, p.Error)
	require.Equal(t, protocol.ReasonOutcomeUnknown, p.Error.Reason)
	require.Equal(t, p, result(call("lasts", lasts)), "the same answer to the same call")

	const short = "echo short >> counter; echo done"
	p = result(call("short", short))
	require.Equal(t, protocol.OutcomeSucceeded, p.Outcome)
	again()
	require.Equal(t, p, result(call("short", short)), "the stored result, after the acknowledgement and a kill")
	again()
	require.Equal(t, p, result(call("short", short)), "and once more")

	require.Eventually(t, func() bool { // the stored result may come once more before the answer does
		_, err = s.Start(ctx, protocol.ToolCallParams{ToolCallID: "short", Tool: "bash", Input: inputOf(object{"command": "echo other"})})
		return err != nil
	}, 10*time.Second, 50*time.Millisecond)
	require.ErrorIs(t, err, protocol.ErrConflict, "an id is for one call, also after a kill")
	require.Equal(t, 1, r.ledger.ran(t, "lasts"))
	require.Equal(t, 1, r.ledger.ran(t, "short"))
	require.Empty(t, r.wrong)
}

// A result that the brain does not take before the executor is killed comes after.
func TestOwedAfterKill(t *testing.T) {
	r := newRig(t)
	r.refuse.Store(true)
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	offered := r.next(eventStored)
	var calls []*brain.PendingCall
	for n := range 3 {
		id := fmt.Sprint("owed-", n)
		job := bash(id, "echo %s >> counter; echo done", id)
		r.open(id, job)
		c, err := s.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: job.tool, Input: inputOf(job.input)})
		require.NoError(t, err)
		calls = append(calls, c)
	}
	awaitEvent(t, offered, eventStored)
	for n := range calls {
		id := fmt.Sprint("owed-", n)
		require.Eventually(t, func() bool { return r.ledger.ran(t, id) == 1 }, 20*time.Second, 10*time.Millisecond)
	}
	wait(500 * time.Millisecond) // for the results to be there; if one is not, its outcome is unknown
	r.stopExecutor(syscall.SIGKILL)
	r.refuse.Store(false)
	came = r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	for n, c := range calls {
		p, err := c.Result(ctx)
		require.NoError(t, err)
		if n == 0 { // this one was offered
			require.Equal(t, protocol.OutcomeSucceeded, p.Outcome)
		}
		require.Equal(t, 1, r.ledger.ran(t, fmt.Sprint("owed-", n)))
	}
	require.Empty(t, r.wrong)
}
