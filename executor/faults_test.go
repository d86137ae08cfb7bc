package executor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// The tests of this file play one story again and again, each time with another fault
// somewhere in it, and look whether everything that is promised holds in the end.

var faultSeed = flag.Uint64("fault-seed", 20261130, "of the random pairs of faults")

// frame is a message of the story, as a rule of rpctest counts it.
type frame struct {
	method string
	answer bool
	nth    int
}

func (f frame) String() string {
	if f.answer {
		return fmt.Sprintf("answer to %s %d", f.method, f.nth)
	}
	return fmt.Sprintf("%s %d", f.method, f.nth)
}

// fault is what happens to one of them.
type fault struct {
	name string
	do   rpctest.Action
}

func everyFault() []fault {
	return []fault{
		{"cut before", rpctest.CutBefore}, {"cut after", rpctest.CutAfter}, {"stall", rpctest.Stall}, {"drop", rpctest.Drop},
		{"repeat", rpctest.Repeat}, {"short delay", rpctest.Delay(2 * time.Second)}, {"long delay", rpctest.Delay(40 * time.Second)},
	}
}

func (f frame) rule(do fault) rpctest.Rule {
	return rpctest.Rule{Method: f.method, Answer: f.answer, Nth: f.nth, Do: do.do}
}

// story is one session with five calls, on a real brain.
type story struct {
	t      *testing.T
	w      *world
	brain  *brain.Brain
	stored *ledger

	mu  sync.Mutex
	ran map[string]int // how often each call ran, by its tool
}

// ledger are results as a careful brain keeps them: by session and call, and a repeat
// must be the same.
type ledger struct {
	mu      sync.Mutex
	results map[string]string
	differ  []string
}

func (l *ledger) Put(_ context.Context, r protocol.ToolResultParams) (bool, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := r.SessionID + "/" + r.ToolCallID
	before, again := l.results[key]
	if again && before != string(raw) {
		l.differ = append(l.differ, before+" then "+string(raw))
	}
	if !again {
		l.results[key] = string(raw)
	}
	return !again, nil
}

// tools are those of the story: each does what one of its calls is about.
func (s *story) tools() []capabilities.Capability {
	counted := func(name string, h func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error)) capabilities.Capability {
		return tool(name, func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
			s.mu.Lock()
			s.ran[name]++
			s.mu.Unlock()
			return h(ctx, c)
		})
	}
	return []capabilities.Capability{
		counted("quick", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
			return protocol.Text("quick"), nil
		}),
		counted("fails", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{}, errors.New("it does not work")
		}),
		counted("tells", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
			for n := range 3 {
				c.Progress(fmt.Sprint(n, " of 3"))
				time.Sleep(time.Second)
			}
			return protocol.Text("told"), nil
		}),
		counted("lasts", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
			time.Sleep(25 * time.Second)
			return protocol.Text("lasted"), nil
		}),
		counted("waits", func(ctx context.Context, _ *capabilities.Call) (protocol.ToolOutput, error) {
			<-ctx.Done()
			return protocol.Text("so far"), ctx.Err()
		}),
	}
}

// play plays the story to its end, with the given faults in it.
func (w *world) play(change func(*Options), rules ...rpctest.Rule) {
	t := w.t
	s := &story{t: t, w: w, stored: &ledger{results: map[string]string{}}, ran: map[string]int{}}
	for _, r := range rules {
		w.faults.Add(r)
	}
	s.brain = w.brain(brain.Options{Results: s.stored})
	w.run(change, s.tools()...)
	x, session := s.assign()
	id := x.ID()

	outcomes := map[string]string{}
	note := func(call string, r protocol.ToolResultParams) { outcomes[call] = r.Outcome + " " + text(r) }
	s.insist(func() error { // under an id of the brain's, by its short way
		r, err := session.Call(w.ctx, "quick", nil)
		note("quick", r)
		return err
	})
	note("fails", s.call(session, "fails"))
	waits := s.start(session, "waits")
	note("tells", s.call(session, "tells"))
	s.insist(func() error {
		_, err := session.Cancel(w.ctx, "waits", "not wanted any more")
		return err
	})
	r, err := waits.Result(w.ctx)
	require.NoError(t, err)
	note("waits", r)
	note("lasts", s.call(session, "lasts"))
	require.NoError(t, session.Stop(w.ctx, "the story ends"))
	sleep(2 * time.Minute) // whatever is owed or late has come by then

	// What was told to the caller.
	require.Equal(t, "succeeded quick", outcomes["quick"])
	require.Contains(t, outcomes["fails"], "failed it does not work")
	require.Equal(t, "succeeded told", outcomes["tells"])
	require.Contains(t, outcomes["waits"], "canceled ")
	require.Equal(t, "succeeded lasted", outcomes["lasts"])
	// What was done, and kept.
	require.Equal(t, map[string]int{"quick": 1, "fails": 1, "tells": 1, "waits": 1, "lasts": 1}, s.ran, "how often each call ran")
	require.Len(t, s.stored.results, 5)
	require.Empty(t, s.stored.differ, "a result that came again was another one")
	// What is left: nothing.
	st := w.Status()
	require.Equal(t, StateReady, st.State)
	require.Equal(t, id, st.ExecutorID)
	require.Empty(t, st.Sessions)
	require.Zero(t, st.CallsRunning)
	require.Zero(t, st.ResultsOwed)
	require.Zero(t, st.ResultsLost)
	require.Empty(t, x.Sessions())
	require.Empty(t, w.ended.items, "ends of sessions that were not acknowledged")
	require.Len(t, s.brain.Executors(), 1)
}

// assign gets a session, on an executor that is there to stay.
func (s *story) assign() (*brain.Executor, *brain.Session) {
	s.t.Helper()
	for {
		x, err := s.brain.WaitExecutor(s.w.ctx)
		require.NoError(s.t, err)
		session, err := x.Assign(s.w.ctx, protocol.SessionAssignParams{SessionID: "s"})
		if errors.Is(err, brain.ErrForgotten) {
			continue
		}
		require.NoError(s.t, err)
		return x, session
	}
}

// insist does what a caller does about an error that is for now: the same again.
func (s *story) insist(try func() error) {
	s.t.Helper()
	for range 100 {
		err := try()
		if err == nil {
			return
		}
		var refused *protocol.Error
		require.ErrorAs(s.t, err, &refused)
		require.True(s.t, refused.Data.Retryable || errors.Is(err, protocol.ErrSessionNotActive), "%v", err)
		time.Sleep(time.Second)
	}
	require.Fail(s.t, "it never came about")
}

func (s *story) start(session *brain.Session, name string) (c *brain.PendingCall) {
	s.t.Helper()
	s.insist(func() (err error) {
		c, err = session.Start(s.w.ctx, protocol.ToolCallParams{ToolCallID: name, Tool: name})
		return err
	})
	return c
}

// call has a tool called under its own name.
func (s *story) call(session *brain.Session, name string) (r protocol.ToolResultParams) {
	s.t.Helper()
	s.insist(func() error {
		c, err := session.Start(s.w.ctx, protocol.ToolCallParams{ToolCallID: name, Tool: name})
		if err == nil {
			r, err = c.Result(s.w.ctx)
		}
		return err
	})
	return r
}

// frames are the messages of the story when nothing is wrong.
func frames(t *testing.T) (list []frame) {
	t.Helper()
	in(t, func(t *testing.T, w *world) {
		seen := map[frame]int{}
		w.faults.Watch(func(method string, answer bool) {
			f := frame{method: method, answer: answer}
			seen[f]++
			f.nth = seen[f]
			list = append(list, f)
		})
		w.play(nil)
		w.faults.Watch(nil)
	})
	// Of the heartbeats the first few: how many there are is chance.
	return slices.DeleteFunc(list, func(f frame) bool { return f.method == protocol.ExecutorHeartbeat.Name && f.nth > 3 })
}

// Every message of a session's life, with every fault; of those that come again every sixth, and with
// EXECUTOR_STRESS every one.
func TestEveryFrameEveryFault(t *testing.T) {
	all := frames(t)
	kinds := map[string]bool{}
	for _, f := range all {
		kinds[f.method] = true
	}
	for _, m := range []protocol.Spec{protocol.ExecutorRegister.Spec, protocol.ExecutorHeartbeat.Spec, protocol.SessionAssign.Spec,
		protocol.SessionReady.Spec, protocol.SessionStatus.Spec, protocol.SessionStop.Spec, protocol.SessionEnded.Spec,
		protocol.ToolCall.Spec, protocol.ToolCancel.Spec, protocol.ToolProgress.Spec, protocol.ToolResult.Spec} {
		require.True(t, kinds[m.Name], "the story has no %s in it", m.Name)
	}
	n, stress := 0, os.Getenv("EXECUTOR_STRESS") != ""
	for i, f := range all {
		for j, do := range everyFault() {
			if f.nth > 1 && (i+j)%6 != 0 && !stress {
				continue
			}
			n++
			t.Run(fmt.Sprint(do.name, ", ", f), func(t *testing.T) {
				in(t, func(t *testing.T, w *world) {
					came := 0
					w.faults.Watch(func(method string, answer bool) {
						if method == f.method && answer == f.answer {
							came++
						}
					})
					w.play(nil, f.rule(do))
					w.faults.Watch(nil)
					require.GreaterOrEqual(t, came, f.nth, "the fault did not happen")
				})
			})
		}
	}
	t.Logf("%d frames, %d combinations", len(all), n)
}

// A fault and, somewhere behind it, another one.
func TestTwoFaults(t *testing.T) {
	all, faults := frames(t), everyFault()
	pairs := 40
	if os.Getenv("EXECUTOR_STRESS") != "" {
		pairs = 1000
	}
	r := rand.New(rand.NewPCG(*faultSeed, 2))
	for n := range pairs {
		i := r.IntN(len(all) - 1)
		j := i + 1 + r.IntN(len(all)-i-1)
		first, second := faults[r.IntN(len(faults))], faults[r.IntN(len(faults))]
		t.Run(fmt.Sprint(n, ": ", first.name, ", ", all[i], "; ", second.name, ", ", all[j]), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.play(func(o *Options) {
					if n%10 == 0 { // with all that is recorded
						o.StateDir = t.TempDir()
					}
				}, all[i].rule(first), all[j].rule(second))
			})
		})
	}
	t.Logf("%d pairs, seed %d", pairs, *faultSeed)
}
