package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/internal/statefile"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// keeping are options with a state directory, and a workspace that the next executor
// has too.
func (w *world) keeping(change func(*Options)) func(*Options) {
	state, work := w.t.TempDir(), w.t.TempDir()
	return func(o *Options) {
		o.StateDir = state
		o.Workspace.Roots = []capabilities.Root{{Path: work}}
		if change != nil {
			change(o)
		}
	}
}

// imageOf copies a state directory as it is just now, while files of it are replaced.
func imageOf(t *testing.T, dir string) string {
	t.Helper()
	image := t.TempDir()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(image, rel), 0o700)
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(filepath.Join(image, rel), raw, 0o600))
	}))
	return image
}

// kill leaves the executor as a crash at this moment would: its state directory is
// copied, and nothing of it reaches the brain any more. It returns the copy.
func (w *world) kill() string {
	w.t.Helper()
	image := imageOf(w.t, w.opts.StateDir)
	w.dead.Store(true)
	w.net.Cut()
	synctest.Wait()
	leave, ran := w.leave, w.ran
	w.ends = append([]func(){func() { leave(); <-ran }}, w.ends...)
	w.ran = make(chan struct{})
	return image
}

// restart is a kill and another executor on what it has left.
func (w *world) restart(change func(*Options), caps ...capabilities.Capability) *Executor {
	w.t.Helper()
	work, image := w.opts.Workspace, w.kill()
	return w.run(func(o *Options) {
		o.StateDir, o.Workspace = image, work
		if change != nil {
			change(o)
		}
	}, caps...)
}

// settle lets changes that nobody waits for be written.
func settle() { sleep(2 * recordLater) }

func (w *world) sessions() (list []string) {
	for _, s := range w.Status().Sessions {
		list = append(list, s.ID+" "+s.State)
	}
	return list
}

// keptIn reads a state directory as a new executor would.
func keptIn(t *testing.T, dir string) statefile.State {
	_, s, damage, err := statefile.Open(imageOf(t, dir))
	require.NoError(t, err)
	require.Empty(t, damage)
	return s
}

// A session is active again after a crash, without a new assign or session.ready, and
// assigned again it is the same one.
func TestRestart(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h, k := hold(), &hooks{name: "hooks"}
		holds := []string{"s1"}
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				if n > 1 {
					r.Sessions = &holds
				}
				return nil
			}
		})
		w.run(w.keeping(nil), hello(), h, &hooks{name: "hooks"})
		synctest.Wait()
		s.assign(5)
		require.NoError(t, s.call("c1", "hold"))
		settle()
		w.restart(nil, hello(), k)
		synctest.Wait()
		require.Equal(t, []string{"s1 active"}, w.sessions())
		p := s.so().registers[1]
		require.Equal(t, "exe_1", p.Resume.ExecutorID)
		require.Equal(t, "con_1", p.Resume.LastConnectionID)
		require.Equal(t, []string{"s1"}, p.Resume.ActiveSessions)
		require.NoError(t, s.call("c2", "hello")) // at once
		settle()
		require.Equal(t, []string{"start"}, k.wrote())
		require.Equal(t, 1, s.count(protocol.SessionReady.Name))

		require.NoError(t, s.tryAssign("s1", "work", 5)) // case 113
		synctest.Wait()
		requireError(t, s.tryAssign("s1", "work", 4), "conflict")
		requireError(t, s.tryAssign("s1", "other", 5), "conflict")
		require.Equal(t, []string{"start"}, k.wrote())
		require.Equal(t, []string{"s1 active"}, w.sessions())

		w.restart(nil, hello(), k) // and again
		settle()
		require.Equal(t, []string{"s1 active"}, w.sessions())
		require.NoError(t, s.call("c3", "hello"))
		s.assign(6) // takes over
		require.Equal(t, []string{"start", "start", "end", "start"}, k.wrote())
	})
}

// A real brain and its callers notice nothing of a restart but a pause.
func TestRestartBehindABrain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, w.keeping(nil), hello())
		for range 5 {
			settle()
			w.restart(nil, hello())
			_, err := s.Call(w.ctx, "hello", nil)
			require.NoError(t, err)
		}
		require.NoError(t, s.Stop(w.ctx, "done"))
		settle()
		w.restart(nil, hello())
		settle()
		require.Empty(t, w.sessions())
		require.Len(t, s.Executor().Sessions(), 0)
	})
}

// An assignment is answered when it would survive a crash.
func TestRecordedBeforeAnswered(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			require.NoError(t, s.tryAssign(id, "work", 7))
			kept := keptIn(t, w.opts.StateDir)
			require.Equal(t, "exe_1", kept.ExecutorID)
			last := kept.Sessions[len(kept.Sessions)-1]
			require.Equal(t, protocol.SessionAssignParams{SessionID: id, WorkID: "work", Lease: protocol.Lease{Token: "lease", FencingToken: 7}}, last.Assign)
		}
		settle()
		for _, kept := range keptIn(t, w.opts.StateDir).Sessions {
			require.True(t, kept.Ready)
		}
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "b"})
		require.NoError(t, err)
		kept := keptIn(t, w.opts.StateDir)
		require.Len(t, kept.Sessions, 2)
		require.Equal(t, []statefile.Fence{{SessionID: "b", Token: 7}}, kept.Fences)
		settle()
		require.Empty(t, keptIn(t, w.opts.StateDir).Ends) // acknowledged
	})
}

// A session whose session.ready was not acknowledged says it again.
func TestRestartBeforeReady(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var deaf atomic.Bool
		deaf.Store(true)
		s := w.script(func(s *script) {
			s.ready = func(int, protocol.SessionReadyParams) (bool, error) { return !deaf.Load(), nil }
		})
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		require.NoError(t, s.tryAssign("s1", "work", 1))
		settle()
		w.restart(nil, hello())
		settle()
		require.Equal(t, []string{"s1 preparing"}, w.sessions())
		require.True(t, requireError(t, s.call("c", "hello"), "session_not_active").Data.Retryable)
		deaf.Store(false)
		sleep(10 * time.Second)
		require.Equal(t, []string{"s1 active"}, w.sessions())
		require.NoError(t, s.call("c", "hello"))
	})
}

// What the brain no longer holds, or holds under another id, ends locally.
func TestRestartReconciles(t *testing.T) {
	for name, answer := range map[string]func(r *protocol.RegisterResult){
		"not listed":       func(r *protocol.RegisterResult) { r.Sessions = &[]string{"other"} },
		"another executor": func(r *protocol.RegisterResult) { r.ExecutorID = "exe_2" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				k := &hooks{name: "hooks"}
				s := w.script(func(s *script) {
					s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
						if n > 1 {
							answer(r)
						}
						return nil
					}
				})
				w.run(w.keeping(nil))
				synctest.Wait()
				s.assign(1)
				settle()
				w.restart(nil, k)
				settle()
				require.Empty(t, w.sessions())
				require.Equal(t, []string{"start", "end"}, k.wrote())
				require.Zero(t, s.count(protocol.SessionEnded.Name))
				require.Empty(t, keptIn(t, w.opts.StateDir).Sessions)
				requireError(t, s.tryAssign("s1", "work", 1), "conflict")
				s.assign(2)
			})
		})
	}
}

// A session that cannot come back has ended, and the brain is told; others are not
// disturbed.
func TestRestartRejects(t *testing.T) {
	for name, spoil := range map[string]struct {
		perSession bool
		disk       func(t *testing.T, work string)
		options    func(t *testing.T, o *Options)
		start      func(context.Context, *capabilities.Session) error
	}{
		"its directory is gone": {perSession: true, disk: func(t *testing.T, work string) {
			require.NoError(t, os.RemoveAll(filepath.Join(work, "s1")))
		}},
		"a file is in its place": {perSession: true, disk: func(t *testing.T, work string) {
			require.NoError(t, os.RemoveAll(filepath.Join(work, "s1")))
			require.NoError(t, os.WriteFile(filepath.Join(work, "s1"), nil, 0o600))
		}},
		"another workspace": {options: func(t *testing.T, o *Options) {
			o.Workspace.Roots = []capabilities.Root{{Path: t.TempDir()}}
		}},
		"a hook fails": {start: func(_ context.Context, s *capabilities.Session) error {
			if s.ID() == "s1" {
				return errors.New("no room")
			}
			return nil
		}},
		"a hook panics": {start: func(_ context.Context, s *capabilities.Session) error {
			if s.ID() == "s1" {
				panic("no room")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s := w.script(nil)
				w.run(w.keeping(func(o *Options) { o.Workspace.PerSession = spoil.perSession }), hello())
				synctest.Wait()
				require.NoError(t, s.tryAssign("s1", "work", 3))
				require.NoError(t, s.tryAssign("s2", "work", 3))
				settle()
				if spoil.disk != nil {
					spoil.disk(t, w.opts.Workspace.Roots[0].Path)
				}
				k := &hooks{name: "hooks", start: spoil.start}
				w.restart(func(o *Options) {
					if spoil.options != nil {
						spoil.options(t, o)
					}
				}, hello(), k)
				settle()
				ended := s.log("executor", "session.status", "session.ready")
				require.Contains(t, ended, "session.ended s1 session_rejected")
				if spoil.options == nil {
					require.Equal(t, []string{"s2 active"}, w.sessions())
					require.Len(t, ended, 1)
				}
				settle()
				kept := keptIn(t, w.opts.StateDir)
				require.Empty(t, kept.Ends)
				require.Contains(t, kept.Fences, statefile.Fence{SessionID: "s1", Token: 3})
				requireError(t, s.tryAssign("s1", "work", 3), "conflict")
			})
		})
	}
}

// A start hook that hangs delays the connection only so long, and its session says
// session.ready when it is there.
func TestRestartSlowly(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		k := &hooks{name: "hooks", start: func(_ context.Context, s *capabilities.Session) error {
			if s.ID() == "s1" {
				<-release
			}
			return nil
		}}
		s := w.script(nil)
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.tryAssign("s2", "work", 1))
		settle()
		began := time.Now()
		w.restart(nil, hello(), k)
		sleep(restoreGrace - time.Second)
		require.Len(t, s.so().dials, 1)
		sleep(2 * time.Second)
		require.Len(t, s.so().dials, 2)
		require.WithinDuration(t, began.Add(restoreGrace), s.so().dials[1], 100*time.Millisecond)
		require.Equal(t, []string{"s1 preparing", "s2 active"}, w.sessions())
		require.True(t, requireError(t, s.call("c", "hello"), "session_not_active").Data.Retryable)
		require.Equal(t, 2, s.count(protocol.SessionReady.Name))
		close(release)
		settle()
		require.Equal(t, []string{"s1 active", "s2 active"}, w.sessions())
		require.Equal(t, 3, s.count(protocol.SessionReady.Name))
		require.NoError(t, s.call("c", "hello"))
	})
	in(t, func(t *testing.T, w *world) { // for a brain it is a pause
		s := w.session(brain.Options{}, w.keeping(nil), hello())
		_, err := s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		settle()
		w.restart(nil, hello(), &hooks{name: "hooks", start: func(context.Context, *capabilities.Session) error {
			time.Sleep(12 * time.Second)
			return nil
		}})
		sleep(6 * time.Second)
		_, err = s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
	})
}

// An executor that is told to leave while sessions come back leaves.
func TestLeaveWhileRestoring(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(w.keeping(nil))
		synctest.Wait()
		s.assign(1)
		settle()
		began := time.Now()
		w.restart(nil, &hooks{name: "hooks", start: func(ctx context.Context, _ *capabilities.Session) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		w.leave()
		require.NoError(t, w.stopped())
		require.Less(t, time.Since(began), time.Second)
		kept := keptIn(t, w.opts.StateDir)
		require.Empty(t, kept.Sessions)
		told := slices.Contains(s.log(), "session.ended s1 drained")
		owed := slices.Contains(kept.Ends, protocol.SessionEndedParams{SessionID: "s1", Reason: endedDrained})
		require.True(t, told || owed)
	})
}

// Fencing tokens are known after a restart, and how many sessions there are.
func TestRestartKeepsFences(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(w.keeping(func(o *Options) { o.MaxSessions = 2 }))
		synctest.Wait()
		for _, id := range []string{"old", "a", "b"} {
			require.NoError(t, s.tryAssign(id, "work", 5))
			if id == "old" {
				_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: id})
				require.NoError(t, err)
			}
		}
		w.restart(func(o *Options) { o.MaxSessions = 2 })
		settle()
		require.Equal(t, []string{"a active", "b active"}, w.sessions())
		requireError(t, s.tryAssign("old", "work", 4), "conflict")
		requireError(t, s.tryAssign("old", "work", 5), "conflict")
		requireError(t, s.tryAssign("a", "work", 4), "conflict")
		requireError(t, s.tryAssign("c", "work", 1), "executor_busy")
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "a"})
		require.NoError(t, err)
		require.NoError(t, s.tryAssign("old", "work", 6))
	})
}

// A stop that a crash has interrupted goes on: the session does not come back, and
// its end is told.
func TestRestartWhileStopping(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		defer close(release)
		s := w.script(nil)
		w.run(w.keeping(nil), hello(), &hooks{name: "hooks", end: func(*capabilities.Session) { <-release }})
		synctest.Wait()
		s.assign(4)
		go func() {
			_, _ = rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		}()
		settle()
		k := &hooks{name: "hooks"}
		w.restart(nil, hello(), k)
		settle()
		require.Empty(t, w.sessions())
		require.Empty(t, k.wrote())
		require.Equal(t, []string{"session.ended s1 stopped"}, s.log("executor", "session.status", "session.ready"))
		requireError(t, s.tryAssign("s1", "work", 4), "conflict")
	})
}

// An end that was not acknowledged is told after the restart, once it was, no more.
func TestRestartOwesEnds(t *testing.T) {
	for _, drained := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			var deaf atomic.Bool
			deaf.Store(true)
			s := w.script(func(s *script) {
				s.ended = func(int) (bool, error) { return !deaf.Load(), nil }
			})
			w.run(w.keeping(nil))
			synctest.Wait()
			s.assign(1)
			if drained { // the process ends as it should, and its brain is away
				w.dead.Store(true)
				w.net.Cut()
				w.leave()
				require.NoError(t, w.stopped())
			} else {
				_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
				require.NoError(t, err)
				settle()
			}
			reason := map[bool]string{false: "stopped", true: "drained"}[drained]
			w.restart(nil)
			settle()
			require.Contains(t, s.log("executor", "session.status", "session.ready"), "session.ended s1 "+reason)
			w.restart(nil)
			deaf.Store(false)
			sleep(40 * time.Second)
			told := s.count(protocol.SessionEnded.Name)
			require.Empty(t, keptIn(t, w.opts.StateDir).Ends)
			w.restart(nil)
			sleep(time.Minute)
			require.Equal(t, told, s.count(protocol.SessionEnded.Name))
		})
	}
}

// The end of a session that the brain has not acknowledged is not said any more when it
// assigns the session anew: it would be taken for the end of the new assignment.
func TestEndOfAnOlderAssignment(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.ended = func(int) (bool, error) { return false, nil }
		})
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		for _, id := range []string{"s1", "s2"} {
			require.NoError(t, s.tryAssign(id, "work", 1))
			_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: id})
			require.NoError(t, err)
		}
		settle()
		w.restart(nil, hello())
		settle()
		s.assign(2)
		before := len(s.log())
		sleep(2 * time.Minute)
		require.NotContains(t, s.log()[before:], "session.ended s1 stopped")
		require.Contains(t, s.log()[before:], "session.ended s2 stopped")
		require.Equal(t, []protocol.SessionEndedParams{{SessionID: "s2", Reason: "stopped"}}, keptIn(t, w.opts.StateDir).Ends)
		require.NoError(t, s.call("c", "hello"))
	})
}

// A brain that does not let the executor back in for a while, since it holds the
// connection from before the crash, is asked until it does (case 132).
func TestRestartAlreadyActive(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var until time.Time
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, _ *protocol.RegisterResult) error {
				if n > 1 && time.Now().Before(until) {
					return protocol.ErrConflict
				}
				return nil
			}
		})
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		s.assign(1)
		until = time.Now().Add(30 * time.Second)
		settle()
		w.restart(nil, hello())
		sleep(2 * time.Minute)
		require.Equal(t, []string{"s1 active"}, w.sessions())
		require.Less(t, len(s.so().dials), 30)
		require.NoError(t, s.call("c", "hello"))
	})
}

// Damage to one of the files loses nothing, damage to both only what they held, and
// it is told in the log (case 135).
func TestRestartWithDamage(t *testing.T) {
	damages := map[string]func([]byte) []byte{
		"emptied": func([]byte) []byte { return nil },
		"cut":     func(raw []byte) []byte { return raw[:len(raw)/2] },
		"garbage": func(raw []byte) []byte { return append(raw, "garbage"...) },
		"a bit":   func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw },
	}
	for what, damage := range damages {
		for _, files := range [][]string{{"state.json"}, {"state.copy.json"}, {"state.json", "state.copy.json"}} {
			t.Run(what+" "+strings.Join(files, " "), func(t *testing.T) {
				in(t, func(t *testing.T, w *world) {
					s := w.script(nil)
					w.run(w.keeping(nil), hello())
					synctest.Wait()
					s.assign(1)
					settle()
					work, image := w.opts.Workspace, w.kill()
					for _, name := range files {
						file := filepath.Join(image, name)
						raw, err := os.ReadFile(file)
						require.NoError(t, err)
						require.NoError(t, os.WriteFile(file, damage(raw), 0o600))
					}
					core, logged := observer.New(zapcore.WarnLevel)
					w.run(func(o *Options) { o.StateDir, o.Workspace, o.Logger = image, work, zap.New(core) }, hello())
					settle()
					require.Len(t, logged.FilterMessage("state file is damaged").All(), len(files))
					if len(files) == 2 && what != "garbage" {
						require.Nil(t, s.so().registers[1].Resume)
						require.Empty(t, w.sessions())
						require.Len(t, logged.FilterMessageSnippet("registering as new").All(), 1)
						return
					}
					require.Equal(t, "exe_1", s.so().registers[1].Resume.ExecutorID)
					require.Equal(t, []string{"s1 active"}, w.sessions())
					require.NoError(t, s.call("c", "hello"))
				})
			})
		}
	}
}

// A disk that takes nothing stops no session: it is told once, and what there is is
// written when it works again.
func TestStateIsNotKept(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		core, logged := observer.New(zapcore.InfoLevel)
		s := w.script(nil)
		w.run(w.keeping(func(o *Options) { o.Logger = zap.New(core) }), hello())
		synctest.Wait()
		settle()
		inTheWay := filepath.Join(w.opts.StateDir, "state.json.tmp")
		require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
		s.assign(1)
		require.NoError(t, s.call("c", "hello"))
		require.NoError(t, s.tryAssign("s2", "work", 1))
		sleep(3 * recordRetry)
		require.Equal(t, []string{"s1 active", "s2 active"}, w.sessions())
		require.Len(t, logged.FilterMessageSnippet("state is not kept").All(), 1)
		require.Contains(t, w.Status().Degraded, "state.json")
		require.Empty(t, keptIn(t, w.opts.StateDir).Sessions)

		require.NoError(t, os.RemoveAll(inTheWay))
		sleep(recordRetry + time.Second)
		require.Empty(t, w.Status().Degraded)
		require.Len(t, logged.FilterMessage("state is kept again").All(), 1)
		require.Len(t, keptIn(t, w.opts.StateDir).Sessions, 2)
		w.restart(nil, hello())
		settle()
		require.Equal(t, []string{"s1 active", "s2 active"}, w.sessions())
	})
}

// Heartbeats and calls cost no write, and neither does a session.ready of its own.
func TestFewWrites(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(w.keeping(nil), hello())
		synctest.Wait()
		settle()
		written := func() int {
			raw, err := os.ReadFile(filepath.Join(w.opts.StateDir, "state.json"))
			require.NoError(t, err)
			var head struct {
				Generation int `json:"generation"`
			}
			require.NoError(t, json.Unmarshal(raw, &head))
			return head.Generation
		}
		before := written()
		require.NoError(t, s.tryAssign("s1", "work", 1))
		require.Equal(t, before+1, written())
		settle() // session.ready was acknowledged
		require.Equal(t, before+2, written())
		for i := range 100 {
			require.NoError(t, s.call(strings.Repeat("c", i+1), "hello"))
		}
		sleep(10 * time.Minute)
		require.Equal(t, before+2, written())
		require.GreaterOrEqual(t, s.count(protocol.ExecutorHeartbeat.Name), 50)
	})
}

// Without a state directory nothing is kept, and nothing is missed.
func TestNoStateDirectory(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, hello())
		require.NoError(t, s.Stop(w.ctx, "done"))
		require.Empty(t, w.Status().Degraded)
	})
}

// A crash at any moment of a session's life: the brain that goes on with what it was
// told gets its call done, on the same session or with an error that says it has ended.
func TestCrashAtAnyMoment(t *testing.T) {
	for _, moment := range []string{
		protocol.SessionAssign.Name, protocol.SessionReady.Name, protocol.SessionStop.Name, protocol.SessionEnded.Name,
	} {
		for _, answer := range []bool{false, true} {
			for _, do := range []rpctest.Action{rpctest.CutBefore, rpctest.CutAfter} {
				in(t, func(t *testing.T, w *world) {
					b := w.brain(brain.Options{})
					w.run(w.keeping(nil), hello())
					x, err := b.WaitExecutor(w.ctx)
					require.NoError(t, err)
					w.faults.Add(rpctest.Rule{Method: moment, Answer: answer, Do: do})
					done := make(chan error, 1)
					go func() {
						s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
						if err == nil {
							_, err = s.Call(w.ctx, "hello", nil)
						}
						if err == nil {
							err = s.Stop(w.ctx, "done")
						}
						done <- err
					}()
					for range 3 {
						synctest.Wait()
						w.restart(nil, hello())
					}
					require.NoError(t, <-done, "%s %v", moment, answer)
					sleep(time.Minute)
					require.Empty(t, w.sessions())
					require.Empty(t, x.Sessions())
					kept := keptIn(t, w.opts.StateDir)
					require.Empty(t, kept.Sessions)
					require.Empty(t, kept.Ends)
					require.True(t, slices.ContainsFunc(kept.Fences, func(f statefile.Fence) bool { return f.Token > 0 }))
				})
			}
		}
	}
}
