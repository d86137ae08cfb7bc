package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// hooks is a capability whose session hooks a test gives, and which writes down what
// is called.
type hooks struct {
	name  string
	start func(context.Context, *capabilities.Session) error
	end   func(*capabilities.Session)

	mu  sync.Mutex
	log []string
}

func (h *hooks) Name() string { return h.name }

func (h *hooks) Install(r *capabilities.Registrar) error {
	r.OnSessionStart(func(ctx context.Context, s *capabilities.Session) error {
		h.write("start")
		if h.start != nil {
			return h.start(ctx, s)
		}
		return nil
	})
	r.OnSessionEnd(func(s *capabilities.Session) {
		if h.end != nil {
			h.end(s)
		}
		h.write("end")
	})
	return nil
}

func (h *hooks) write(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, what)
}

func (h *hooks) wrote() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

func TestFencing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		s := w.script(nil)
		w.run(nil, h, k)
		synctest.Wait()
		s.assign(5)
		require.NoError(t, s.call("c1", "hold"))

		e := requireError(t, s.tryAssign("s1", "work", 4), "conflict")
		require.Contains(t, e.Message, "lease.fencing_token")
		requireError(t, s.tryAssign("s1", "other", 5), "conflict")
		require.NoError(t, s.tryAssign("s1", "work", 5))
		synctest.Wait()
		require.Equal(t, []string{"start"}, k.wrote()) // nothing restarted
		require.EqualValues(t, 0, h.ended.Load())

		s.assign(6) // takes over: the old one ends first, and its call with it
		require.EqualValues(t, 1, h.ended.Load())
		require.Equal(t, []string{"start", "end", "start"}, k.wrote())
		require.Equal(t, []string{"tool.result c1 canceled"}, s.log("executor.", "session."))
		require.Zero(t, s.count(protocol.SessionEnded.Name))
		require.NoError(t, s.call("c2", "hold"))

		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1", Reason: "enough"})
		require.NoError(t, err)
		for _, fencing := range []int64{5, 6} { // after the end too
			requireError(t, s.tryAssign("s1", "work", fencing), "conflict")
		}
		s.assign(7)
	})
}

// Fencing tokens are remembered of the sessions held and of the last that ended.
func TestFencesForget(t *testing.T) {
	f := newFences(nil)
	f.held("long", 7)
	f.ended("long")
	f.held("long", 8) // held again, however many end meanwhile
	var faded, forgotten []string
	end := func(id string) {
		old, oldest := f.ended(id)
		faded, forgotten = append(faded, old), append(forgotten, oldest)
	}
	for i := range keepFences + 10 {
		id := fmt.Sprint(i)
		f.held(id, 1)
		end(id)
		f.held("again", int64(i))
		end("again")
	}
	for _, list := range [][]string{faded, forgotten} {
		require.NotContains(t, list, "long") // it is held
		require.NotContains(t, list, "again")
		require.Contains(t, list, "0")
	}
	require.Contains(t, faded, fmt.Sprint(keepFences+10-keepEnded))
	require.NotContains(t, faded, fmt.Sprint(keepFences+11-keepEnded))
	require.Contains(t, forgotten, "9")
	require.NotContains(t, forgotten, "11")
	token, ok := f.get("long")
	require.True(t, ok)
	require.EqualValues(t, 8, token)
	token, _ = f.get("again")
	require.EqualValues(t, keepFences+9, token)
	_, ok = f.get("0")
	require.False(t, ok)
	require.Len(t, f.order, keepFences)
	require.Len(t, f.tokens, keepFences+1)
}

func TestMaxSessions(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(func(o *Options) { o.MaxSessions = 2 })
		synctest.Wait()
		require.NoError(t, s.tryAssign("a", "w", 1))
		require.NoError(t, s.tryAssign("b", "w", 1))
		require.True(t, requireError(t, s.tryAssign("c", "w", 1), "executor_busy").Data.Retryable)
		require.NoError(t, s.tryAssign("b", "w", 2)) // takes over, and is no third
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "a"})
		require.NoError(t, err)
		require.NoError(t, s.tryAssign("c", "w", 1))
		synctest.Wait()
		ids := []string{}
		for _, s := range w.Status().Sessions {
			ids = append(ids, s.ID+" "+s.State)
		}
		require.Equal(t, []string{"b active", "c active"}, ids)
	})
}

// Sessions share the workspace, or have directories of their own, which no id leads
// out of.
func TestWorkspaces(t *testing.T) {
	for _, perSession := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			var mu sync.Mutex
			dirs := map[string]string{}
			k := &hooks{name: "hooks", start: func(_ context.Context, s *capabilities.Session) error {
				mu.Lock()
				defer mu.Unlock()
				dirs[s.ID()] = s.Workspace().Dir()
				return nil
			}}
			s := w.script(nil)
			w.run(func(o *Options) { o.Workspace.PerSession, o.MaxSessions = perSession, 100 }, k)
			root, err := filepath.EvalSymlinks(w.opts.Workspace.Roots[0].Path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(root, "mine"), []byte("mine"), 0o600))
			synctest.Wait()
			hostile := []string{"plain", "..", ".", "../../up", "/etc", "a/b", `a\b`, "nul\x00byte", "new\nline", "-rf", " ", "é",
				".executor", strings.Repeat("long", 100), "a..b"}
			for _, id := range hostile {
				require.NoError(t, s.tryAssign(id, "w", 1), id)
			}
			synctest.Wait()
			require.Len(t, dirs, len(hostile))
			seen := map[string]bool{}
			for id, dir := range dirs {
				if !perSession {
					require.Equal(t, root, dir)
					continue
				}
				require.Equal(t, root, filepath.Dir(dir), "%q is in %q", id, dir)
				require.False(t, seen[dir], id)
				seen[dir] = true
				info, err := os.Stat(dir)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			}
			if perSession {
				require.Equal(t, "plain", filepath.Base(dirs["plain"]))
				e := requireError(t, s.tryAssign("mine", "w", 1), protocol.ReasonWorkspaceUnavailable) // a file is in the way
				require.Equal(t, protocol.CodeResourceUnavailable, e.Code)
			}
		})
	}
}

func TestWorkspaceGone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil)
		synctest.Wait()
		require.NoError(t, os.RemoveAll(w.opts.Workspace.Roots[0].Path))
		requireError(t, s.tryAssign("s1", "w", 1), protocol.ReasonWorkspaceUnavailable)
		require.Empty(t, w.Status().Sessions)
	})
}

// A session that a capability does not take ends, and others are not disturbed.
func TestSessionRejected(t *testing.T) {
	for name, start := range map[string]func(context.Context, *capabilities.Session) error{
		"error": func(context.Context, *capabilities.Session) error { return errors.New("no room") },
		"panic": func(context.Context, *capabilities.Session) error { panic("no room") },
		"late": func(ctx context.Context, _ *capabilities.Session) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"stubborn": func(ctx context.Context, _ *capabilities.Session) error {
			<-ctx.Done()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				first, second := &hooks{name: "first"}, &hooks{name: "second", start: start}
				s := w.script(nil)
				w.run(nil, first, second)
				synctest.Wait()
				_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionAssign, protocol.SessionAssignParams{
					SessionID: "s1", WorkID: "w", Lease: protocol.Lease{Token: "t", FencingToken: 1}, DeadlineMS: 5000})
				require.NoError(t, err)
				sleep(6 * time.Second)
				synctest.Wait()
				require.Equal(t, []string{"session.status s1 starting", "session.status s1 error", "session.status s1 stopping"},
					s.log("executor.", "session.ended"))
				require.Equal(t, []string{"session.ended s1 session_rejected"}, s.log("executor.", "session.status"))
				require.Equal(t, []string{"start", "end"}, first.wrote())
				require.Zero(t, s.count(protocol.SessionReady.Name))
				require.Empty(t, w.Status().Sessions)
			})
		})
	}
}

// session.ready that is refused for good ends the session.
func TestReadyRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		k := &hooks{name: "hooks"}
		s := w.script(func(s *script) {
			s.ready = func(n int, _ protocol.SessionReadyParams) (bool, error) {
				if n == 1 {
					return false, protocol.ErrResourceUnavailable // for now
				}
				return false, protocol.ErrNotFound
			}
		})
		w.run(nil, k)
		synctest.Wait()
		require.NoError(t, s.tryAssign("s1", "w", 1))
		sleep(2 * time.Second)
		require.Equal(t, 2, s.count(protocol.SessionReady.Name))
		require.Equal(t, 1, s.count(protocol.SessionEnded.Name))
		require.Equal(t, []string{"start", "end"}, k.wrote())
	})
}

// The acknowledgement of session.ready that is lost is asked for on the next
// connection, at once.
func TestReadyLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.faults.Add(rpctest.Rule{Method: protocol.SessionReady.Name, Answer: true, Do: rpctest.CutBefore})
		began := time.Now()
		s := w.session(brain.Options{}, nil, hello())
		_, err := s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second)
	})
}

// A brain that assigns the same session again does not know that it is ready, and is
// told so again; nothing restarts.
func TestReadyAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		s := w.script(nil)
		w.run(nil, h, k)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c", "hold"))
		for range 3 {
			w.net.Cut()
			sleep(3 * time.Second)
			s.assign(1) // waits for session.ready
		}
		require.Equal(t, 4, s.count(protocol.SessionReady.Name))
		require.Equal(t, []string{"start"}, k.wrote())
		require.EqualValues(t, 0, h.ended.Load())
		require.NoError(t, s.tryAssign("s1", "work", 1))
	})
	in(t, func(t *testing.T, w *world) { // the acknowledgement arrives, and the brain loses the connection
		w.faults.Add(rpctest.Rule{Method: protocol.SessionReady.Name, Answer: true, Do: rpctest.CutAfter})
		s := w.session(brain.Options{}, nil, hello())
		_, err := s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
	})
}

// stop cancels the calls, and every accepted call has exactly one result before
// session.ended.
func TestStop(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		s := w.script(func(s *script) {
			s.result = func(n int, _ protocol.ToolResultParams) (bool, error) {
				if n == 3 { // each of them delays session.ended
					return false, protocol.ErrResourceUnavailable
				}
				return n != 5, nil
			}
			s.ended = func(n int) (bool, error) {
				if n == 1 {
					return false, protocol.ErrExecutorBusy
				}
				return n > 2, nil
			}
		})
		w.run(nil, h, k)
		synctest.Wait()
		s.assign(1)
		for i := range 5 {
			require.NoError(t, s.call(fmt.Sprint("c", i), "hold"))
		}
		for range 3 { // the second and third wait for the same end, or find it done
			go func() {
				r, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1", Reason: "the work is done"})
				if err == nil && r.Stopped {
					s.note("stopped", "")
				}
			}()
		}
		synctest.Wait()
		require.Equal(t, 3, s.count("stopped"))
		require.EqualValues(t, 5, h.ended.Load())
		require.Equal(t, []string{"start", "end"}, k.wrote())
		sleep(10 * time.Second)
		synctest.Wait()
		got := map[string]int{}
		log := s.log("executor.", "session.status", "session.ready", "stopped")
		for _, line := range log[:len(log)-3] {
			require.True(t, strings.HasPrefix(line, "tool.result "), line)
			require.True(t, strings.HasSuffix(line, " canceled"), line)
			got[line]++
		}
		require.Len(t, got, 5)
		require.Equal(t, []string{"session.ended s1 stopped", "session.ended s1 stopped", "session.ended s1 stopped"}, log[len(log)-3:])
		r, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "never"})
		require.NoError(t, err)
		require.True(t, r.Stopped)
	})
}

// A stop that comes while the session is being prepared waits for the hooks, and does
// not hold up a new connection.
func TestStopWhilePreparing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		k := &hooks{name: "hooks", start: func(context.Context, *capabilities.Session) error {
			<-release
			return nil
		}}
		s := w.script(nil)
		w.run(nil, k)
		synctest.Wait()
		require.NoError(t, s.tryAssign("s1", "w", 1))
		synctest.Wait()
		go func() {
			_, _ = rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		}()
		synctest.Wait()
		w.net.Cut()
		sleep(time.Second)
		require.Equal(t, 2, s.count(protocol.ExecutorRegister.Name))
		require.Equal(t, []string{"start"}, k.wrote())
		require.Zero(t, s.count(protocol.SessionEnded.Name))
		close(release)
		synctest.Wait()
		require.Equal(t, []string{"start", "end"}, k.wrote())
		require.Equal(t, 1, s.count(protocol.SessionEnded.Name))
		require.Zero(t, s.count(protocol.SessionReady.Name))
	})
}

// A panic in an end hook is written to the log, and the session ends.
func TestEndHookPanics(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, hello(), &hooks{name: "hooks", end: func(*capabilities.Session) { panic("oh no") }})
		require.NoError(t, s.Stop(w.ctx, "done"))
		require.Empty(t, w.Status().Sessions)
	})
}

// running and idle are told as they change, but not for what is over at once.
func TestStatusIsDebounced(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.script(nil)
		w.run(nil, h, hello())
		synctest.Wait()
		s.assign(1)
		sleep(time.Second)
		for i := range 20 { // short ones
			require.NoError(t, s.call(fmt.Sprint(i), "hello"))
			sleep(10 * time.Millisecond)
		}
		sleep(time.Second)
		require.NoError(t, s.call("a", "hold"))
		sleep(time.Second)
		require.NoError(t, s.call("b", "hold"))
		sleep(time.Second)
		close(h.release)
		sleep(time.Second)
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"starting", "idle", "running", "idle", "stopping"}, func() (list []string) {
			for _, line := range s.log("executor.", "tool.", "session.ready", "session.ended") {
				list = append(list, strings.TrimPrefix(line, "session.status s1 "))
			}
			return list
		}())
	})
}

// What the brain no longer holds ends, quietly, and the rest goes on.
func TestReconcile(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		held, executor := []string{"a"}, "exe_1"
		s := w.script(func(s *script) {
			s.register = func(n int, p protocol.RegisterParams, r *protocol.RegisterResult) error {
				if n > 2 { // the second does not say: nothing ends
					r.Sessions = &held
				}
				r.ExecutorID = executor
				return nil
			}
		})
		w.run(nil)
		synctest.Wait()
		active := func() (ids []string) {
			for _, s := range w.Status().Sessions {
				ids = append(ids, s.ID)
			}
			return ids
		}
		again := func() {
			w.net.Cut()
			sleep(3 * time.Second)
			synctest.Wait()
		}
		require.NoError(t, s.tryAssign("a", "w", 1))
		require.NoError(t, s.tryAssign("b", "w", 1))
		again()
		require.Equal(t, []string{"a", "b"}, active())
		require.Equal(t, []string{"a", "b"}, s.so().registers[1].Resume.ActiveSessions)
		require.Equal(t, "con_1", s.so().registers[1].Resume.LastConnectionID)
		require.Nil(t, s.so().registers[0].Resume)
		executor = "" // a brain that does not repeat it
		again()
		require.Equal(t, []string{"a"}, active())
		require.Equal(t, "exe_1", w.Status().ExecutorID)
		executor = "exe_2" // another one: nothing of before is held
		again()
		require.Empty(t, active())
		require.Zero(t, s.count(protocol.SessionEnded.Name))
		require.Equal(t, "exe_2", w.Status().ExecutorID)
	})
}
