package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// typed is a client that is written by hand.
type typed struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	over chan error // what Serve returned
}

func (w *world) typed() *typed {
	here, there := net.Pipe()
	c := &typed{t: w.t, conn: here, in: bufio.NewReader(here), over: make(chan error, 1)}
	w.work.Go(func() { c.over <- w.gate.Serve(w.ctx, gateway.Lines(there, there)) })
	w.ends = append([]func(){func() { _ = here.Close() }}, w.ends...)
	return c
}

func (c *typed) say(line string) {
	_, err := io.WriteString(c.conn, line+"\n")
	require.NoError(c.t, err)
}

func (c *typed) hear() map[string]any {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	var m map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(line), &m), line)
	return m
}

// begin is what a client says first.
func (c *typed) begin() {
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}`)
	require.Contains(c.t, c.hear(), "result")
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// What is no message is answered with an error, and the session lives.
func TestBadLines(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"))
		w.ready(1)
		c := w.typed()
		c.begin()
		for _, bad := range []struct {
			line string
			code float64
			says string
		}{
			{"not json", -32700, "not JSON"},
			{`{"jsonrpc":"2.0","id":1,`, -32700, "not JSON"},
			{"\xff\xfe\x00", -32700, "not JSON"},
			{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "batches"},
			{`7`, -32600, "not a JSON-RPC message"},
			{`{"id":1}`, -32600, "not a JSON-RPC message"},
			{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "not a JSON-RPC message"},
			{strings.Repeat("x", gateway.MaxLineBytes+256<<10), -32600, "bytes"},
		} {
			go c.say(bad.line)
			e, ok := c.hear()["error"].(map[string]any)
			require.True(t, ok, bad.says)
			require.Equal(t, bad.code, e["code"], e)
			require.Contains(t, e["message"], bad.says)
			require.Less(t, len(e["message"].(string)), 500)
		}
		c.say("")
		c.say("  \r")
		c.say(`{"jsonrpc":"2.0","id":"x","method":"no/such","params":{}}`)
		require.Contains(t, c.hear(), "error")
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":["echo"]}}`)
		require.Contains(t, c.hear(), "error")
		c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("y", 2<<20) + `"}}}`)
		r := c.hear()["result"].(map[string]any)
		require.Equal(t, true, r["isError"], "more than a frame of the executor's takes")
		require.Contains(t, fmt.Sprint(r["content"]), "payload_too_large")
		c.say(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"text":"still here"}}}`)
		require.Contains(t, fmt.Sprint(c.hear()["result"]), "echo:still here")
	})
}

// A script that closes its end as soon as it has asked gets its answers.
func TestEndOfInput(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		r, in := io.Pipe()
		out, wr := io.Pipe()
		over := make(chan error, 1)
		w.work.Go(func() { over <- w.gate.Serve(w.ctx, gateway.Lines(r, wr)) })
		got := make(chan string)
		go func() {
			all, _ := io.ReadAll(out)
			got <- string(all)
		}()
		_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"n":1000}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sleep","arguments":{"n":100000}}}`)
		require.NoError(t, err)
		before := time.Now()
		require.NoError(t, in.Close())
		require.NoError(t, <-over)
		require.Less(t, time.Since(before), 15*time.Second, "but it is not waited for long")
		require.Contains(t, <-got, `"text":"slept"`)
		require.Empty(t, w.brain.Executors()[0].Sessions())
	})
}

// An input that is broken off has nobody behind it: nothing is waited for.
func TestInputBrokenOff(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		r, in := io.Pipe()
		over := make(chan error, 1)
		w.work.Go(func() { over <- w.gate.Serve(w.ctx, gateway.Lines(r, io.Discard)) })
		_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"n":100000}}}
`)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, w.brain.Executors()[0].Sessions(), 1)
		before := time.Now()
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
		<-over
		require.Less(t, time.Since(before), time.Second)
		require.Empty(t, w.brain.Executors()[0].Sessions())
	})
}

// A client that takes no answers is cut off when the server ends.
func TestClientThatDoesNotRead(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"))
		w.ready(1)
		c := w.typed()
		c.begin()
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		synctest.Wait()
		before := time.Now()
		require.NoError(t, w.gate.Close())
		require.ErrorIs(t, <-c.over, gateway.ErrClosed)
		require.Less(t, time.Since(before), 5*time.Second)
		require.ErrorIs(t, w.gate.Serve(w.ctx, gateway.Lines(strings.NewReader(""), io.Discard)), gateway.ErrClosed)
	})
}

// Two clients at once have sessions of their own, and go each for itself.
func TestTwoClients(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy(), whoami())
		w.ready(1)
		a, b := w.client(nil), w.client(nil)
		mine, other := text(w.call(a, "whoami", nil)), text(w.call(b, "whoami", nil))
		require.NotEqual(t, mine, other)
		require.Equal(t, mine, text(w.call(a, "whoami", nil)))
		require.NoError(t, a.Close())
		synctest.Wait()
		require.Equal(t, other, text(w.call(b, "whoami", nil)))
		require.Len(t, w.brain.Executors()[0].Sessions(), 1)
		require.Equal(t, "test", w.brain.Executors()[0].Sessions()[0].Assignment().Metadata["client_name"])
	})
}

// A client that goes while its executor is away leaves nothing there.
func TestClientGoesWhileTheExecutorIsAway(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", whoami())
		w.ready(1)
		c := w.client(nil)
		w.call(c, "whoami", nil)
		w.refuse.Store(true)
		w.faults.CutNow()
		w.ready(0)
		require.NoError(t, c.Close())
		time.Sleep(time.Minute)
		require.Len(t, w.brain.Executors()[0].Sessions(), 1)
		w.refuse.Store(false)
		w.ready(1)
		time.Sleep(time.Second)
		require.Empty(t, w.brain.Executors()[0].Sessions())
	})
}

// A client that has stopped to read, with answers under way and floods of them: the end of
// the input, or that of the server, ends its session all the same.
func TestEndWithAClientThatDoesNotRead(t *testing.T) {
	for name, end := range map[string]func(w *world, in io.Closer, cancel func()){
		"end of input": func(_ *world, in io.Closer, _ func()) { _ = in.Close() },
		"told to stop": func(_ *world, _ io.Closer, cancel func()) { cancel() },
		"closed":       func(w *world, _ io.Closer, _ func()) { _ = w.gate.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, gateway.Options{}, func(t *testing.T, w *world) {
				w.executor("one", echo("echo"), sleepy())
				w.ready(1)
				r, in := io.Pipe()
				blocked := deadPipe(make(chan struct{}))
				defer close(blocked)
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				over := make(chan error, 1)
				w.work.Go(func() { over <- w.gate.Serve(ctx, gateway.Lines(r, blocked)) })
				_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"n":100000},"_meta":{"progressToken":1}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}
not json
nor this
`)
				require.NoError(t, err)
				synctest.Wait()
				before := time.Now()
				end(w, in, cancel)
				<-over
				require.Less(t, time.Since(before), 8*time.Second)
				require.Empty(t, w.brain.Executors()[0].Sessions())
			})
		})
	}
}

// deadPipe is a pipe that nobody reads: a Write to it cannot be ended.
type deadPipe chan struct{}

func (d deadPipe) Write([]byte) (int, error) { <-d; return 0, io.ErrClosedPipe }

// A client whose end is gone ends its session at once, whatever runs.
func TestEndOfAClientThatIsGone(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", echo("echo"), sleepy())
		w.ready(1)
		r, in := io.Pipe()
		out, wr := io.Pipe()
		over := make(chan error, 1)
		w.work.Go(func() { over <- w.gate.Serve(w.ctx, gateway.Lines(r, wr)) })
		go func() {
			_, _ = bufio.NewReader(out).ReadString('\n')
			_ = out.Close()
		}()
		before := time.Now()
		_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep","arguments":{"n":100000}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}
`)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		<-over
		require.Less(t, time.Since(before), time.Second)
	})
}
