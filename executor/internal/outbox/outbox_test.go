package outbox

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agent-executor/executor/protocol"
)

// A model is tried with 8 random stories, and with 100 where EXECUTOR_STRESS is set, or
// -rapid.checks says how many.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR_STRESS") == "" {
		if err := flag.Set("rapid.checks", "8"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func call(session, id, input string) protocol.ToolCallParams {
	return protocol.ToolCallParams{SessionID: session, ToolCallID: id, Tool: "t", Input: json.RawMessage(input)}
}

func result(session, id, text string) protocol.ToolResultParams {
	return protocol.ToolResultParams{SessionID: session, ToolCallID: id, Outcome: protocol.OutcomeSucceeded,
		Content: []protocol.Content{{Type: protocol.ContentText, Text: text}}}
}

// both runs a test with boxes in memory and with boxes in directories.
func both(t *testing.T, test func(t *testing.T, open func() *Box)) {
	for name, dir := range map[string]func(t *testing.T) string{
		"memory":    func(*testing.T) string { return "" },
		"directory": func(t *testing.T) string { return t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func() *Box {
				b, err := Open(dir(t))
				require.NoError(t, err)
				require.Empty(t, b.Losses())
				t.Cleanup(func() { require.NoError(t, b.Close()) })
				return b
			})
		})
	}
}

func peek(t require.TestingT, b *Box) protocol.ToolResultParams {
	r, ok := b.Peek(nil)
	require.True(t, ok)
	return r
}

func next(t require.TestingT, b *Box) string {
	r := peek(t, b)
	return r.SessionID + "/" + r.ToolCallID + "/" + r.Content[0].Text
}

// A call from its acceptance to its acknowledgement, and after it.
func TestLife(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		p := call("s", "c", `{"a":1}`)
		state, err := b.Lookup(p)
		require.NoError(t, err)
		require.Equal(t, Fresh, state)
		state, err = b.Lookup(p) // recorded nothing
		require.NoError(t, err)
		require.Equal(t, Fresh, state)
		for _, want := range []State{Fresh, Running, Running} {
			state, err = b.Accept(p, false)
			require.NoError(t, err)
			require.Equal(t, want, state)
		}
		require.Zero(t, b.Owed())
		require.NoError(t, b.Put(result("s", "c", "one")))
		require.Equal(t, 1, b.Owed())
		require.Equal(t, "s/c/one", next(t, b))
		require.Equal(t, "s/c/one", next(t, b)) // until Ack
		state, err = b.Lookup(p)
		require.NoError(t, err)
		require.Equal(t, Done, state)
		require.Equal(t, 1, b.Owed()) // once, though it was asked for again
		require.NoError(t, b.Put(result("s", "c", "two")))
		require.Equal(t, "s/c/two", next(t, b)) // takes its place while it is owed
		require.NoError(t, b.Ack("s", "c"))
		require.NoError(t, b.Ack("s", "c"))
		require.NoError(t, b.Ack("s", "unknown"))
		require.Zero(t, b.Owed())
		require.NoError(t, b.Put(result("s", "c", "three"))) // too late
		require.Zero(t, b.Owed())
		state, err = b.Accept(p, false)
		require.NoError(t, err)
		require.Equal(t, Done, state)
		require.Equal(t, "s/c/two", next(t, b))
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		_, ok := b.Peek(nil)
		require.False(t, ok)
	})
}

// What makes a call the same one.
func TestSameCall(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		base := call("s", "c", `{"a":1,"b":[1,2]}`)
		base.Permission = &protocol.Permission{Mode: protocol.PermissionAlwaysAsk}
		change := func(f func(*protocol.ToolCallParams)) protocol.ToolCallParams {
			p := base
			f(&p)
			return p
		}
		for name, c := range map[string]struct {
			p    protocol.ToolCallParams
			same bool
		}{
			"itself":     {base, true},
			"deadline":   {change(func(p *protocol.ToolCallParams) { p.DeadlineMS = 7 }), true},
			"spacing":    {change(func(p *protocol.ToolCallParams) { p.Input = json.RawMessage("{ \"a\" : 1,\n\"b\":[1, 2]}") }), true},
			"tool":       {change(func(p *protocol.ToolCallParams) { p.Tool = "u" }), false},
			"input":      {change(func(p *protocol.ToolCallParams) { p.Input = json.RawMessage(`{"a":2,"b":[1,2]}`) }), false},
			"no input":   {change(func(p *protocol.ToolCallParams) { p.Input = nil }), false},
			"permission": {change(func(p *protocol.ToolCallParams) { p.Permission = nil }), false},
			"mode":       {change(func(p *protocol.ToolCallParams) { p.Permission = &protocol.Permission{Mode: "always_allow"} }), false},
			"no JSON":    {change(func(p *protocol.ToolCallParams) { p.Input = json.RawMessage(`{`) }), false},
		} {
			b := open()
			_, err := b.Accept(base, false)
			require.NoError(t, err)
			state, err := b.Accept(c.p, false)
			if c.same {
				require.NoError(t, err, name)
				require.Equal(t, Running, state, name)
				continue
			}
			require.ErrorIs(t, err, protocol.ErrConflict, name)
			require.ErrorContains(t, err, "tool_call_id")
		}
		b := open() // no input, in all its spellings
		for i, input := range []string{"", "null", "{}", " { } "} {
			p := call("s", "c", input)
			if input == "" {
				p.Input = nil
			}
			state, err := b.Accept(p, false)
			require.NoError(t, err)
			require.Equal(t, i > 0, state == Running)
		}
		// The parts of a digest do not run into each other.
		p, q := call("s", "c", `{}`), call("s", "c", `{}`)
		p.Tool, q.Tool = "ab", "a"
		q.Permission = &protocol.Permission{Mode: "b"}
		require.NotEqual(t, digestOf(p), digestOf(q))
	})
}

// Oldest first, whatever is acknowledged in between.
func TestOrder(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		for i := range 5 {
			_, err := b.Accept(call("s", fmt.Sprint(i), ""), false)
			require.NoError(t, err)
		}
		for _, i := range []int{3, 0, 4, 1, 2} { // as they end
			require.NoError(t, b.Put(result("s", fmt.Sprint(i), "")))
		}
		require.NoError(t, b.Ack("s", "4"))
		for _, i := range []int{3, 0, 1, 2} {
			require.Equal(t, fmt.Sprintf("s/%d/", i), next(t, b))
			require.NoError(t, b.Ack("s", fmt.Sprint(i)))
		}
		_, err := b.Lookup(call("s", "1", "")) // asked for again: behind all others
		require.NoError(t, err)
		require.NoError(t, b.Put(result("s", "5", "")))
		require.Equal(t, "s/1/", next(t, b))
	})
}

func do(t require.TestingT, b *Box, session, id string) {
	_, err := b.Accept(call(session, id, ""), true)
	require.NoError(t, err)
	require.NoError(t, b.Put(result(session, id, "")))
	require.NoError(t, b.Ack(session, id))
}

// The last 256 results of each session are kept; one that is owed again is not
// forgotten before it is acknowledged. A call whose result is forgotten is not run
// again.
func TestEviction(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		do(t, b, "other", "0")
		for i := range keepResults {
			do(t, b, "s", fmt.Sprint(i))
		}
		state, err := b.Lookup(call("s", "0", "")) // owed again
		require.NoError(t, err)
		require.Equal(t, Done, state)
		do(t, b, "s", "256") // 0 would have to go
		do(t, b, "s", "257") // 1 goes
		require.Equal(t, "s/0/", next(t, b))
		require.NoError(t, b.Ack("s", "0")) // kept anew: 2 goes
		for id, forgotten := range map[string]bool{"0": false, "1": true, "2": true, "3": false, "257": false} {
			state, err := b.Lookup(call("s", id, ""))
			require.NoError(t, err)
			require.Equal(t, Done, state, id)
			r := peek(t, b)
			require.Equal(t, id, r.ToolCallID)
			require.Equal(t, forgotten, r.Error != nil && r.Error.Reason == protocol.ReasonOutcomeUnknown, id)
			require.NoError(t, b.Ack("s", id))
		}
		_, err = b.Lookup(call("s", "1", `{"other":1}`))
		require.ErrorIs(t, err, protocol.ErrConflict)
		state, err = b.Lookup(call("other", "0", ""))
		require.NoError(t, err)
		require.Equal(t, Done, state)
		require.Len(t, b.kept["s"].done, keepResults)
		require.Len(t, b.calls, keepResults+3)
		for i := range keepIDs + 100 {
			do(t, b, "s", fmt.Sprint("more", i))
		}
		require.Len(t, b.calls, keepResults+keepIDs+1, "memory is bounded")
		b.Forget("s")
		require.Len(t, b.calls, 1)
		require.Zero(t, len(b.owed)-1)
	})
}

// A brain that takes no results gets no more calls run, and everything goes on when it
// takes them.
func TestOwedIsBounded(t *testing.T) {
	b, err := Open("")
	require.NoError(t, err)
	n := 0
	for ; ; n++ {
		_, err := b.Accept(call("s", fmt.Sprint(n), ""), false)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrResourceUnavailable)
			break
		}
		require.NoError(t, b.Put(result("s", fmt.Sprint(n), strings.Repeat("x", 1<<20))))
		require.Less(t, n, 20)
	}
	state, err := b.Accept(call("s", "0", ""), false)
	require.NoError(t, err, "a repeat is no further call")
	require.Equal(t, Done, state)
	for i := range n {
		require.NoError(t, b.Ack("s", fmt.Sprint(i)))
	}
	_, err = b.Accept(call("s", "new", ""), false)
	require.NoError(t, err)
	require.Zero(t, b.owedBytes)
}

// Forget leaves nothing but what is owed.
func TestForget(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		do(t, b, "s", "acked")
		do(t, b, "s", "asked again")
		_, err := b.Lookup(call("s", "asked again", ""))
		require.NoError(t, err)
		_, err = b.Accept(call("s", "owed", ""), false)
		require.NoError(t, err)
		require.NoError(t, b.Put(result("s", "owed", "")))
		_, err = b.Accept(call("s", "running", ""), false)
		require.NoError(t, err)
		do(t, b, "other", "acked")
		b.Forget("s")
		b.Forget("unknown")
		require.Equal(t, 2, b.Owed())
		require.Equal(t, "s/asked again/", next(t, b))
		require.NoError(t, b.Ack("s", "asked again"))
		require.Equal(t, "s/owed/", next(t, b))
		require.NoError(t, b.Ack("s", "owed"))
		state, err := b.Lookup(call("s", "acked", ""))
		require.NoError(t, err)
		require.Equal(t, Fresh, state)
		b.Forget("s")
		require.Len(t, b.calls, 2) // what runs, and the other session's
	})
}

func TestSettledAndDrained(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		synctest.Test(t, func(t *testing.T) {
			b := open()
			for _, s := range []string{"a", "b"} {
				_, err := b.Accept(call(s, "c", ""), false)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, b.Drained(ctx)) // what runs is not owed
			require.NoError(t, b.Put(result("a", "c", "")))
			require.NoError(t, b.Put(result("b", "c", "")))
			var settled, drained, stopped atomic.Bool
			go func() { settled.Store(b.Settled(ctx, "a") == nil) }()
			go func() { drained.Store(b.Drained(ctx) == nil) }()
			go func() { stopped.Store(b.Settled(ctx, "b") == context.Canceled) }()
			synctest.Wait()
			require.False(t, settled.Load() || drained.Load())
			require.NoError(t, b.Ack("a", "c"))
			synctest.Wait()
			require.True(t, settled.Load())
			require.False(t, drained.Load())
			cancel()
			synctest.Wait()
			require.True(t, stopped.Load())
			require.False(t, drained.Load())
			require.ErrorIs(t, b.Drained(ctx), context.Canceled)

			go func() { stopped.Store(b.Drained(context.Background()) != nil) }()
			stopped.Store(false)
			synctest.Wait()
			require.NoError(t, b.Close())
			synctest.Wait()
			require.True(t, stopped.Load())
		})
	})
}

// Any number of callers, one that delivers: every call is Fresh for one of them, and
// every result is delivered once.
func TestConcurrency(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		const callers, calls = 8, 200
		var fresh atomic.Int32
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for i := range calls {
					s := fmt.Sprint("s", i%3)
					p := call(s, fmt.Sprint(i), "")
					state, err := b.Accept(p, false)
					require.NoError(t, err)
					if state == Fresh {
						fresh.Add(1)
						require.NoError(t, b.Put(result(s, p.ToolCallID, "")))
					}
					_ = b.Owed()
				}
			})
		}
		seen := map[string]bool{}
		ctx, cancel := context.WithCancel(t.Context())
		delivered := make(chan struct{})
		go func() {
			defer close(delivered)
			for {
				r, ok := b.Peek(nil)
				if !ok {
					select {
					case <-ctx.Done():
						return
					default:
						runtime.Gosched()
						continue
					}
				}
				seen[r.ToolCallID] = true
				if b.Ack(r.SessionID, r.ToolCallID) != nil {
					return
				}
			}
		}()
		all.Wait()
		require.NoError(t, b.Drained(t.Context()))
		cancel()
		<-delivered
		require.EqualValues(t, calls, fresh.Load())
		require.Len(t, seen, calls)
	})
}

// model is what a Box is, said in the simplest way.
type model struct {
	running map[string]bool
	results map[string]string
	owed    []string            // oldest first
	kept    map[string][]string // by session
}

// The box does as the model does, whatever is done.
func TestModel(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		rapid.Check(t, func(t *rapid.T) {
			b := open()
			m := &model{running: map[string]bool{}, results: map[string]string{}, kept: map[string][]string{}}
			session := func() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "session") }
			one := func() (s, id, k string) {
				s, id = session(), fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id"))
				return s, id, s + "/" + id
			}
			has := func(k string) bool { _, ok := m.results[k]; return ok }
			look := func(k string) State {
				switch {
				case m.running[k]:
					return Running
				case !has(k):
					return Fresh
				}
				if !slices.Contains(m.owed, k) {
					m.owed = append(m.owed, k)
				}
				return Done
			}
			n := 0
			t.Repeat(map[string]func(*rapid.T){
				"lookup": func(t *rapid.T) {
					s, id, k := one()
					state, err := b.Lookup(call(s, id, ""))
					require.NoError(t, err)
					require.Equal(t, look(k), state)
				},
				"accept": func(t *rapid.T) {
					s, id, k := one()
					state, err := b.Accept(call(s, id, ""), false)
					require.NoError(t, err)
					require.Equal(t, look(k), state)
					if state == Fresh {
						m.running[k] = true
					}
				},
				"conflict": func(t *rapid.T) {
					s, id, k := one()
					if !m.running[k] {
						t.Skip()
					}
					_, err := b.Accept(call(s, id, `{"other":1}`), false)
					require.ErrorIs(t, err, protocol.ErrConflict)
				},
				"put": func(t *rapid.T) {
					s, id, k := one()
					owed := slices.Contains(m.owed, k)
					if !m.running[k] && !owed {
						t.Skip()
					}
					n++
					text := fmt.Sprint(n)
					require.NoError(t, b.Put(result(s, id, text)))
					m.results[k] = text
					if !owed {
						m.owed = append(m.owed, k)
					}
					delete(m.running, k)
				},
				"ack": func(t *rapid.T) {
					s, id, k := one()
					require.NoError(t, b.Ack(s, id))
					if i := slices.Index(m.owed, k); i >= 0 {
						m.owed = slices.Delete(m.owed, i, i+1)
						if !slices.Contains(m.kept[s], k) {
							m.kept[s] = append(m.kept[s], k)
						}
					}
				},
				"forget": func(t *rapid.T) {
					s := session()
					b.Forget(s)
					for _, k := range m.kept[s] {
						if !slices.Contains(m.owed, k) {
							delete(m.results, k)
						}
					}
					delete(m.kept, s)
				},
				"": func(t *rapid.T) {
					require.Equal(t, len(m.owed), b.Owed())
					if len(m.owed) > 0 {
						k := m.owed[0]
						require.Equal(t, k+"/"+m.results[k], next(t, b))
					}
					require.Len(t, b.calls, len(m.results)+len(m.running))
				},
			})
		})
	})
}
