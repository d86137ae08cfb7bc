package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how often TestKilledExecutor kills; EXECUTOR_KILLS is for more.
const kills = 200

// An executor that is killed, at whatever moment, again and again, while calls come:
// none runs twice, none that was accepted is lost, and nobody waits for ever. (case 108)
func TestKilledExecutor(t *testing.T) {
	n := kills
	if text := os.Getenv("EXECUTOR_KILLS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, "EXECUTOR_KILLS")
	}
	endAgainAndAgain(t, n, syscall.SIGKILL)
}

// One that is asked to end, as by a service manager that restarts it, lets running
// calls finish: each that was accepted has a result, and it is known how it ended.
func TestRestartedExecutor(t *testing.T) {
	fates := endAgainAndAgain(t, 10, syscall.SIGTERM)
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
			wait(span(chance, 0, 60*time.Millisecond))
		}
		r.stopExecutor(how)
	}
	r.startExecutor()
	close(stop)
	r.settle(&workers)
	fates := r.audit(t)
	t.Logf("%d times %v in %v, seed %d; %s", times, how, time.Since(began).Round(time.Second), seed, told(fates))
	require.Greater(t, fates["succeeded"], times/2, "too few calls went well for the test to say much")
	return fates
}

func awaitEvent(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
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
