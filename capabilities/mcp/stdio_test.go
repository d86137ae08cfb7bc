//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
)

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return New(Options{LoginEnv: map[string]string{}}) })
}

// A server does all that MCP has, through its channel.
func TestServer(t *testing.T) {
	b := newBench(t, Options{}, me(t, "test", "plain"))
	require.Equal(t, map[string]protocol.MCPState{"test": {State: "ready"}}, b.MCP())
	o := b.channel()
	require.Equal(t, protocol.ChannelMCP, o.target.Channel)
	require.Equal(t, "test", o.target.ServerKey)
	require.NotEmpty(t, o.target.Incarnation)
	progress := make(chan float64, 10)
	c := b.clientOn(o.ch, sampler(&sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
	}, "fine"))
	tools, err := c.ListTools(b.ctx, nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 10)
	require.Equal(t, "héllo\n", b.call(c, "echo", echoInput{"héllo\n"}))
	require.Equal(t, "fine", b.call(c, "ask", sizeInput{}))

	r, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: "progress", Meta: sdk.Meta{"progressToken": "p"}, Arguments: struct{}{}})
	require.NoError(t, err)
	require.False(t, r.IsError)
	for i := range 3 {
		require.Equal(t, float64(i+1), <-progress)
	}

	ctx, cancel := context.WithCancel(b.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "forever", Arguments: struct{}{}})
		failed <- err
	}()
	require.Equal(t, "while it waits", b.call(c, "echo", echoInput{"while it waits"}))
	cancel()
	require.Error(t, <-failed)
	require.Equal(t, "still there", b.call(c, "echo", echoInput{"still there"}))

	pid := b.call(c, "pid", struct{}{})
	b.End()
	require.Equal(t, protocol.CloseNormal, b.closed(o.ch).Code)
	b.gone(pid)
}

// What a server sees is what other children see, and what the assignment gives it (cases 36, 38).
func TestEnvironment(t *testing.T) {
	s := me(t, "test", "plain")
	s.Transport.Args = []string{"--flag", "two words"}
	s.Transport.SecretEnv = map[string]string{"DB_KEY": "hidden-value"}
	s.Transport.Cwd = "sub"
	h, opened := newHost(t, Options{Secrets: []string{"the-executors-own"}})
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	session := h.NewSession(t, capabilitytest.Options{Workspace: w, Env: map[string]string{"SESSION_VARIABLE": "of the session"}, Assign: protocol.SessionAssignParams{MCPServers: []protocol.MCPServer{s}}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := &bench{t: t, ctx: ctx, Session: session, opened: opened}
	defer session.End()
	env := b.call(b.client(), "env", struct{}{})
	assert.Contains(t, env, "SESSION_VARIABLE=of the session\n")
	assert.Contains(t, env, "DB_KEY=hidden-value\n")
	assert.Contains(t, env, "\nDIR="+filepath.Join(w.Dir(), "sub")+"\n")
	assert.Contains(t, env, "--flag two words")
	assert.NotContains(t, env, "EXECUTOR_TOKEN")
	assert.NotContains(t, env, "SOME_API_KEY")
	assert.NotContains(t, strings.SplitAfter(env, "ARGS=")[1], "hidden-value")
}

// Long lines pass up to the limit; above it there is an error for that request only (case 145).
func TestLongLines(t *testing.T) {
	b := newBench(t, Options{}, me(t, "test", "plain"))
	c := b.client()
	require.Len(t, b.call(c, "big", sizeInput{100 << 10}), 100<<10)

	b = newBench(t, Options{}, me(t, "cat", "cat"))
	ch := b.channel().ch
	message := func(head string, size int) []byte {
		return []byte(`{"jsonrpc":"2.0",` + head + `:"` + strings.Repeat("x", size-len(head)-len(`{"jsonrpc":"2.0",:"","id":7}`)) + `","id":7}`)
	}
	echo := func(frame []byte) string {
		go func() { _ = ch.WriteFrame(b.ctx, frame) }()
		answer, err := ch.ReadFrame(b.ctx)
		require.NoError(t, err)
		return string(answer)
	}
	const limit = protocol.DefaultMaxMCPFrame
	for _, size := range []int{300 << 10, limit} {
		require.Len(t, echo(message(`"result"`, size)), size)
	}
	for head, size := range map[string]int{`"result"`: limit + 1, `"error":{"code":1},"data"`: limit + 2, `"method":"sampling/createMessage","params"`: limit + 3} {
		require.Equal(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"error":{"code":-32010,"message":"the message of %d bytes is over the limit of an MCP channel","data":{"reason":"payload_too_large"}}}`, size),
			echo(message(head, size)), "a request is answered with the same error, which cat gives back")
	}
	dropped := bytes.Replace(message(`"method":"m","params"`, limit+100), []byte(`,"id":7`), nil, 1)
	require.NoError(t, ch.WriteFrame(b.ctx, dropped))
	require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":1}`, echo([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`)))
}

// Standard error is always read (case 144).
func TestComplaints(t *testing.T) {
	b := newBench(t, Options{}, me(t, "quiet", "plain"), me(t, "flood", "flood"))
	done := make(chan struct{}, 2)
	for range 2 {
		o := b.channel()
		go func() {
			c := b.clientOn(o.ch, nil)
			assert.Equal(t, "done", b.call(c, "complain", sizeInput{256 << 10}), o.target.ServerKey)
			assert.Equal(t, "on", b.call(c, "echo", echoInput{"on"}))
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}

// What is no message does not reach the brain.
func TestNoise(t *testing.T) {
	b := newBench(t, Options{}, me(t, "test", "noise"))
	require.Equal(t, "on", b.call(b.client(), "echo", echoInput{"on"}))
}

// A call in which the server ends is lost, and the next run has a channel of its own.
func TestCrashInACall(t *testing.T) {
	b := newBench(t, Options{}, me(t, "test", "plain"))
	first := b.channel()
	c := b.clientOn(first.ch, nil)
	_, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: "exit", Arguments: struct{}{}})
	require.ErrorContains(t, err, "exit status 7")
	require.Equal(t, capabilities.ChannelClosed{Code: protocol.CloseMCPServerExited, Reason: "exit status 7"}, b.closed(first.ch))
	second := b.channel()
	require.NotEqual(t, first.target.Incarnation, second.target.Incarnation)
	require.Equal(t, "on", b.call(b.clientOn(second.ch, nil), "echo", echoInput{"on"}))
}

// A server that does not stay is given up.
func TestCrashAtStart(t *testing.T) {
	for mode, why := range map[string]string{"crash": "exit status 3", "half": "exit status 0"} {
		s := me(t, "test", mode)
		s.Transport.SecretEnv = map[string]string{"DB_KEY": "hidden-value"}
		b := newBench(t, Options{}, s)
		for range 3 {
			require.Equal(t, capabilities.ChannelClosed{Code: protocol.CloseMCPServerExited, Reason: why}, b.closed(b.channel().ch))
		}
		require.Equal(t, capabilities.ChannelClosed{Code: protocol.CloseMCPServerExited,
			Reason: "mcp_unavailable: " + why + "; not started again after 3 restarts in 10 minutes"}, b.closed(b.channel().ch))
		b.End()
		b.noChannel()
	}
}

func TestOneCrash(t *testing.T) {
	b := newBench(t, Options{}, me(t, "test", "once:"+filepath.Join(t.TempDir(), "there")))
	require.Equal(t, "exit status 4", b.closed(b.channel().ch).Reason)
	require.Equal(t, "on", b.call(b.client(), "echo", echoInput{"on"}))
}

// The last line counts also without its end.
func TestLastLine(t *testing.T) {
	b := newBench(t, Options{MaxRestarts: 1, RestartDelay: time.Minute}, me(t, "test", "whole"))
	ch := b.channel().ch
	frame, err := ch.ReadFrame(b.ctx)
	require.NoError(t, err)
	require.Equal(t, `{"jsonrpc":"2.0","method":"notifications/last"}`, string(frame))
	require.Equal(t, "exit status 0", b.closed(ch).Reason)
}

// A server that can not be talked to any more has ended, whether it runs or not.
func TestDeafAndMute(t *testing.T) {
	b := newBench(t, Options{MaxRestarts: 1, RestartDelay: time.Minute}, me(t, "test", "mute"))
	require.Equal(t, "it has closed its standard output", b.closed(b.channel().ch).Reason)
	b.End()
	b = newBench(t, Options{MaxRestarts: 1, RestartDelay: time.Minute}, me(t, "test", "deaf"))
	ch := b.channel().ch
	go func() {
		for ch.WriteFrame(b.ctx, request(1, "initialize", nil)) == nil {
		}
	}()
	require.Equal(t, "it has closed its standard input", b.closed(ch).Reason)
}

// Nothing is left of servers that do not want to end, or that have started others (case 146).
func TestNothingIsLeft(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	wrapped := protocol.MCPServer{ServerKey: "wrapped", Transport: protocol.MCPTransport{Type: "stdio", Command: "sh",
		Args: []string{"-c", program + "; true"}, Env: map[string]string{serverMode: "plain"}}}
	b := newBench(t, Options{}, wrapped, me(t, "stubborn", "stubborn"))
	var pids []string
	for range 2 {
		if o := b.channel(); o.target.ServerKey == "wrapped" {
			c := b.clientOn(o.ch, nil)
			pids = append(pids, b.call(c, "pid", struct{}{}), b.call(c, "fork", struct{}{}))
		}
	}
	begin := time.Now()
	b.End()
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Len(t, pids, 2)
	for _, pid := range pids {
		b.gone(pid)
	}
}

// The brain ends a run by closing its channel: the next one begins, and it counts as no crash.
func TestBrainIsDone(t *testing.T) {
	b := newBench(t, Options{MaxRestarts: 1}, me(t, "test", "plain"))
	var pids []string
	for range 4 {
		ch := b.channel().ch
		c := b.clientOn(ch, nil)
		pids = append(pids, b.call(c, "pid", struct{}{}))
		require.NoError(t, c.Close())
	}
	for _, pid := range pids {
		b.gone(pid)
	}
	require.Equal(t, "on", b.call(b.client(), "echo", echoInput{"on"}))
}

// Messages with line ends in them are one line for the server, and what is no JSON does not reach it. A server
// that nobody reads is held up and loses nothing.
func TestFrames(t *testing.T) {
	b := newBench(t, Options{}, me(t, "cat", "cat"))
	ch := b.channel().ch
	require.NoError(t, ch.WriteFrame(b.ctx, []byte("{\"jsonrpc\": \"2.0\",\r\n\"method\":\t\"a b\"\n}")))
	frame, err := ch.ReadFrame(b.ctx)
	require.NoError(t, err)
	require.Equal(t, `{"jsonrpc":"2.0","method":"a b"}`, string(frame))
	require.NoError(t, ch.WriteFrame(b.ctx, []byte("{\"jsonrpc\":\"2.0\",\"method\":\"caf\xe9\"}")))
	frame, err = ch.ReadFrame(b.ctx)
	require.NoError(t, err)
	require.Equal(t, "{\"jsonrpc\":\"2.0\",\"method\":\"caf\uFFFD\"}", string(frame))
	require.NoError(t, ch.WriteFrame(b.ctx, []byte("{}\n{}")))
	require.NoError(t, ch.WriteFrame(b.ctx, nil))
	const all = 1000
	sent := make(chan error, 1)
	text := strings.Repeat("y", 1000)
	go func() {
		for i := range all {
			if err := ch.WriteFrame(b.ctx, request(i, "m", text)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range all {
		frame, err := ch.ReadFrame(b.ctx)
		require.NoError(t, err)
		require.Equal(t, string(request(i, "m", text)), string(frame), "byte for byte, in order")
	}
	require.NoError(t, <-sent)
}

// What is wrong with a server costs nobody else anything.
func TestStates(t *testing.T) {
	gone := me(t, "gone", "plain")
	gone.Transport.Command = "no-such-program-7"
	outside := me(t, "outside", "plain")
	outside.Transport.Cwd = "/"
	service := me(t, "service", "plain")
	service.ConnectionOrigin = protocol.OriginService
	origin := me(t, "origin", "plain")
	origin.ConnectionOrigin = "elsewhere"
	kind := me(t, "kind", "plain")
	kind.Transport.Type = "studio"
	bare := protocol.MCPServer{ServerKey: "bare", Transport: protocol.MCPTransport{Type: "http"}}
	b := newBench(t, Options{MaxServers: 4, Servers: []protocol.MCPServer{me(t, "good", "crash"), me(t, "local", "cat")}},
		me(t, "good", "plain"), gone, outside, service, origin, kind, bare, me(t, "", "plain"), me(t, "twice", "plain"), me(t, "twice", "plain"),
		protocol.MCPServer{ServerKey: "command", Transport: protocol.MCPTransport{Type: "stdio"}}, me(t, "fourth", "plain"), me(t, "fifth", "plain"))
	states := b.MCP()
	for key, want := range map[string]string{
		"good":    "",
		"fourth":  "",
		"gone":    "mcp_unavailable: start no-such-program-7: command not found",
		"outside": "workspace_boundary: transport.cwd: ",
		"origin":  "invalid_params: mcp_servers.4.connection_origin: elsewhere: want environment or service",
		"kind":    `invalid_params: mcp_servers.5.transport.type: "studio"; did you mean "stdio"?`,
		"bare":    "invalid_params: mcp_servers.6.transport.url: it is missing",
		"":        "invalid_params: mcp_servers.7.server_key: it is empty",
		"twice":   "invalid_params: mcp_servers.9.server_key: twice is there twice",
		"command": "invalid_params: mcp_servers.10.transport.command: it is missing",
		"fifth":   "invalid_params: mcp_servers.12.: 4 servers are started already",
		"local":   "invalid_params: mcp_servers: 4 servers are started already",
	} {
		st, ok := states[key]
		require.True(t, ok, key)
		if delete(states, key); want == "" {
			assert.Equal(t, protocol.MCPState{State: "ready"}, st, key)
			continue
		}
		assert.Equal(t, "failed", st.State, key)
		assert.Contains(t, st.Error.Reason+": "+st.Error.Message, want, key)
	}
	require.Empty(t, states, "one that the brain connects has none")
	b.channel()
	b.channel()
	b.noChannel()
}

// The pinned hash is that of the file that is started.
func TestPin(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	script := filepath.Join(dir, "server")
	write := func(text string) { require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"+text), 0o700)) }
	write("exec " + program + "\n")
	info, err := os.ReadFile(script)
	require.NoError(t, err)
	sum := sum256(info)
	s := protocol.MCPServer{ServerKey: "pinned", Transport: protocol.MCPTransport{Type: "stdio", Command: "server",
		Env: map[string]string{serverMode: "plain", "PATH": dir + ":" + os.Getenv("PATH")}, CommandSHA256: strings.ToUpper(sum)}}
	b := newBench(t, Options{}, s)
	require.Equal(t, protocol.MCPState{State: "ready"}, b.MCP()["pinned"])
	require.Equal(t, "on", b.call(b.client(), "echo", echoInput{"on"}))

	write("touch " + filepath.Join(dir, "ran") + "\n")
	b = newBench(t, Options{}, s)
	st := b.MCP()["pinned"]
	require.Equal(t, "failed", st.State)
	require.Equal(t, "mcp_unavailable", st.Error.Reason)
	require.Contains(t, st.Error.Message, "command_sha256: "+script+" is not the program that is wanted")
	require.NoFileExists(t, filepath.Join(dir, "ran"))
	s.Transport.CommandSHA256 = "abc"
	b = newBench(t, Options{}, s)
	require.Contains(t, b.MCP()["pinned"].Error.Message, "want 64 hexadecimal digits")
}

// A server that the brain names passes the gate like a command; the user's own does not have to.
func TestPermission(t *testing.T) {
	allow := make(chan error)
	var wishes []capabilities.Wish
	ended := make(chan bool, 10)
	deny, ask := me(t, "deny", "plain"), me(t, "ask", "plain")
	ask.Transport.SecretEnv = map[string]string{"DB_KEY": "hidden-value"}
	asked := make(chan struct{}, 10)
	h, opened := newHost(t, Options{})
	c := New(Options{LoginEnv: map[string]string{}, Servers: []protocol.MCPServer{me(t, "local", "plain")}, Grace: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	s := capabilities.NewSession(ctx, capabilities.SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s", MCPServers: []protocol.MCPServer{deny, ask}},
		Workspace: w, Peer: h.Peer, Ask: func(_ *capabilities.Session, q capabilities.Wish) capabilities.Permission {
			asked <- struct{}{}
			if q.ID == "deny" {
				return capabilities.Permission{Refused: protocol.Errorf(protocol.CodeForbidden, "not here")}
			}
			wishes = append(wishes, q)
			return capabilities.Permission{Wait: func(ctx context.Context) error {
				select {
				case err := <-allow:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}, Ended: func(begun bool, _ error) { ended <- begun }}
		}})
	require.NoError(t, c.startSession(ctx, s))
	require.Len(t, asked, 2)
	states := s.MCP()
	require.Equal(t, "ready", states["local"].State)
	require.Equal(t, "forbidden", states["deny"].Error.Reason)
	require.Equal(t, protocol.ReasonConfirmationPending, states["ask"].Error.Reason)
	require.Equal(t, "mcp.start", wishes[0].Name)
	require.Equal(t, []string{ask.Transport.Command}, wishes[0].Effect.Argv)
	raw, err := json.Marshal(wishes)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "hidden-value")
	require.Contains(t, string(raw), "(secret ")

	b := &bench{t: t, ctx: ctx, opened: opened}
	require.Equal(t, "local", b.channel().target.ServerKey)
	b.noChannel()
	allow <- nil
	require.Equal(t, "ask", b.channel().target.ServerKey)
	cancel()
	c.endSession(s)
	require.True(t, <-ended)
	b.noChannel()

	ctx, cancel = context.WithCancel(t.Context())
	b.ctx = ctx
	s = capabilities.NewSession(ctx, capabilities.SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s", MCPServers: []protocol.MCPServer{ask}},
		Workspace: w, Peer: h.Peer, Ask: func(*capabilities.Session, capabilities.Wish) capabilities.Permission {
			return capabilities.Permission{Wait: func(context.Context) error { return protocol.Errorf(protocol.CodeForbidden, "no") },
				Ended: func(begun bool, _ error) { ended <- begun }}
		}})
	require.NoError(t, c.startSession(ctx, s))
	require.Equal(t, "local", b.channel().target.ServerKey)
	require.False(t, <-ended)
	cancel()
	c.endSession(s)
	b.noChannel()
}
