package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

func TestCall(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), tool("fails", func(context.Context, *capabilities.Call, toolInput) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeNotFound, "there is no x")
		}), tool("blocks", func(context.Context, *capabilities.Call, toolInput) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{Structured: map[string]any{"exit_code": 3}, IsError: true, Content: []protocol.Content{
				{Type: protocol.ContentText, Text: "words"},
				{Type: protocol.ContentImage, Data: []byte("png"), MIMEType: "image/png"},
				{Type: protocol.ContentResource, URL: "file:///a", Name: "a", SizeBytes: 7},
				{Type: protocol.ContentResource, URL: "file:///b", Text: "b"},
				{Type: protocol.ContentArtifact, ArtifactID: "id", Name: "n", SizeBytes: 9},
			}}, nil
		}))
		w.ready(1)
		c := w.client(nil)
		r := w.call(c, "echo", map[string]any{"text": "hi"})
		require.Equal(t, "echo:hi", text(r))
		require.False(t, r.IsError)

		r = w.call(c, "fails", nil)
		require.True(t, r.IsError)
		require.Equal(t, "there is no x", text(r))
		require.Equal(t, "not_found", r.Meta["executor/reason"])

		r = w.call(c, "echo", map[string]any{"txt": 1})
		require.True(t, r.IsError)
		require.Contains(t, text(r), "echo: invalid_params: ")
		require.Contains(t, text(r), "txt")
		r = w.call(c, "echo", []int{1})
		require.True(t, r.IsError, "an argument that is no object is the tool's error")

		r = w.call(c, "blocks", nil)
		require.True(t, r.IsError)
		require.Equal(t, map[string]any{"exit_code": 3.0}, r.StructuredContent)
		raw, err := json.Marshal(r.Content)
		require.NoError(t, err)
		require.JSONEq(t, `[{"type":"text","text":"words"},{"type":"image","mimeType":"image/png","data":"cG5n"},
			{"type":"resource_link","uri":"file:///a","name":"a","size":7},{"type":"resource","resource":{"uri":"file:///b","text":"b"}},
			{"type":"text","text":"[file \"n\" was sent to the brain as artifact id: , 9 bytes]"}]`, string(raw))

		_, err = c.CallTool(w.ctx, &mcp.CallToolParams{Name: "ecko"})
		require.ErrorContains(t, err, `unknown tool "ecko"`)
		require.Len(t, w.brain.Executors()[0].Sessions(), 1, "one for all calls")
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Empty(t, w.brain.Executors()[0].Sessions())
	})
}

func TestProgress(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", tool("talk", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			for i := range in.N {
				c.Output(protocol.StreamStdout, fmt.Appendf(nil, "line %d\n", i))
				time.Sleep(time.Duration(1+i%3) * 70 * time.Millisecond)
			}
			c.Progress("nearly there")
			c.Output(protocol.StreamStderr, []byte("no end of line"))
			time.Sleep(time.Second) // progress is best effort, and may be overtaken by the result
			return protocol.Text("done"), nil
		}))
		w.ready(1)
		told := make(chan *mcp.ProgressNotificationParams, 1000)
		c := w.client(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params }})
		p := &mcp.CallToolParams{Name: "talk", Arguments: toolInput{N: 20}}
		p.SetProgressToken("mine")
		r, err := c.CallTool(w.ctx, p)
		require.NoError(t, err)
		require.Equal(t, "done", text(r))
		synctest.Wait()
		all, last := "", 0.0
		for len(told) > 0 {
			n := <-told
			require.Equal(t, "mine", n.ProgressToken)
			require.Greater(t, n.Progress, last)
			last = n.Progress
			all += n.Message + "\n"
		}
		require.Greater(t, last, 5.0)
		for i := range 20 {
			require.Contains(t, all, fmt.Sprintf("line %d\n", i))
		}
		require.True(t, strings.HasSuffix(all, "nearly there\nno end of line\n"), all)

		w.call(c, "talk", toolInput{N: 3})
		synctest.Wait()
		require.Empty(t, told, "nobody asked for it")
	})
}

// A program that prints without end tells what is newest, and how much was left out.
func TestProgressOfAFlood(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", tool("flood", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			for range 2000 {
				c.Output(protocol.StreamStdout, []byte(strings.Repeat("x", 999)+"\n"))
			}
			<-time.After(2 * time.Second) // the result overtakes what is told last
			return protocol.Text("done"), nil
		}))
		w.ready(1)
		var n, bytes atomic.Int64
		var left atomic.Bool
		c := w.client(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			n.Add(1)
			bytes.Add(int64(len(r.Params.Message)))
			if strings.Contains(r.Params.Message, "bytes left out]") {
				left.Store(true)
			}
		}})
		p := &mcp.CallToolParams{Name: "flood"}
		p.SetProgressToken(7)
		_, err := c.CallTool(w.ctx, p)
		require.NoError(t, err)
		require.Less(t, n.Load(), int64(100))
		require.Less(t, bytes.Load(), int64(200_000))
		require.True(t, left.Load())
	})
}

func TestCancel(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		began, ended := make(chan struct{}, 9), make(chan error, 9)
		w.executor("one", echo("echo"), tool("hang", func(ctx context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return protocol.ToolOutput{}, ctx.Err()
		}))
		w.ready(1)
		c, kill := w.killable(nil)
		ctx, cancel := context.WithCancel(w.ctx)
		go func() { <-began; cancel() }()
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
		require.ErrorIs(t, err, context.Canceled)
		require.Error(t, <-ended, "on the executor too")
		require.Equal(t, "echo:x", text(w.call(c, "echo", toolInput{Text: "x"})), "the session lives")

		// A client that goes takes its calls with it.
		go func() { _, _ = c.CallTool(w.ctx, &mcp.CallToolParams{Name: "hang"}) }()
		<-began
		before := time.Now()
		kill()
		<-ended
		require.Less(t, time.Since(before), 12*time.Second, "what is under way at the end of the input may still be answered")
		synctest.Wait()
		time.Sleep(time.Second)
		require.Empty(t, w.brain.Executors()[0].Sessions())
	})
}

// A connection that is cut while calls run: each ran once and is answered once.
func TestReconnects(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		var runs atomic.Int64
		w.executor("one", tool("slow", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			runs.Add(1)
			select {
			case <-time.After(time.Duration(in.N) * time.Millisecond):
				return protocol.Text("done"), nil
			case <-ctx.Done():
				return protocol.ToolOutput{}, ctx.Err()
			}
		}))
		w.ready(1)
		c := w.client(nil)
		const calls = 40
		got := make(chan string, calls)
		for i := range calls {
			go func() {
				time.Sleep(time.Duration(i) * 37 * time.Millisecond)
				got <- text(w.call(c, "slow", toolInput{N: 400}))
			}()
		}
		for range 4 {
			time.Sleep(350 * time.Millisecond)
			w.faults.CutNow()
		}
		for range calls {
			require.Equal(t, "done", <-got)
		}
		require.EqualValues(t, calls, runs.Load())
	})
}

// An executor that has lost its sessions: a call that had begun is over, the next one has
// a new session.
func TestExecutorLosesItsSessions(t *testing.T) {
	in(t, gateway.Options{Grace: 20 * time.Second}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), tool("hang", func(ctx context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			<-ctx.Done()
			return protocol.ToolOutput{}, ctx.Err()
		}))
		w.ready(1)
		c := w.client(nil)
		w.call(c, "echo", nil)
		s := w.brain.Executors()[0].Sessions()[0]
		hung := make(chan *mcp.CallToolResult)
		go func() { hung <- w.call(c, "hang", nil) }()
		synctest.Wait()
		require.NoError(t, s.Stop(w.ctx, "test"))
		r := <-hung
		require.True(t, r.IsError)
		require.Equal(t, "echo:again", text(w.call(c, "echo", toolInput{Text: "again"})))
		require.Len(t, w.brain.Executors()[0].Sessions(), 1)
		require.NotEqual(t, s.ID(), w.brain.Executors()[0].Sessions()[0].ID())
	})
}

// An executor that goes for good: calls that had not begun end after the grace, those
// that had after the patience.
func TestExecutorGoesForGood(t *testing.T) {
	in(t, gateway.Options{Grace: 10 * time.Second, Patience: time.Minute}, func(t *testing.T, w *world) {
		hang := make(chan struct{})
		x := w.executor("one", echo("echo"), tool("hang", func(ctx context.Context, c *capabilities.Call, _ toolInput) (protocol.ToolOutput, error) {
			close(hang)
			<-ctx.Done()
			return protocol.ToolOutput{}, ctx.Err()
		}))
		w.ready(1)
		c := w.client(nil)
		began := make(chan *mcp.CallToolResult)
		go func() { began <- w.call(c, "hang", nil) }()
		<-hang
		synctest.Wait() // it is known to have been accepted
		w.refuse.Store(true)
		w.faults.CutNow()
		at := time.Now()
		r := w.call(c, "echo", nil)
		require.True(t, r.IsError)
		require.Contains(t, text(r), "is away")
		require.InDelta(t, 10, time.Since(at).Seconds(), 1)
		require.Empty(t, w.tools(c), "its tools are gone with it")
		r = <-began
		require.True(t, r.IsError)
		require.Contains(t, text(r), "not known")
		require.InDelta(t, 60, time.Since(at).Seconds(), 10)
		w.refuse.Store(false)
		w.ready(1)
		require.Equal(t, "echo:", text(w.call(c, "echo", nil)))
		x.leave()
	})
}

// More calls at once than an executor takes wait for their turn.
func TestManyCallsAtOnce(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		var now, most atomic.Int64
		w.executor("one", tool("count", func(ctx context.Context, c *capabilities.Call, in toolInput) (protocol.ToolOutput, error) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			return protocol.Text(in.Text), nil
		}))
		w.ready(1)
		c := w.client(nil)
		const calls = 300
		got := make(chan bool, calls)
		for i := range calls {
			go func() {
				want := fmt.Sprint(i)
				got <- text(w.call(c, "count", toolInput{Text: want})) == want
			}()
		}
		for range calls {
			require.True(t, <-got)
		}
		require.LessOrEqual(t, most.Load(), int64(32))
		require.Greater(t, most.Load(), int64(8))
	})
}

// The patience is two minutes unless it is given.
func TestPatience(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		c := w.client(nil)
		began := make(chan *mcp.CallToolResult)
		go func() { began <- w.call(c, "sleep", toolInput{N: 3600_000}) }()
		synctest.Wait()
		w.refuse.Store(true)
		w.faults.CutNow()
		at := time.Now()
		r := <-began
		require.True(t, r.IsError)
		require.Contains(t, text(r), "not known")
		require.InDelta(t, 120, time.Since(at).Seconds(), 20)
		w.refuse.Store(false)
		w.ready(1)
	})
}

// An executor that takes no more sessions: the call says so, after a while.
func TestExecutorIsFull(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.maxSessions = 1
		w.executor("one", echo("echo"))
		w.ready(1)
		a, b := w.client(nil), w.client(nil)
		require.Len(t, w.tools(b), 1, "a list needs no session")
		w.call(a, "echo", nil)
		before := time.Now()
		r := w.call(b, "echo", nil)
		require.True(t, r.IsError)
		require.Contains(t, text(r), "--max-sessions")
		require.Contains(t, text(r), "1 sessions are assigned, which is the limit")
		require.Equal(t, "executor_busy", r.Meta["executor/reason"])
		require.Less(t, time.Since(before), 5*time.Second)
		require.NoError(t, a.Close())
		require.Equal(t, "echo:", text(w.call(b, "echo", nil)), "there is room again")
	})
}
