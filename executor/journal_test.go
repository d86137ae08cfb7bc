package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/internal/outbox"
	"github.com/agent-executor/executor/executor/internal/statefile"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// One state directory, one executor; another one is told who has it, and has it when
// the first has ended.
func TestStateDirectoryIsHeld(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.brain(brain.Options{})
		w.run(w.keeping(nil))
		_, err := New(w.opts)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, HeldError{Dir: w.opts.StateDir, PID: os.Getpid()}, *held)
		w.leave()
		require.NoError(t, w.stopped())
		again, err := New(w.opts)
		require.NoError(t, err)
		require.NoError(t, again.closeState())
	})
}

// A call is on record before it is answered for, and its result before it is sent: so
// the files of that moment tell of both.
func TestCallIsRecordedBeforeAnswered(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		var images []string
		stored := newStored()
		stored.refuse = func(n int, _ protocol.ToolResultParams) error {
			if n == 1 { // the brain is just getting the result
				images = append(images, imageOf(t, w.opts.StateDir))
				return errRefused
			}
			return nil
		}
		s := w.session(brain.Options{Results: stored}, w.keeping(nil), h)
		c, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: "c", Tool: "hold"})
		require.NoError(t, err)
		images = append(images, imageOf(t, w.opts.StateDir)) // its acceptance has just come
		close(h.release)
		_, err = c.Result(w.ctx)
		require.NoError(t, err)
		sleep(time.Second)
		images = append(images, imageOf(t, w.opts.StateDir)) // its result is acknowledged

		for i, want := range []string{protocol.ReasonOutcomeUnknown, "released", ""} {
			box, err := outbox.Open(images[i])
			require.NoError(t, err)
			require.Empty(t, box.Losses())
			r, owed := box.Peek(nil)
			require.Equal(t, want != "", owed)
			switch {
			case r.Error != nil:
				require.Equal(t, want, r.Error.Reason)
			case owed:
				require.Equal(t, want, text(r))
			}
			require.NoError(t, box.Close())
		}
	})
}

// Damage that may have taken calls with it ends the sessions they may be of: what the
// brain repeats of them does not run again.
func TestDamagedJournalEndsSessions(t *testing.T) {
	for name, harm := range map[string]func(journal string) error{
		"segment emptied":  func(journal string) error { return os.Truncate(filepath.Join(journal, "journal-00000001.log"), 0) },
		"segment removed":  func(journal string) error { return os.Remove(filepath.Join(journal, "journal-00000001.log")) },
		"manifest removed": func(journal string) error { return os.Remove(filepath.Join(journal, "manifest")) },
		"all removed":      os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) { damagedJournal(t, harm) })
	}
}

func damagedJournal(t *testing.T, harm func(journal string) error) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		log, said := observer.New(zap.WarnLevel)
		b := w.brain(brain.Options{})
		w.run(w.keeping(nil), h)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		s, err := x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: "s"})
		require.NoError(t, err)
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		settle()
		work, image := w.opts.Workspace, w.kill()
		require.NoError(t, harm(filepath.Join(image, "journal")))
		w.run(func(o *Options) { o.StateDir, o.Workspace, o.Logger = image, work, zap.New(log) }, h)
		r, err := c.Result(w.ctx)
		if err == nil { // the record is whole
			require.Equal(t, protocol.ReasonOutcomeUnknown, r.Error.Reason)
		} else {
			requireError(t, err, "session_not_active")
		}
		<-s.Ended()
		require.EqualValues(t, 1, h.started.Load())
		require.NotZero(t, said.FilterMessageSnippet("journal is").Len())
		require.Contains(t, w.Status().LastError, "damaged")
		_, err = x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: "s"}) // with a new fencing token
		require.NoError(t, err)
		settle()
		said.TakeAll()
		w.restart(func(o *Options) { o.Logger = zap.New(log) }, h) // and that one comes back
		require.Empty(t, said.FilterMessageSnippet("journal is").All())
		settle()
		require.Equal(t, []string{"s active"}, w.sessions())
	})
}

// Results of sessions that ended long ago are not kept, but their calls are remembered:
// none runs again when such a session is assigned anew.
func TestCallsOfEndedSessions(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ran := map[string]int{}
		count := tool("count", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
			ran[c.Session().ID()]++
			return protocol.Text("counted"), nil
		})
		b := w.brain(brain.Options{})
		w.run(w.keeping(nil), count)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		call := func(session string) protocol.ToolResultParams {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: session})
			require.NoError(t, err)
			c, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: "c", Tool: "count"})
			require.NoError(t, err)
			r, err := c.Result(w.ctx)
			require.NoError(t, err)
			require.NoError(t, s.Stop(w.ctx, ""))
			return r
		}
		for i := range keepEnded + 5 {
			require.Equal(t, "counted", text(call(fmt.Sprint(i))))
		}
		settle()
		for range 2 {
			require.Equal(t, "counted", text(call("60")), "the result is kept")
			if r := call("3"); r.Error != nil { // only the call is, unless its record is found again
				require.Equal(t, protocol.ReasonOutcomeUnknown, r.Error.Reason)
			}
			settle()
			w.restart(nil, count)
			settle()
		}
		require.Len(t, ran, keepEnded+5)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
	})
}

// A state directory that is removed while the executor runs is noticed and said.
func TestStateDirectoryRemoved(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, w.keeping(nil), hello())
		for os.RemoveAll(w.opts.StateDir) != nil { // a file was made in it meanwhile
		}
		sleep(time.Minute)
		require.Contains(t, w.Status().Degraded, "no such file")
		r, err := s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		require.Contains(t, text(r), "state directory cannot be written")
	})
}

// A disk that becomes full and has room again, seen from both ends (spec section
// 14.12): calls go on, and it is said in each result, in the status and in the log.
func TestFullDisk(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		disk := smallDisk(t)
		log, said := observer.New(zap.InfoLevel)
		h := hold()
		s := w.session(brain.Options{}, w.keeping(func(o *Options) { o.StateDir, o.Logger = disk, zap.New(log) }), h, hello())
		running, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		filler := filepath.Join(disk, "filler")
		f, err := os.Create(filler)
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		require.NoError(t, f.Close())

		for n := 0; w.box.Degraded() == nil; n++ { // the journal: the state beside it may fail before
			_, err := s.Call(w.ctx, "hello", nil)
			require.NoError(t, err)
			require.Less(t, n, 5000)
		}
		require.NotEmpty(t, w.Status().Degraded)
		close(h.release)
		r, err := running.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome)
		require.Contains(t, text(r), "state directory cannot be written")
		require.Equal(t, "released", r.Content[0].Text)
		r, err = s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		require.Contains(t, text(r), "no space left")
		sleep(time.Second)
		require.Zero(t, w.Status().ResultsOwed)
		other, err := s.Executor().Assign(w.ctx, protocol.SessionAssignParams{}) // sessions too
		require.NoError(t, err)
		sleep(time.Minute)
		require.NotZero(t, said.FilterMessageSnippet("degraded").Len())
		killed, err := outbox.Open(imageOf(t, disk)) // a kill now would end the sessions: calls of theirs are nowhere on disk
		require.NoError(t, err)
		require.True(t, killed.Wounded())
		require.NoError(t, killed.Close())

		require.NoError(t, os.Remove(filler))
		sleep(time.Minute)
		require.Empty(t, w.Status().Degraded)
		require.NotZero(t, said.FilterMessageSnippet("can be written again").Len())
		r, err = other.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		require.Len(t, r.Content, 1)
		killed, err = outbox.Open(imageOf(t, disk))
		require.NoError(t, err)
		require.False(t, killed.Wounded())
		require.NoError(t, killed.Close())
		_, _, damage, err := statefile.Open(imageOf(t, disk))
		require.NoError(t, err)
		require.Empty(t, damage)
		require.Len(t, keptIn(t, disk).Sessions, 2)
	})
}

// Any name can be a call's or a session's, also in the journal.
func TestNamesInTheJournal(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		b := w.brain(brain.Options{})
		w.run(w.keeping(nil), hello())
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		ids := []string{"../../etc/passwd", "\x00", "ä/\n", strings.Repeat("x", 1024)}
		for _, id := range ids {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: id})
			require.NoError(t, err)
			c, err := s.Start(w.ctx, protocol.ToolCallParams{ToolCallID: id, Tool: "hello"})
			require.NoError(t, err)
			_, err = c.Result(w.ctx)
			require.NoError(t, err)
		}
		settle()
		w.restart(nil, hello())
		for _, id := range ids {
			state, err := w.box.Lookup(protocol.ToolCallParams{SessionID: id, ToolCallID: id, Tool: "hello"})
			require.NoError(t, err)
			require.Equal(t, outbox.Done, state, id)
		}
	})
}
