package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// An acknowledgement that is lost: the result comes again and is stored once; the call
// ran once.
func TestAckLost(t *testing.T) {
	for name, do := range map[string]rpctest.Action{"cut": rpctest.CutBefore, "lost": rpctest.Drop, "twice": rpctest.Repeat} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.faults.Add(rpctest.Rule{Method: protocol.ToolResult.Name, Answer: true, Do: do})
				stored, h := newStored(), hold()
				s := w.session(brain.Options{Results: stored}, nil, h)
				close(h.release)
				began := time.Now()
				r, err := s.Call(w.ctx, "hold", nil)
				require.NoError(t, err)
				sleep(time.Minute)
				if do == rpctest.Repeat {
					require.Equal(t, 1, stored.times(r.ToolCallID))
				} else {
					require.Equal(t, 2, stored.times(r.ToolCallID))
				}
				require.Less(t, time.Since(began), 2*time.Minute)
				require.Len(t, stored.stored(), 1)
				require.EqualValues(t, 1, h.started.Load())
				require.Zero(t, w.Status().ResultsOwed)
				_, err = s.Call(w.ctx, "hold", nil)
				require.NoError(t, err)
			})
		})
	}
}

// The result itself is lost, in every way.
func TestResultFrameLost(t *testing.T) {
	for name, do := range map[string]rpctest.Action{"before": rpctest.CutBefore, "after": rpctest.CutAfter, "dropped": rpctest.Drop,
		"stalled": rpctest.Stall, "twice": rpctest.Repeat, "late": rpctest.Delay(20 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.faults.Add(rpctest.Rule{Method: protocol.ToolResult.Name, Do: do})
				stored := newStored()
				s := w.session(brain.Options{Results: stored}, nil, hello())
				_, err := s.Call(w.ctx, "hello", nil)
				require.NoError(t, err)
				sleep(2 * time.Minute)
				require.Len(t, stored.stored(), 1)
				require.Zero(t, w.Status().ResultsOwed)
				require.Equal(t, StateReady, w.Status().State)
			})
		})
	}
}

// No answer within the request timeout: the connection is dead and made anew.
func TestNoAnswer(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.faults.Add(rpctest.Rule{Method: protocol.ToolResult.Name, Answer: true, Do: rpctest.Drop})
		s := w.script(nil)
		w.run(nil, hello())
		sleep(31 * time.Second)
		s.assign(1)
		require.NoError(t, s.call("c", "hello"))
		sleep(29 * time.Second)
		require.Equal(t, 1, s.count(protocol.ExecutorRegister.Name))
		sleep(2 * time.Second)
		require.Equal(t, 2, s.count(protocol.ExecutorRegister.Name))
		require.Equal(t, 2, s.count(protocol.ToolResult.Name))
		require.Contains(t, w.Status().LastError, "deliver result")
	})
}

// A refusal for now is tried again after 1 s, 2 s, 4 s … 30 s; the others wait their
// turn, oldest first.
func TestResultRefusedForNow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var times []time.Time
		var mu sync.Mutex
		s := w.script(func(s *script) {
			s.result = func(_ int, p protocol.ToolResultParams) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if p.ToolCallID != "c1" {
					return true, nil
				}
				times = append(times, time.Now())
				switch n := len(times); {
				case n == 2:
					return false, nil // accepted: false is a refusal for now too
				case n < 8:
					return false, protocol.ErrResourceUnavailable
				}
				return true, nil
			}
		})
		w.run(nil, hello())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c1", "hello"))
		synctest.Wait()                           // results are owed in the order in which calls end
		for _, id := range []string{"c2", "c3"} { // the others are not held up
			require.NoError(t, s.call(id, "hello"))
			synctest.Wait()
		}
		require.Equal(t, 1, w.Status().ResultsOwed)
		sleep(10 * time.Minute)
		var gaps []float64
		for i := 1; i < 8; i++ {
			gaps = append(gaps, times[i].Sub(times[i-1]).Round(10*time.Millisecond).Seconds())
		}
		require.Equal(t, []float64{1, 2, 4, 8, 16, 30, 30}, gaps)
		require.Len(t, times, 8)
		require.Zero(t, w.Status().ResultsOwed)
		require.Zero(t, w.Status().ResultsLost)
	})
}

// A call that is asked for again while its result is on its way: the result may have
// passed the one who asks, and comes once more.
func TestAskedForOnTheWay(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		s.result = func(n int, _ protocol.ToolResultParams) (bool, error) {
			if n == 1 {
				require.NoError(t, s.call("c", "hello")) // before the acknowledgement
			}
			return true, nil
		}
		w.run(nil, hello())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c", "hello"))
		sleep(time.Minute)
		require.Len(t, s.so().results, 2)
		require.Zero(t, w.Status().ResultsOwed)
	})
}

// A brain that takes no results for now is asked as seldom with many as with one.
func TestAllResultsRefusedForNow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var tries atomic.Int32
		var takes atomic.Bool
		s := w.script(func(s *script) {
			s.result = func(int, protocol.ToolResultParams) (bool, error) {
				if takes.Load() {
					return true, nil
				}
				tries.Add(1)
				return false, protocol.ErrResourceUnavailable
			}
		})
		w.run(nil, hello())
		synctest.Wait()
		s.assign(1)
		for i := range 50 {
			require.NoError(t, s.call(fmt.Sprint("c", i), "hello"))
			synctest.Wait()
		}
		sleep(10 * time.Minute)
		require.Less(t, tries.Load(), int32(40))
		require.Greater(t, tries.Load(), int32(15))
		takes.Store(true)
		sleep(time.Minute)
		require.Zero(t, w.Status().ResultsOwed)
	})
}

// A refusal for good loses the result, which is counted and told.
func TestResultLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.result = func(_ int, p protocol.ToolResultParams) (bool, error) {
				if p.ToolCallID == "c1" {
					return false, protocol.ErrForbidden
				}
				return true, nil
			}
		})
		var lost []string
		w.run(func(o *Options) {
			o.OnResultLost = func(r protocol.ToolResultParams, err error) { lost = append(lost, r.ToolCallID+" "+err.Error()) }
		}, hello())
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c1", "hello"))
		require.NoError(t, s.call("c2", "hello"))
		sleep(time.Minute)
		require.Equal(t, []string{"c1 forbidden: forbidden"}, lost)
		require.EqualValues(t, 1, w.Status().ResultsLost)
		require.Equal(t, 2, s.count(protocol.ToolResult.Name))
		require.Zero(t, w.Status().ResultsOwed)
		require.NoError(t, s.call("c1", "hello")) // what is asked for again is sent again
		sleep(time.Minute)
		require.Equal(t, 3, s.count(protocol.ToolResult.Name))
	})
}

// Close 1009 while a result is in flight: it is replaced by one that says so, and
// where the text is. Even that one refused makes room for others.
func TestResultTooBigForTheBrain(t *testing.T) {
	for _, how := range []string{"close", "error", "close always", "error always"} {
		t.Run(how, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				always := strings.HasSuffix(how, "always")
				s := w.script(nil)
				s.result = func(_ int, p protocol.ToolResultParams) (bool, error) {
					if p.ToolCallID != "big" || p.Error != nil && !always {
						return true, nil
					}
					if strings.HasPrefix(how, "error") {
						return false, protocol.ErrPayloadTooLarge
					}
					s.conn().Shutdown(protocol.CloseTooBig, "too big for me")
					return true, nil
				}
				w.run(func(o *Options) { o.InlineResultBytes = 1000 }, hello(), says("long", func(string) protocol.ToolOutput {
					return protocol.ToolOutput{Content: []protocol.Content{{Type: protocol.ContentText, Text: strings.Repeat("x", 5000)}},
						Mutations: []protocol.Mutation{{Op: "modify", Path: "a"}}, Structured: struct{}{}}
				}))
				sleep(40 * time.Second)
				s.assign(1)
				_ = s.call("big", "long") // its answer may be lost with the connection
				sleep(20 * time.Second)
				require.NoError(t, s.call("small", "hello"))
				sleep(time.Minute)
				last := s.so().results[len(s.so().results)-1]
				require.Equal(t, "small", last.ToolCallID)
				require.Equal(t, protocol.OutcomeSucceeded, last.Outcome)
				require.Len(t, s.so().results, 3)
				r := s.so().results[1]
				require.Equal(t, "big", r.ToolCallID)
				require.Equal(t, protocol.OutcomeFailed, r.Outcome)
				require.Equal(t, "payload_too_large", r.Error.Reason)
				require.Contains(t, text(r), "the whole text is in .executor/spill/big")
				require.Contains(t, text(r), "xxx", "a part of it")
				require.Len(t, r.Mutations, 1)
				require.Equal(t, always, w.Status().ResultsLost == 1)
				require.Zero(t, w.Status().ResultsOwed)
			})
		})
	}
}

// A close with 1009 by this end, because the brain's message was too big, changes no
// result.
func TestTooBigMessageOfTheBrain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		s.result = func(n int, p protocol.ToolResultParams) (bool, error) {
			if n == 1 {
				c := s.conn()
				c.SetMaxSendBytes(10 << 20)
				go func() {
					_, _ = rpc.Call(w.ctx, c, protocol.ToolCancel, protocol.ToolCancelParams{SessionID: "s1", ToolCallID: strings.Repeat("x", 2<<20)})
				}()
				<-c.Context().Done()
			}
			return true, nil
		}
		w.run(func(o *Options) { o.Dial = w.plainDial }, hello())
		sleep(40 * time.Second)
		s.assign(1)
		require.NoError(t, s.call("c", "hello"))
		sleep(time.Minute)
		require.Len(t, s.so().results, 2)
		require.Equal(t, s.so().results[0], s.so().results[1])
		require.Equal(t, protocol.OutcomeSucceeded, s.so().results[1].Outcome)
	})
}

// After a reconnect: what is owed, oldest first, then session.ended.
func TestReplayOrder(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		s := w.script(func(s *script) {
			s.ended = func(n int) (bool, error) { return n > 1, nil } // not before the connection is lost
		})
		w.run(nil, h, hello())
		sleep(40 * time.Second)
		s.assign(1)
		require.NoError(t, s.tryAssign("s2", "w", 1))
		synctest.Wait()
		s.result = func(int, protocol.ToolResultParams) (bool, error) { return false, protocol.ErrResourceUnavailable }
		s.ended = func(int) (bool, error) { return false, protocol.ErrResourceUnavailable }
		for i := range 5 {
			require.NoError(t, s.call(fmt.Sprint("c", i), "hello"))
			synctest.Wait()
		}
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionStop, protocol.SessionStopParams{SessionID: "s2"})
		require.NoError(t, err)
		synctest.Wait()
		s.result, s.ended = nil, nil
		w.net.Cut()
		sleep(30 * time.Second)
		results := s.log("executor.", "session.")
		require.Equal(t, []string{"tool.result c0 succeeded", "tool.result c1 succeeded", "tool.result c2 succeeded", "tool.result c3 succeeded",
			"tool.result c4 succeeded"}, results[len(results)-5:])
		log := s.log("executor.", "session.status", "session.ready")
		require.Equal(t, "session.ended s2 stopped", log[len(log)-1])
	})
}

// A result that was short enough for anybody but this brain is kept all the same.
func TestResultTooBigThatWasNotSpilled(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.result = func(_ int, p protocol.ToolResultParams) (bool, error) {
				if p.Error == nil {
					return false, protocol.ErrPayloadTooLarge
				}
				return true, nil
			}
		})
		whole := "begin " + strings.Repeat("x", 20_000) + " end"
		w.run(nil, says("long", func(string) protocol.ToolOutput { return protocol.Text(whole) }))
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c", "long"))
		sleep(time.Second)
		r := s.so().results[1]
		require.Contains(t, text(r), "begin x")
		require.True(t, strings.HasSuffix(text(r), "x end"))
		require.Less(t, len(text(r)), 3000)
		_, path, found := strings.Cut(r.Error.Message, "the whole text is in ")
		require.True(t, found)
		kept, err := os.ReadFile(filepath.Join(w.opts.Workspace.Roots[0].Path, path))
		require.NoError(t, err)
		require.Equal(t, whole, string(kept))
	})
}

func TestSpilledTo(t *testing.T) {
	require.Empty(t, spilledTo(protocol.ToolResultParams{}))
	require.Equal(t, "a b", spilledTo(protocol.ToolResultParams{Structured: []byte(`{"output_file":"a b"}`)}))
	cut := headTail(strings.Repeat("x", 5000), 100, spilledHere+"dir/a file")
	require.Equal(t, "dir/a file", spilledTo(protocol.ToolResultParams{Structured: []byte(`{"n":1}`), Content: []protocol.Content{{}, {Text: cut}}}))
}
