package gateway

//lint:file-ignore SA1019 what newer versions of MCP leave out is passed on for the others

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// The MCP servers of an executor's machine are passed through: their tools are called
// SERVER__TOOL, and what they ask their client for is asked from the gateway's client.
// offers.go asks what a server has, checked.go and fault.go look at its answers,
// serveruri.go says what its resources are called, ended.go why it is not there.

const (
	sessionWait = 10 * time.Second // of tools/list, for the session that its servers are started in
	serversWait = 3 * time.Second  // and then for servers that are starting: what is late is told of
	serverLimit = 30 * time.Second // for a server to be initialized and to say what it has
	serverTries = 5                // in a row that may fail before a server is given up
	// serverVersion is the newest in which a server can ask its client for something.
	serverVersion = "2025-11-25"
)

// passage is one server of one session of a client.
type passage struct {
	h       *hand
	session *brain.Session
	key     string
	since   time.Time
	first   chan struct{} // closed when it is known what it has, or that it has failed
	once    sync.Once

	mu        sync.Mutex
	server    *mcp.ClientSession // nil: it does not run
	ready     bool               // it is known what it has
	ended     error              // why it does not run again
	tools     []*mcp.Tool
	prompts   []*mcp.Prompt
	resources []*mcp.Resource
	shown     map[*mcp.Tool]*tool // made of tools, at the last look
	listens   map[string]func(*mcp.ProgressNotificationParams)
}

// pass begins with the servers of a session that is new.
func (h *hand) pass(s *brain.Session) {
	if h.c.g.opts.NoServers {
		return
	}
	states := s.MCPServers()
	var all []*passage
	for _, key := range slices.Sorted(maps.Keys(states)) {
		p := &passage{h: h, session: s, key: key, since: time.Now(), first: make(chan struct{}), listens: map[string]func(*mcp.ProgressNotificationParams){}}
		if e := states[key].Error; e != nil {
			h.c.g.log.Warn("server of an executor is not there", zap.String("server", key), zap.String("reason", e.Reason))
			p.finish(errors.New(e.Message))
			all = append(all, p)
			continue
		}
		if h.c.goes(p.run) {
			all = append(all, p)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passages = all
}

// passed waits a little until it is known what the servers have.
func (h *hand) passed(ctx context.Context) {
	var mcp protocol.MCPDetails
	if ok, err := h.x.Capabilities().Get(protocol.CapabilityMCP, &mcp); !ok || err != nil || len(mcp.Servers) == 0 || h.c.g.opts.NoServers || !h.x.Connected() {
		return // a session is not assigned for nothing
	}
	limit, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	if _, err := h.get(limit); err != nil {
		return
	}
	for _, p := range h.servers() {
		if p.wait(ctx) != nil {
			return
		}
	}
}

// wait waits until it is known what the server has, or it is late. The error is ctx's.
func (p *passage) wait(ctx context.Context) error {
	late := time.NewTimer(time.Until(p.since.Add(serversWait)))
	defer late.Stop()
	select {
	case <-p.first:
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (h *hand) servers() []*passage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passages
}

// run talks to one run of the server after another until the session has ended, or the
// server has for good.
func (p *passage) run() {
	var err error
	defer func() { p.finish(err) }()
	log := p.h.c.g.log.With(zap.String("server", p.key), zap.String("session", p.session.ID()))
	for failed := 0; failed < serverTries; {
		err = p.visit()
		if p.h.c.ctx.Err() != nil || p.session.Err() != nil {
			return
		}
		var refused *protocol.Error
		switch {
		case err == nil:
			failed = 0
			log.Info("server of an executor has ended")
		case errors.As(err, &refused) && (refused.Code == protocol.CodeMCPUnavailable || refused.Code == protocol.CodeNotFound):
			log.Warn("server of an executor cannot be had", zap.Error(err))
			return
		default:
			failed++
			log.Warn("server of an executor has failed", zap.Error(err))
		}
		p.once.Do(func() { close(p.first) })
	}
}

// visit is one run of the server. nil when it was there, and has ended.
func (p *passage) visit() error {
	ctx := p.h.c.ctx
	limit, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	o := newOffers(p)
	server, err := p.client(o).Connect(limit, &checked{p.session.MCP(p.key), p.key, p.h.c.g.log.With(zap.String("server", p.key))}, &mcp.ClientSessionOptions{ProtocolVersion: serverVersion})
	if err != nil {
		return err
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	p.start(server)
	defer p.start(nil)
	for k := range kinds {
		err := o.look(limit, server, k)
		switch {
		case err == nil:
		case k == toolList:
			return err
		default: // its tools are there still
			p.h.c.g.log.Warn("server of an executor does not say what it has", zap.String("server", p.key), zap.Error(err))
		}
	}
	o.looked(server)
	cancel()
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	p.once.Do(func() { close(p.first) })
	_ = server.Wait()
	return nil
}

// start makes server the one that runs; nil: none does, and what there was is gone.
func (p *passage) start(server *mcp.ClientSession) {
	p.mu.Lock()
	p.server, p.tools, p.prompts, p.resources, p.shown, p.ready = server, nil, nil, nil, map[*mcp.Tool]*tool{}, false
	p.mu.Unlock()
	if server == nil {
		p.h.c.apply(p.h.c.g.table())
	}
}

// addTools adds the server's tools to those that clients see; prefix is the executor's.
func (p *passage) addTools(to map[string]*tool, prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.shown
	p.shown = map[*mcp.Tool]*tool{}
	var own []string
	for _, t := range p.tools {
		own = append(own, t.Name)
	}
	for i, name := range p.names(prefix, own, func(name string) bool { return to[name] != nil }) {
		if name == "" {
			continue
		}
		t := p.tools[i]
		one := before[t]
		if one == nil || one.plain != name {
			copied := *t
			copied.Name = name
			one = &tool{shown: &copied, plain: name, x: p.h.x, name: t.Name, handle: p.handler(p.server, t.Name)}
		}
		p.shown[t], to[name] = one, one
	}
}

// names are those that clients see instead of the server's own; prefix is the executor's.
func (p *passage) names(prefix string, own []string, taken func(string) bool) []string {
	key := safeName(p.key, maxNameBytes/2)
	return differing(own, p.key, taken, func(name string) string {
		full := joined(key, safeName(name, maxNameBytes))
		if prefix != "" {
			full = joined(prefix, full)
		}
		return full
	})
}

// errUnanswered ends a call that a server leaves alone.
var errUnanswered = errors.New("the server does not answer")

// handler passes a call on, with its progress and its cancellation.
func (p *passage) handler(server *mcp.ClientSession, name string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := p.h.c
		c.running.Add(1)
		defer c.running.Add(-1)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.ctx, func() { cancel(nil) })()
		late := time.AfterFunc(c.g.opts.Answer, func() { cancel(errUnanswered) })
		defer late.Stop()
		params := &mcp.CallToolParams{Name: name, Arguments: req.Params.Arguments}
		if len(req.Params.Arguments) == 0 || string(req.Params.Arguments) == "null" {
			params.Arguments = json.RawMessage(`{}`)
		}
		if token := req.Params.GetProgressToken(); token != nil {
			ours := uuid.NewString()
			stop := p.listen(ours, func(n *mcp.ProgressNotificationParams) {
				late.Reset(c.g.opts.Answer)
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: n.Message, Progress: n.Progress, Total: n.Total})
			})
			defer stop()
			params.SetProgressToken(ours)
		}
		r, err := server.CallTool(ctx, params)
		var refused *jsonrpc.Error
		switch {
		case err == nil:
			return r, nil
		case errors.Is(context.Cause(ctx), errUnanswered):
			return &mcp.CallToolResult{IsError: true, Meta: mcp.Meta{metaReason: protocol.CodeTimeout.String()}, Content: []mcp.Content{&mcp.TextContent{
				Text: fmt.Sprintf("%s: server %s has neither answered nor told any progress for %v; what became of the call is not known", name, p.key, c.g.opts.Answer)}}}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &refused):
			return nil, refused
		}
		return &mcp.CallToolResult{IsError: true, Meta: mcp.Meta{metaReason: protocol.CodeMCPUnavailable.String()}, Content: []mcp.Content{&mcp.TextContent{
			Text: fmt.Sprintf("%s: server %s ended before it answered; what became of the call is not known (%v)", name, p.key, err)}}}, nil
	}
}

func (p *passage) listen(token string, f func(*mcp.ProgressNotificationParams)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listens[token] = f
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listens, token)
	}
}

// client is what the server talks to. It can what the gateway's client can.
func (p *passage) client(of *offers) *mcp.Client {
	c := p.h.c
	o := &mcp.ClientOptions{
		Capabilities:               &mcp.ClientCapabilities{},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { of.changed(toolList) },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { of.changed(promptList) },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { of.changed(resourceList) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			token, _ := r.Params.ProgressToken.(string)
			p.mu.Lock()
			f := p.listens[token]
			p.mu.Unlock()
			if f != nil {
				f(r.Params)
			}
		},
	}
	user := c.session()
	if user == nil || user.InitializeParams() == nil || user.InitializeParams().Capabilities == nil || user.InitializeParams().ProtocolVersion > serverVersion {
		return mcp.NewClient(c.g.implementation(), o)
	}
	can := user.InitializeParams().Capabilities
	if can.Sampling != nil {
		o.CreateMessageWithToolsHandler = func(ctx context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return user.CreateMessageWithTools(ctx, r.Params)
		}
		o.Capabilities.Sampling = can.Sampling
	}
	if can.Elicitation != nil {
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return user.Elicit(ctx, r.Params)
		}
		o.Capabilities.Elicitation = can.Elicitation
	}
	o.Capabilities.RootsV2 = can.RootsV2
	client := mcp.NewClient(c.g.implementation(), o)
	if can.RootsV2 != nil {
		client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method == "roots/list" {
					return user.ListRoots(ctx, nil)
				}
				return next(ctx, method, req)
			}
		})
	}
	return client
}
