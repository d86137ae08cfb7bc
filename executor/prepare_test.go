package executor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// preparing is a tool that prepares itself, and fails before or after Begin if it is told to.
type preparing struct {
	begun func(c *capabilities.Call)
}

func (preparing) Name() string { return "preparing" }

func (p preparing) Install(r *capabilities.Registrar) error {
	t := capabilities.Tool{Name: "prepare", Description: "A tool of a test.", Prepares: true}
	capabilities.AddTool(r, t, func(_ context.Context, c *capabilities.Call, in anything) (protocol.ToolOutput, error) {
		if in.Text == "early" {
			return protocol.ToolOutput{}, errors.New("cannot be prepared")
		}
		c.Begin()
		p.begun(c)
		return protocol.Text("done"), nil
	})
	return nil
}

// recordedIn says whether the files of a journal name a call.
func recordedIn(t *testing.T, dir, call string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "journal", "journal-*.log"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if bytes.Contains(text, []byte(call)) {
			return true
		}
	}
	return false
}

// A tool that prepares itself is called beside the disk, and what it does comes after the record.
func TestPrepares(t *testing.T) {
	wraps := map[string]func(capabilities.ToolHandler) capabilities.ToolHandler{
		"bare": nil, "wrapped": func(next capabilities.ToolHandler) capabilities.ToolHandler { return next }}
	for name, wrap := range wraps {
		for _, disk := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				in(t, func(t *testing.T, w *world) {
					dir, ran := "", 0
					if disk {
						dir = t.TempDir()
					}
					s := w.session(brain.Options{}, func(o *Options) { o.StateDir, o.Wrap = dir, wrap }, preparing{func(c *capabilities.Call) {
						ran++
						if disk {
							require.True(t, recordedIn(t, dir, c.ID()))
						}
						c.Progress("it goes on")
					}})
					r, err := s.Call(w.ctx, "prepare", nil)
					require.NoError(t, err)
					require.Equal(t, "done", text(r))
					require.Equal(t, 1, ran)

					r, err = s.Call(w.ctx, "prepare", anything{Text: "early"})
					require.NoError(t, err)
					require.Equal(t, protocol.OutcomeFailed, r.Outcome)
					require.Contains(t, text(r), "cannot be prepared")
					synctest.Wait()
					require.Equal(t, 1, ran)
					require.Zero(t, w.Status().CallsRunning)
					require.Zero(t, w.Status().ResultsOwed)
				})
			})
		}
	}
}
