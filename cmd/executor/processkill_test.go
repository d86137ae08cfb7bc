//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// eventProcess is that a process.start is on its way.
const eventProcess = "process sent"

// processKills is how often TestProcessesOfKilledExecutor kills; a tenth of EXECUTOR_KILLS when that is set.
const processKills = 5

// fate is what a caller was told of a process.
type fate struct {
	params protocol.ProcessStartParams
	state  protocol.ProcessState
	err    error
}

// An executor that is killed, at whatever moment, while processes are started: none is
// started twice, whoever waits for one is told its end, and asked again about it the
// next executor answers the same. (case 108)
func TestProcessesOfKilledExecutor(t *testing.T) {
	r := newRig(t)
	_, stream := seeded(t)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	var lock sync.Mutex
	var fates []fate
	for n := range 4 {
		chance := stream(uint64(n) + 1)
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(span(chance, 0, 10*time.Millisecond)):
				}
				f := r.runProcess(fmt.Sprintf("p%d-%d", n, i), chance)
				lock.Lock()
				fates = append(fates, f)
				lock.Unlock()
			}
		})
	}
	chance, kills := stream(0), killsWanted(t, processKills, 10)
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	for range kills {
		awaitEvent(t, r.next(eventProcess), eventProcess)
		if chance.IntN(2) == 0 {
			wait(span(chance, 0, 400*time.Millisecond)) // some have come to their end by then
		} else {
			wait(span(chance, 0, 30*time.Millisecond))
		}
		r.stopExecutor(syscall.SIGKILL)
		came := r.next(eventRegistered)
		r.startExecutor()
		awaitEvent(t, came, eventRegistered)
	}
	close(stop)
	workers.Wait()
	told := map[string]int{}
	ran := r.startsSoFar()
	for _, f := range fates {
		id := f.params.ProcessID
		require.LessOrEqual(t, ran[id], 1, "%s was started more than once", id)
		gap := new(brain.GapError)
		switch {
		case errors.As(f.err, &gap): // what it had printed is gone with its executor
			told["gap"]++
		case f.err != nil:
			require.NotEmpty(t, reasonOf(f.err), "%s: %v", id, f.err)
			told[reasonOf(f.err)]++
		case f.state.State == protocol.ProcessExited:
			require.Equal(t, 1, ran[id], "%s is said to have ended by itself", id)
			told[f.state.State]++
		default:
			require.Equal(t, protocol.ProcessFailed, f.state.State, id)
			require.Equal(t, "executor_restarted", f.state.Reason, id)
			told[f.state.Reason]++
		}
	}
	t.Logf("%d kills: %v", kills, told)
	require.NotZero(t, told["executor_restarted"], "none ran when the executor was killed: the test says nothing")

	// Asked again, also behind another kill.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 2 {
		s, err := r.current(ctx)
		require.NoError(t, err)
		for _, f := range fates[max(0, len(fates)-40):] {
			if f.err != nil {
				continue
			}
			p, err := s.Process(ctx, f.params)
			require.NoError(t, err, f.params.ProcessID)
			state := p.State()
			assert.Equal(t, f.state.State, state.State, f.params.ProcessID)
			assert.Equal(t, f.state.Reason, state.Reason, f.params.ProcessID)
			assert.Equal(t, f.state.ExitCode, state.ExitCode, f.params.ProcessID)
		}
		r.stopExecutor(syscall.SIGKILL)
		came := r.next(eventRegistered)
		r.startExecutor()
		awaitEvent(t, came, eventRegistered)
	}
	require.Equal(t, ran, r.startsSoFar(), "nothing of it has run again")
}

// runProcess starts a process with a side effect and waits for its end.
func (r *rig) runProcess(id string, chance *rand.Rand) (f fate) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f.params = protocol.ProcessStartParams{ProcessID: id, Argv: []string{"sh", "-c", fmt.Sprintf("echo %s >> starts; sleep 0.0%d%d; echo done", id, chance.IntN(6), chance.IntN(10))}}
	s, err := r.current(ctx)
	if err != nil {
		f.err = err
		return f
	}
	r.tell(eventProcess)
	p, err := s.Process(ctx, f.params)
	if err != nil {
		f.err = err
		return f
	}
	if _, err = io.ReadAll(p); err == nil {
		f.state, err = p.Wait(ctx)
	}
	f.err = err
	return f
}

// startsSoFar is how often each process was started.
func (r *rig) startsSoFar() map[string]int {
	raw, err := os.ReadFile(filepath.Join(r.work, "starts"))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(r.t, err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		ran[strings.TrimSpace(line)]++
	}
	return ran
}

// A process that runs when the executor is killed: whoever reads it and waits for it is
// told, without asking, and the next process has nothing to do with it.
func TestProcessIsToldAfterKill(t *testing.T) {
	r := newRig(t)
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	p, err := s.Process(ctx, protocol.ProcessStartParams{ProcessID: "p", Stdin: protocol.StdinOpen,
		Argv: []string{"sh", "-c", "echo p >> starts; echo ready; exec sleep 600"}})
	require.NoError(t, err)
	_, err = io.ReadFull(p, make([]byte, len("ready\n")))
	require.NoError(t, err)
	r.stopExecutor(syscall.SIGKILL)
	came = r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	select {
	case <-p.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("process.status did not come")
	}
	require.Equal(t, "executor_restarted", p.State().Reason)
	rest, err := io.ReadAll(p)
	require.NoError(t, err)
	require.Empty(t, rest)
	_, err = p.Write([]byte("x"))
	require.ErrorIs(t, err, protocol.ErrConflict)
	grace := int64(0)
	state, err := p.Terminate(ctx, &grace)
	require.NoError(t, err)
	require.Equal(t, protocol.ProcessFailed, state.State)
	require.Equal(t, map[string]int{"p": 1}, r.startsSoFar())
}
