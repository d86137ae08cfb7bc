package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
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

// A call is accepted at once, runs, and its result is stored before it is
// acknowledged.
func TestCall(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stored, h := newStored(), hold()
		s := w.session(brain.Options{Results: stored}, nil, h)
		began := time.Now()
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		synctest.Wait()
		require.Equal(t, 1, w.Status().CallsRunning)
		require.Zero(t, stored.times(c.ID()))

		stored.refuse = func(n int, _ protocol.ToolResultParams) error {
			require.Equal(t, 1, w.Status().ResultsOwed) // not acknowledged yet
			return nil
		}
		time.Sleep(1500 * time.Millisecond)
		close(h.release)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome)
		require.Equal(t, "released", text(r))
		require.Equal(t, int64(1500), r.DurationMS)
		require.Nil(t, r.Error)
		synctest.Wait()
		require.Zero(t, w.Status().ResultsOwed)
		require.Zero(t, w.Status().CallsRunning)
		require.Equal(t, 1, stored.times(c.ID()))
	})
}

func TestCallRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, hello())
		_, err := s.Call(w.ctx, "hallo", nil)
		e := requireError(t, err, "not_found")
		require.Contains(t, e.Message, `"hello"`)
		require.False(t, e.Data.Retryable)
		_, err = s.Call(w.ctx, "hello", map[string]any{"tekst": "x"})
		e = requireError(t, err, "invalid_params")
		require.Contains(t, e.Message, "tekst")
		require.Contains(t, e.Message, "text")
		_, err = s.Call(w.ctx, "hello", json.RawMessage(`[]`))
		requireError(t, err, "invalid_params")

		_, err = brain.Do(w.ctx, s.Executor(), protocol.ToolCall, protocol.ToolCallParams{SessionID: "nowhere", ToolCallID: "c", Tool: "hello"})
		require.Contains(t, requireError(t, err, "session_not_active").Message, "nowhere")
		_, err = brain.Do(w.ctx, s.Executor(), protocol.ToolCancel, protocol.ToolCancelParams{SessionID: "nowhere", ToolCallID: "c"})
		requireError(t, err, "session_not_active")
		require.Zero(t, w.Status().CallsRunning)
	})
}

// Before session.ready is acknowledged and after the end a session takes no calls.
func TestCallOutsideTheSessionsTime(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.ready = func(n int, _ protocol.SessionReadyParams) (bool, error) { return n > 2, nil }
		})
		w.run(nil, hello())
		synctest.Wait()
		require.NoError(t, s.tryAssign("s1", "work", 1))
		synctest.Wait()
		require.Contains(t, requireError(t, s.call("c1", "hello"), "session_not_active").Message, "not ready")
		time.Sleep(3 * time.Second) // 1 s, 2 s: until it is acknowledged
		synctest.Wait()
		require.NoError(t, s.call("c1", "hello"))
		require.Equal(t, 3, s.count(protocol.SessionReady.Name))
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		require.NoError(t, err)
		requireError(t, s.call("c2", "hello"), "session_not_active")
	})
}

// A repeat joins the run, gets the stored result again after it, also after the end
// of the session, and is a conflict with other contents.
func TestCallRepeated(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.script(nil)
		w.run(nil, h)
		synctest.Wait()
		s.assign(1)
		call := func(input, mode string, deadline int64) error {
			p := protocol.ToolCallParams{SessionID: "s1", ToolCallID: "c", Tool: "hold", Input: json.RawMessage(input), DeadlineMS: deadline}
			if mode != "" {
				p.Permission = &protocol.Permission{Mode: mode}
			}
			r, err := rpc.Call(w.ctx, s.conn(), protocol.ToolCall, p)
			require.Equal(t, err == nil, r.Accepted)
			return err
		}
		require.NoError(t, call(`{"text":"a"}`, "", 0))
		require.NoError(t, call(` { "text" : "a" } `, "", 60_000)) // the same call
		requireError(t, call(`{"text":"b"}`, "", 0), "conflict")
		requireError(t, call(`{"text":"a"}`, protocol.PermissionAlwaysAllow, 0), "conflict")
		synctest.Wait()
		require.EqualValues(t, 1, h.started.Load())
		close(h.release)
		synctest.Wait()
		require.Equal(t, 1, s.count(protocol.ToolResult.Name))

		require.NoError(t, call(`{"text":"a"}`, "", 0))
		synctest.Wait()
		require.Equal(t, 2, s.count(protocol.ToolResult.Name))
		require.Equal(t, s.so().results[0], s.so().results[1])
		requireError(t, call(`{"text":"b"}`, "", 0), "conflict")

		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s1"})
		require.NoError(t, err)
		require.NoError(t, call(`{"text":"a"}`, "", 0))
		synctest.Wait()
		require.Equal(t, 3, s.count(protocol.ToolResult.Name))
		require.EqualValues(t, 1, h.started.Load())
	})
}

// More requests in flight than are handled are refused at once. A tool call is in
// flight only until it is answered; cancels wait for their calls.
func TestCallsInFlight(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stubborn := tool("stubborn", func(ctx context.Context, _ *capabilities.Call) (protocol.ToolOutput, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return protocol.ToolOutput{}, ctx.Err()
		})
		s := w.script(nil)
		w.run(func(o *Options) { o.MaxInFlight = 3 }, stubborn, hello())
		synctest.Wait()
		s.assign(1)
		for i := range 10 {
			require.NoError(t, s.call(fmt.Sprint(i), "stubborn"))
		}
		busy, canceled := atomic.Int32{}, atomic.Int32{}
		for i := range 5 {
			go func() {
				r, err := rpc.Call(w.ctx, s.conn(), protocol.ToolCancel, protocol.ToolCancelParams{SessionID: "s1", ToolCallID: fmt.Sprint(i)})
				switch {
				case errors.Is(err, protocol.ErrExecutorBusy):
					busy.Add(1)
				case err == nil && r.Canceled:
					canceled.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.EqualValues(t, 2, busy.Load())
		requireError(t, s.call("more", "hello"), "executor_busy")
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, canceled.Load())
		require.NoError(t, s.call("more", "hello"))
	})
}

func TestCallDeadline(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, hold(), tool("killed", func(ctx context.Context, _ *capabilities.Call) (protocol.ToolOutput, error) {
			<-ctx.Done()
			return protocol.ToolOutput{}, errors.New("signal: killed")
		}))
		for _, name := range []string{"hold", "killed"} {
			c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: name, DeadlineMS: 2500})
			require.NoError(t, err)
			r, err := c.Result(w.ctx)
			require.NoError(t, err)
			require.Equal(t, int64(2500), r.DurationMS)
			require.Equal(t, protocol.OutcomeFailed, r.Outcome)
			require.True(t, r.IsError)
			require.Equal(t, "timeout", r.Error.Reason)
			require.False(t, r.Error.Retryable)
			if name == "hold" {
				require.Equal(t, "so far", r.Content[0].Text)
				require.Len(t, r.Content, 2)
			} else {
				require.Contains(t, text(r), "signal: killed")
			}
		}
	})
}

// A cancel is answered when the call has ended, and its result follows.
func TestCancel(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stored := newStored()
		slow := tool("slow", func(ctx context.Context, _ *capabilities.Call) (protocol.ToolOutput, error) {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // tidies up
			return protocol.Text("tidy"), fmt.Errorf("reading: %w", ctx.Err())
		})
		s := w.session(brain.Options{Results: stored}, nil, slow, hello())
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "slow"})
		require.NoError(t, err)
		began := time.Now()
		r, err := c.Cancel(w.ctx, "no longer wanted")
		require.NoError(t, err)
		require.True(t, r.Canceled)
		require.Equal(t, 3*time.Second, time.Since(began))
		result, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeCanceled, result.Outcome)
		require.Equal(t, "canceled", result.Error.Reason)
		require.Equal(t, "tidy", result.Content[0].Text)

		r, err = c.Cancel(w.ctx, "again")
		require.NoError(t, err)
		require.False(t, r.Canceled)
		r, err = s.Cancel(w.ctx, "unknown", "")
		require.NoError(t, err)
		require.False(t, r.Canceled)
	})
}

// What goes wrong in a tool is told in its result, and nothing else suffers.
func TestToolsThatFail(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stubborn := make(chan struct{})
		s := w.session(brain.Options{}, nil, hello(),
			tool("panics", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) { panic("oh no") }),
			tool("exits", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				runtime.Goexit()
				return protocol.ToolOutput{}, nil
			}),
			tool("plain", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.Text("half"), errors.New("the printer is on fire")
			}),
			tool("ours", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeConflict, "changed").WithReason(protocol.ReasonStaleFile).WithDetail("read it again")
			}),
			tool("own", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.ToolOutput{}, context.Canceled // of a context of its own
			}),
			tool("exit-1", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.ToolOutput{IsError: true, Content: []protocol.Content{{Type: protocol.ContentText, Text: "no such file"}}}, nil
			}),
			tool("stubborn", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				<-stubborn
				return protocol.Text("late"), nil
			}))
		for _, c := range []struct{ tool, outcome, reason, says string }{
			{"panics", protocol.OutcomeFailed, "internal_error", "oh no"},
			{"exits", protocol.OutcomeFailed, "internal_error", "without a result"},
			{"plain", protocol.OutcomeFailed, "internal_error", "the printer is on fire"},
			{"ours", protocol.OutcomeFailed, protocol.ReasonStaleFile, "changed\nread it again"},
			{"own", protocol.OutcomeFailed, "internal_error", "context canceled"},
			{"exit-1", protocol.OutcomeSucceeded, "", "no such file"},
			{"hello", protocol.OutcomeSucceeded, "", "hello"},
		} {
			r, err := s.Call(w.ctx, c.tool, nil)
			require.NoError(t, err)
			require.Equal(t, c.outcome, r.Outcome, c.tool)
			require.Contains(t, text(r), c.says)
			require.Equal(t, c.tool != "hello", r.IsError)
			if c.reason == "" {
				require.Nil(t, r.Error)
			} else {
				require.Equal(t, c.reason, r.Error.Reason, c.tool)
			}
		}

		// One that ignores its context is given up.
		began := time.Now()
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "stubborn", DeadlineMS: 1000})
		require.NoError(t, err)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, time.Second+callGrace, time.Since(began))
		require.Equal(t, "timeout", r.Error.Reason)
		require.Contains(t, text(r), "may still be at work")
		synctest.Wait() // the result may come before its call is counted as ended
		require.Zero(t, w.Status().CallsRunning)
		close(stubborn) // its late return is ignored
		synctest.Wait()
		require.Zero(t, w.Status().ResultsOwed)
		require.Zero(t, w.Status().CallsRunning)
	})
}

// What Wrap returns is around every tool, sees its name and input, and may refuse it.
func TestWrap(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var order []string
		s := w.session(brain.Options{}, func(o *Options) {
			o.Wrap = func(next capabilities.ToolHandler) capabilities.ToolHandler {
				return func(ctx context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
					order = append(order, "before "+c.Tool().Info().Name+" "+string(c.Input()))
					if string(c.Input()) == `{"text":"no"}` {
						return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeForbidden, "not today").WithReason(protocol.ReasonLocalConfirmationDenied)
					}
					out, err := next(ctx, c)
					order = append(order, "after")
					out.Content = append(out.Content, protocol.Content{Type: protocol.ContentText, Text: "audited"})
					return out, err
				}
			}
		}, tool("hello", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
			order = append(order, "tool")
			return protocol.Text("hello"), nil
		}))
		r, err := s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		require.Equal(t, "audited", text(r))
		require.Equal(t, []string{"before hello {}", "tool", "after"}, order)
		r, err = s.Call(w.ctx, "hello", anything{Text: "no"})
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeFailed, r.Outcome)
		require.Equal(t, protocol.ReasonLocalConfirmationDenied, r.Error.Reason)
	})
}

// A call goes on while the connection is away, and its acceptance may be lost.
func TestCallOverReconnect(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.faults.Add(rpctest.Rule{Method: protocol.ToolCall.Name, Answer: true, Do: rpctest.CutBefore})
		stored, h := newStored(), hold()
		s := w.session(brain.Options{Results: stored}, nil, h)
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hold"})
		require.NoError(t, err) // by its second acceptance
		w.net.Cut()
		close(h.release)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, "released", text(r))
		require.EqualValues(t, 1, h.started.Load())
	})
}
