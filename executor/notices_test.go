package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// tells is a tool that tells an end of a process, of the name of its call.
func tells() capabilities.Capability {
	return tool("tell", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
		capabilities.Tell(c.Session(), protocol.ProcessStatus, protocol.ProcessStatusParams{
			SessionID: c.Session().ID(), ProcessID: c.ID(), State: protocol.ProcessExited})
		return protocol.Text("told"), nil
	})
}

// statuses has a script write down what is told.
func statuses(s *script) {
	s.also = func(x *rpc.Mux) {
		rpc.HandleNotification(x, protocol.ProcessStatus, func(_ context.Context, p protocol.ProcessStatusParams) {
			s.note(protocol.ProcessStatus.Name, p.ProcessID)
		})
	}
}

// told are the ids of what was told, sorted: a brain handles what comes side by side.
func (s *script) told() string {
	var ids []string
	for _, line := range s.log() {
		if id, ok := strings.CutPrefix(line, protocol.ProcessStatus.Name+" "); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, "")
}

// What was lost with its connection is sent over the next one, and what was read is not:
// that is known from a heartbeat that was answered.
func TestNoticeIsSentAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(statuses)
		w.run(nil, tells())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("a", "tell"))
		synctest.Wait()
		require.Equal(t, "a", s.told(), "at once")
		sleep(15 * time.Second) // a heartbeat
		w.faults.Add(rpctest.Rule{Method: protocol.ProcessStatus.Name, Do: rpctest.Drop})
		w.faults.Add(rpctest.Rule{Method: protocol.ProcessStatus.Name, Nth: 2, Do: rpctest.Drop})
		for _, id := range []string{"b", "c", "d"} {
			require.NoError(t, s.call(id, "tell"))
			synctest.Wait()
		}
		require.Equal(t, "ad", s.told())
		w.net.Cut()
		sleep(time.Second)
		require.Equal(t, "abcdd", s.told(), "what was lost, with what may have been")
		sleep(15 * time.Second)
		w.net.Cut()
		sleep(time.Minute)
		require.Equal(t, "abcdd", s.told(), "no more than that")
		require.Empty(t, w.notices.unproven)
		require.Empty(t, w.notices.waiting)
	})
}

// A heartbeat that is refused, or was sent before, says nothing.
func TestNoticeIsNotProven(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var refuse atomic.Bool
		s := w.script(func(s *script) {
			statuses(s)
			s.heartbeat = func(int, *protocol.HeartbeatResult) error {
				if refuse.Load() {
					return protocol.Errorf(protocol.CodeExecutorBusy, "not now")
				}
				return nil
			}
		})
		w.run(nil, tells())
		synctest.Wait()
		s.assign(1)
		refuse.Store(true)
		require.NoError(t, s.call("a", "tell"))
		sleep(15 * time.Second)
		refuse.Store(false)
		w.net.Cut()
		sleep(time.Second)
		require.Equal(t, "aa", s.told())
	})
}

// What came up while the executor was away is said in the order of the protocol:
// results, ends of sessions, and then what else there is to tell.
func TestNoticesComeLast(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var away atomic.Bool
		s := w.script(func(s *script) {
			statuses(s)
			s.http = func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
				if away.Load() {
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
				return away.Load()
			}
			s.result = func(n int, _ protocol.ToolResultParams) (bool, error) {
				time.Sleep(time.Second) // it has its time
				return true, nil
			}
			s.ended = func(n int) (bool, error) {
				if n == 1 {
					return false, protocol.Errorf(protocol.CodeExecutorBusy, "not now")
				}
				return true, nil
			}
		})
		h := hold()
		w.run(nil, tells(), h)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.tryAssign("s2", "work", 1))
		sleep(time.Second)
		_, err := rpc.Call(w.ctx, s.conn(), protocol.ToolCall, protocol.ToolCallParams{SessionID: "s2", ToolCallID: "held", Tool: "hold"})
		require.NoError(t, err)
		require.NoError(t, s.call("before", "tell"))
		sleep(5 * time.Second)
		away.Store(true)
		n := len(s.log())
		w.faults.Add(rpctest.Rule{Method: protocol.ProcessStatus.Name, Do: rpctest.CutBefore})
		_ = s.call("after", "tell") // the connection may be cut before its answer
		sleep(time.Second)
		go w.sessionEnds("s2")
		sleep(2 * time.Second)
		away.Store(false)
		sleep(40 * time.Second)
		log := s.log()[n:]
		log = log[slices.Index(log, protocol.ExecutorRegister.Name):]
		log = withoutStatus(log)
		require.Len(t, log, 7)
		slices.Sort(log[4:6])
		require.Equal(t, []string{"executor.register", "tool.result after succeeded", "tool.result held canceled", "session.ended s2 stopped",
			"process.status after", "process.status before", "session.ended s2 stopped"}, log)
	})
}

// An end that waits for a result which the brain does not take holds up no notices.
func TestNoticesBesideARestingResult(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			statuses(s)
			s.result = func(int, protocol.ToolResultParams) (bool, error) {
				return false, protocol.Errorf(protocol.CodeExecutorBusy, "never")
			}
		})
		h := hold()
		w.run(nil, tells(), h)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.tryAssign("s2", "work", 1))
		sleep(time.Second)
		_, err := rpc.Call(w.ctx, s.conn(), protocol.ToolCall, protocol.ToolCallParams{SessionID: "s2", ToolCallID: "held", Tool: "hold"})
		require.NoError(t, err)
		w.sessionEnds("s2")
		sleep(time.Second)
		w.net.Cut()
		sleep(30 * time.Second)
		require.NoError(t, s.call("a", "tell"))
		sleep(time.Second)
		require.Equal(t, "a", s.told())
		require.Zero(t, s.count(protocol.SessionEnded.Name))
	})
}

// sessionEnds ends a session as session.stop does.
func (w *world) sessionEnds(id string) {
	w.mu.Lock()
	s := w.Executor.sessions[id]
	w.mu.Unlock()
	s.end(errStopped, endedStopped)
}

func withoutStatus(log []string) (list []string) {
	for _, line := range log {
		if !strings.HasPrefix(line, protocol.SessionStatus.Name) {
			list = append(list, line)
		}
	}
	return list
}

// What a session tells at its end comes before it, and nothing of it is told afterwards.
func TestNoticesOfAnEnd(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(statuses)
		w.run(nil, tells(), &endTeller{})
		synctest.Wait()
		s.assign(1)
		n := len(s.log())
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		require.NoError(t, err)
		synctest.Wait()
		require.ElementsMatch(t, []string{"process.status last", "session.ended s1 stopped"}, withoutStatus(s.log()[n:]))
		w.net.Cut()
		sleep(time.Second)
		require.Equal(t, "last", s.told())
	})
}

// endTeller tells something at the end of a session.
type endTeller struct{}

func (*endTeller) Name() string { return "end" }

func (*endTeller) Install(r *capabilities.Registrar) error {
	r.OnSessionEnd(func(s *capabilities.Session) {
		capabilities.Tell(s, protocol.ProcessStatus, protocol.ProcessStatusParams{SessionID: s.ID(), ProcessID: "last", State: protocol.ProcessKilled})
	})
	return nil
}

// notes is a capability that notes what its tool is called with, and finds it at the
// start of a session.
type notes struct{ found []string }

func (*notes) Name() string { return "notes" }

func (n *notes) Install(r *capabilities.Registrar) error {
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		for name, value := range s.Notes("notes/") {
			n.found = append(n.found, fmt.Sprintf("%s: %s %s", s.ID(), name, value))
		}
		return nil
	})
	capabilities.AddTool(r, capabilities.Tool{Name: "note", Description: "Note something."},
		func(_ context.Context, c *capabilities.Call, in anything) (protocol.ToolOutput, error) {
			if in.Text == "" {
				return protocol.ToolOutput{}, errors.New("nothing to note")
			}
			c.Session().Note("notes/a", []byte(in.Text))
			c.Session().Note("notes/b", []byte("x"))
			c.Session().ForgetNote("notes/b")
			return protocol.Text("noted"), nil
		})
	return nil
}

// What was noted in a session is there after a crash, as long as it is the same
// assignment.
func TestNotesOverACrash(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, w.keeping(nil), &notes{})
		_, err := s.Call(w.ctx, "note", anything{"one"})
		require.NoError(t, err)
		_, err = s.Call(w.ctx, "note", anything{"two"})
		require.NoError(t, err)
		settle()
		n := &notes{}
		w.restart(nil, n)
		_, err = s.Call(w.ctx, "note", anything{"three"})
		require.NoError(t, err)
		require.Equal(t, []string{s.ID() + ": a two"}, n.found)
		next := &notes{}
		w.restart(nil, next)
		synctest.Wait()
		require.Equal(t, []string{s.ID() + ": a three"}, next.found)

		// Another assignment of the same session knows nothing of it, also behind a crash.
		other, err := s.Executor().Assign(w.ctx, protocol.SessionAssignParams{SessionID: s.ID()})
		require.NoError(t, err)
		require.Len(t, next.found, 1)
		settle()
		next = &notes{}
		w.restart(nil, next)
		synctest.Wait()
		require.Empty(t, next.found)
		_, err = other.Call(w.ctx, "note", anything{"four"})
		require.NoError(t, err)

		// With the session all of it is forgotten.
		require.NoError(t, other.Stop(w.ctx, "done"))
		require.Empty(t, w.box.Scopes())
		settle()
		w.restart(nil, &notes{})
		synctest.Wait()
		require.Empty(t, w.box.Scopes())
	})
}

// Without a state directory nothing is kept, and nothing held in memory for nobody.
func TestNotesWithoutAStateDirectory(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, &notes{})
		_, err := s.Call(w.ctx, "note", anything{"one"})
		require.NoError(t, err)
		require.Empty(t, w.box.Scopes())
	})
}

// The limits are those of the newest register; what it does not say is the protocol's.
func TestLimitsOfRegister(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var seen []protocol.Limits
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.Limits.MaxProcessReadBytes = 1000 * n
				return nil
			}
		})
		w.run(nil, tool("look", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
			seen = append(seen, c.Session().Limits())
			return protocol.Text("seen"), nil
		}))
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("a", "look"))
		synctest.Wait()
		w.net.Cut()
		sleep(time.Second)
		require.NoError(t, s.call("b", "look"))
		synctest.Wait()
		want := protocol.DefaultLimits()
		want.MaxProcessReadBytes = 1000
		require.Equal(t, want, seen[0])
		want.MaxProcessReadBytes = 2000
		require.Equal(t, want, seen[1])
	})
}
