package executor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/files"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

func rootsOf(dirs ...string) []capabilities.Root {
	var list []capabilities.Root
	for _, dir := range dirs {
		list = append(list, capabilities.Root{Path: dir})
	}
	return list
}

// What is changed while it runs holds for what begins then, and the brain is told.
func TestReconfigure(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		old, next := t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(next, "there"), []byte("hello\n"), 0o600))
		s := w.session(brain.Options{}, func(o *Options) { o.Workspace = Workspace{Roots: rootsOf(old)} }, files.New(files.Options{Roots: rootsOf(old)}))
		advertised := func() (d protocol.FilesDetails) {
			_, err := s.Executor().Capabilities().Get(protocol.CapabilityFiles, &d)
			require.NoError(t, err)
			return d
		}
		require.Equal(t, []string{old}, advertised().ReadRoots)
		require.NoError(t, w.Reconfigure(Changes{MaxSessions: 2, DrainTimeout: time.Hour}))
		require.NoError(t, w.Reconfigure(Changes{Workspace: &Workspace{Roots: append(rootsOf(next), capabilities.Root{Path: old, ReadOnly: true})}}))
		sleep(time.Second)
		require.Equal(t, []string{next, old}, advertised().ReadRoots)
		require.Equal(t, []string{next}, advertised().WriteRoots)

		read := map[string]string{"path": filepath.Join(next, "there")}
		r, err := s.Call(w.ctx, "read", read)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeFailed, r.Outcome, "the session keeps what it has begun with")
		second, err := s.Executor().Assign(w.ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		r, err = second.Call(w.ctx, "read", read)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome, text(r))
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = s.Executor().Assign(ctx, protocol.SessionAssignParams{})
		require.Error(t, err, "there is no room for a third")
		require.Len(t, w.Status().Sessions, 2)

		require.NoError(t, w.Drain(t.Context()))
		require.InDelta(t, time.Hour.Seconds(), time.Until(w.drainUntil).Seconds(), 1)
	})
}

// A brain that was away meanwhile is told when it registers, also in the middle of it.
func TestReconfigureWithoutABrain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		old, next := t.TempDir(), t.TempDir()
		b := w.brain(brain.Options{})
		back := make(chan struct{})
		w.run(func(o *Options) {
			o.Workspace = Workspace{Roots: rootsOf(old)}
			dial := o.Dial
			o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
				<-back
				return dial(ctx, token)
			}
		}, files.New(files.Options{Roots: rootsOf(old)}))
		require.NoError(t, w.Reconfigure(Changes{Workspace: &Workspace{Roots: rootsOf(next)}}))
		close(back)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		sleep(time.Second)
		var d protocol.FilesDetails
		_, err = x.Capabilities().Get(protocol.CapabilityFiles, &d)
		require.NoError(t, err)
		require.Equal(t, []string{next}, d.ReadRoots)
	})
}

func TestReconfigureRefuses(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		dir := t.TempDir()
		w.session(brain.Options{}, func(o *Options) { o.Workspace = Workspace{Roots: rootsOf(dir)} })
		for says, c := range map[string]Changes{
			"the list of roots is empty": {Workspace: &Workspace{}},
			"is read-only":               {Workspace: &Workspace{Roots: []capabilities.Root{{Path: dir, ReadOnly: true}}, PerSession: true}},
			"workspace: ":                {Workspace: &Workspace{Roots: rootsOf(filepath.Join(dir, "none"))}, MaxSessions: 1},
			"max sessions":               {MaxSessions: -1},
		} {
			require.ErrorContains(t, w.Reconfigure(c), says)
		}
		require.Equal(t, 16, w.opts.MaxSessions, "nothing has changed")
		require.Equal(t, dir, w.opts.Workspace.Roots[0].Path)
	})
}
