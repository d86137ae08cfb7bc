package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol/brain"
)

// client is one MCP session with what it has on the executors.
type client struct {
	g      *Gateway
	id     string
	server *mcp.Server

	ctx     context.Context // ends when the client goes; every call with it
	cancel  context.CancelFunc
	work    sync.WaitGroup // what it has begun
	running atomic.Int64   // calls

	mu     sync.Mutex
	closed bool
	hands  map[*brain.Executor]*hand

	applying           sync.Mutex        // taken before mu
	told               map[string]*tool  // the tools that the server has
	places             map[string]member // the templates of files that it has
	prompts, resources map[string]any    // those of other servers that it has
}

// newClient makes a client session. It ends with close.
func (g *Gateway) newClient() (*client, error) {
	if !g.enter() {
		return nil, ErrClosed
	}
	c := &client{g: g, id: rand.Text(), hands: map[*brain.Executor]*hand{}, told: map[string]*tool{}, places: map[string]member{},
		prompts: map[string]any{}, resources: map[string]any{}}
	c.ctx, c.cancel = context.WithCancel(g.ctx)
	now := g.table()
	c.server = mcp.NewServer(g.implementation(), &mcp.ServerOptions{
		Instructions: instructions(now),
		GetSessionID: func() string { return c.id },
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) {
			if g.opts.Eager {
				c.warm()
			}
		},
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{ListChanged: true},
			Prompts:   &mcp.PromptCapabilities{ListChanged: true},
		},
	})
	c.server.AddReceivingMiddleware(emptyTexts, c.receive)
	c.apply(now)
	c.goes(c.follow)
	return c, nil
}

// instructions say to a model where the tools work.
func instructions(t *table) string {
	var b strings.Builder
	b.WriteString("These tools run commands and change files on a machine that is connected by an executor. " +
		"Relative paths are in its workspace; a shell keeps its directory and variables from call to call.")
	for _, m := range t.members {
		info := m.x.Info()
		fmt.Fprintf(&b, " Machine %s: %s/%s", cmp.Or(m.prefix, info.Name, "without name"), info.OS, info.Arch)
		if len(m.roots) > 0 {
			fmt.Fprintf(&b, ", workspace %s", m.roots[0])
		}
		b.WriteString(".")
	}
	return b.String()
}

// metadata goes with the client's sessions.
func (c *client) metadata() map[string]string {
	m := map[string]string{"gateway_client": c.id}
	for ss := range c.server.Sessions() {
		if p := ss.InitializeParams(); p != nil && p.ClientInfo != nil {
			name := p.ClientInfo.Name
			m["client_name"] = name[:min(len(name), 100)]
		}
	}
	return m
}

// warm assigns sessions that will be needed.
func (c *client) warm() {
	for _, m := range c.g.table().members {
		h := c.hand(m.x)
		c.goes(func() { _, _ = h.get(c.ctx) })
	}
}

// goes runs f on a goroutine that close waits for; false when the client is gone.
func (c *client) goes(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(f)
	return true
}

// serve runs the session over t until the client has gone or ctx is done.
func (c *client) serve(ctx context.Context, t mcp.Transport) error {
	kept := &kept{Transport: t}
	ss, err := c.server.Connect(ctx, kept, nil)
	if err != nil {
		return fmt.Errorf("connect the client: %w", err)
	}
	c.g.log.Info("client connected", zap.String("client", c.id))
	gone := make(chan error, 1)
	go func() { gone <- ss.Wait() }()
	select {
	case err = <-gone:
	case <-ctx.Done():
		c.hangUp(kept, ss, gone)
	case <-c.g.ctx.Done():
		c.hangUp(kept, ss, gone)
		err = ErrClosed
	}
	c.cancel()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	c.g.log.Info("client gone", zap.String("client", c.id), zap.Error(err))
	return err
}

// hangUp ends the session from here. One that takes no answers is cut off.
func (c *client) hangUp(t *kept, ss *mcp.ServerSession, gone <-chan error) {
	c.cancel() // the calls
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = ss.Close()
	}()
	timer := time.NewTimer(lostTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		_ = t.conn.Close()
		<-closed
	}
	<-gone
}

// kept remembers the connection that a transport has made.
type kept struct {
	mcp.Transport
	conn mcp.Connection
}

func (k *kept) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	k.conn = conn
	return conn, err
}

// close ends what the client has. Sessions on an executor that is away are ended when it
// comes back, which nobody waits for.
func (c *client) close() {
	defer c.g.work.Done()
	c.mu.Lock()
	c.closed = true
	hands := c.hands
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	stopped := make(chan struct{})
	var stopping sync.WaitGroup
	for _, h := range hands {
		c.g.work.Add(1) // behind that of this client
		stopping.Go(func() {
			defer c.g.work.Done()
			h.end(c.g.stops)
		})
	}
	go func() {
		stopping.Wait()
		close(stopped)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
	}
}

// hand is the client's place on an executor.
func (c *client) hand(x *brain.Executor) *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hands[x]
	if h == nil {
		h = &hand{c: c, x: x, slots: make(chan struct{}, c.g.opts.MaxCalls)}
		c.hands[x] = h
	}
	return h
}

// follow keeps the client's tools as the executors' are. The server tells the client.
func (c *client) follow() {
	for {
		t := c.g.table()
		c.apply(t)
		var until <-chan time.Time
		stop := func() bool { return true }
		if !t.until.IsZero() {
			timer := time.NewTimer(time.Until(t.until))
			until, stop = timer.C, timer.Stop
		}
		select {
		case <-t.changed:
		case <-until:
		case <-c.ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// apply makes the server's tools those of the table.
func (c *client) apply(t *table) {
	c.applying.Lock()
	defer c.applying.Unlock()
	want := maps.Clone(t.tools)
	for _, p := range c.passages(t) {
		p.addTools(want, p.prefix)
	}
	var gone []string
	for name := range c.told {
		if want[name] == nil {
			gone = append(gone, name)
			delete(c.told, name)
		}
	}
	if len(gone) > 0 {
		c.server.RemoveTools(gone...)
	}
	for name, one := range want {
		if c.told[name] == one {
			continue
		}
		c.told[name] = one
		handle := one.handle
		if handle == nil {
			handle = c.handler(one)
		}
		if err := add(c.server, one.shown, handle); err != nil {
			c.g.log.Warn("tool of an executor is left out", zap.String("executor", one.x.ID()), zap.String("tool", one.name), zap.Error(err))
			c.server.RemoveTools(name)
		}
	}
	c.applyFiles(t)
	c.applyOthers(t)
}

// placed is a server with the prefix of its executor's tools.
type placed struct {
	*passage
	prefix string
}

// passages are the servers of the executors in the table, in the order of these.
func (c *client) passages(t *table) (all []placed) {
	for _, m := range t.members {
		c.mu.Lock()
		h := c.hands[m.x]
		c.mu.Unlock()
		if h == nil {
			continue
		}
		for _, p := range h.servers() {
			all = append(all, placed{p, m.prefix})
		}
	}
	return all
}

// session is the client's MCP session; nil before it is connected.
func (c *client) session() *mcp.ServerSession {
	for ss := range c.server.Sessions() {
		return ss
	}
	return nil
}

// codeCancelled is the code of what was cancelled, or ended with its client; it is the one
// of other protocols on JSON-RPC, since MCP has none.
const codeCancelled = -32800

// receive looks at requests before the library does. An error has a code.
func (c *client) receive(next mcp.MethodHandler) mcp.MethodHandler {
	handle := c.handle(next)
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, err := handle(ctx, method, req)
		var e *jsonrpc.Error
		if err == nil || errors.As(err, &e) && e.Code != 0 {
			return r, err
		}
		code := int64(jsonrpc.CodeInternalError)
		switch {
		case ctx.Err() != nil:
			code = codeCancelled
		case method == "initialize": // a second one
			code = jsonrpc.CodeInvalidRequest
		}
		return nil, &jsonrpc.Error{Code: code, Message: err.Error()}
	}
}

func (c *client) handle(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ListToolsRequest:
			c.waitForTools(ctx)
		case *mcp.CallToolRequest:
			if err := c.rename(ctx, r.Params); err != nil {
				return nil, err
			}
		case *mcp.ReadResourceRequest:
			var back func(mcp.Result)
			r.Params.URI, back = c.local(r.Params.URI)
			result, err := next(ctx, method, req)
			back(result)
			return result, err
		case *mcp.ListResourcesRequest:
			known, err := next(ctx, method, req)
			if err != nil || r.Params != nil && r.Params.Cursor != "" {
				return known, err
			}
			return c.listResources(ctx, known)
		}
		return next(ctx, method, req)
	}
}

// waitForTools waits a little when there are none.
func (c *client) waitForTools(ctx context.Context) {
	timer := time.NewTimer(c.g.opts.Wait)
	defer timer.Stop()
	for {
		t := c.g.table()
		if len(t.members) > 0 {
			for _, m := range t.members {
				c.hand(m.x).passed(ctx)
			}
			c.apply(t)
			return
		}
		select {
		case <-t.changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// rename finds the tool that is meant by a name without an executor's.
func (c *client) rename(ctx context.Context, p *mcp.CallToolParamsRaw) error {
	t := c.g.table()
	c.apply(t)
	if c.knows(p.Name) {
		return nil
	}
	meant := t.plain[p.Name]
	switch {
	case len(meant) == 1:
		p.Name = meant[0].shown.Name
		return nil
	case len(meant) > 1:
		var names []string
		for _, m := range meant {
			names = append(names, m.shown.Name)
		}
		slices.Sort(names)
		return invalid("tool %q is on several executors; name one of %s", p.Name, strings.Join(names, ", "))
	case len(t.tools) == 0:
		return invalid("tool %q is not there: %s", p.Name, c.g.missing())
	}
	// One that has a prefix although there is one executor now.
	for name, one := range t.tools {
		if prefix, plain, ok := strings.Cut(p.Name, separator); ok && plain == one.plain && prefix == safeName(one.x.Info().Name, maxNameBytes/2) {
			p.Name = name
			return nil
		}
	}
	for _, m := range t.members { // the tool of a server that nobody has asked for yet
		c.hand(m.x).passed(ctx)
	}
	c.apply(t)
	return c.whyNot(t, p.Name)
}

// missing says why there is no executor.
func (g *Gateway) missing() string {
	if g.opts.Executor == "" {
		return "no executor is connected"
	}
	var names []string
	for _, x := range g.b.Executors() {
		if x.Connected() {
			names = append(names, cmp.Or(x.Info().Name, x.ID()))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("executor %q is not connected, nor is any other", g.opts.Executor)
	}
	slices.Sort(names)
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "and others")
	}
	return fmt.Sprintf("executor %q is not connected; connected are %s", g.opts.Executor, strings.Join(names, ", "))
}

// maxNamed is how many executors an error names.
const maxNamed = 20

// knows says whether the server has a tool of that name.
func (c *client) knows(name string) bool {
	c.applying.Lock()
	defer c.applying.Unlock()
	return c.told[name] != nil
}

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
