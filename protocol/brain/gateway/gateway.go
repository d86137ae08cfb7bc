// Package gateway gives MCP clients the tools of executors: each client session has
// sessions of its own on the executors, and a tools/call becomes a tool.call there.
// The smallest use, an MCP server on standard input and output:
//
//	b := brain.New(brain.Options{Authenticate: checkToken})
//	go http.ListenAndServe("127.0.0.1:8080", b)
//
//	g := gateway.New(b, gateway.Options{})
//	defer g.Close()
//	err := g.Serve(ctx, gateway.Lines(os.Stdin, os.Stdout))
//
// Its parts: client.go is one client session, hand.go its place on one executor;
// table.go and names.go say which tools there are, tools.go what they look like;
// call.go is a tools/call, progress.go what is told while it runs; resources.go and
// fileuri.go read files; passthrough.go gives what MCP servers of the executor's machine
// have, with offers.go for their lists, checked.go and fault.go for what is wrong with what
// they say, serveruri.go for the names of their resources, ended.go for those that are gone;
// lines.go is the transport of a pipe and http.go the one of streamable HTTP, ids.go and
// httpids.go look at the ids that come over them.
//
// What it promises: a client session that ends, however that happens, leaves nothing
// running on an executor. A call goes on over reconnects of the executor, runs once,
// and is cancelled there when the client cancels it. Tools come and go with their
// executors; one that is away keeps its tools for Options.Grace.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol/brain"
)

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("gateway is closed")

// Options of a Gateway; zero fields are defaults.
type Options struct {
	Executor string // id or name of the only executor whose tools are given; "" for all
	Name     string // the MCP server's name (default "executor")
	Version  string // and its version (default "devel")

	// Grace is how long an executor that is away keeps its tools, and how long a call
	// that has not begun waits for it (default 30 s).
	Grace time.Duration
	// Patience is how long a call that has begun waits for an executor that is away
	// (default 2 min). After that it is answered with an error that says that nobody
	// knows what became of it. It is well above what a reconnect takes, and below what
	// clients wait for.
	Patience time.Duration
	// Answer is how long an MCP server of an executor's machine may neither answer a call nor
	// tell its progress (default 10 min). Then the call has failed, for its client; the server
	// is told that it is cancelled, and goes on.
	Answer time.Duration
	// Wait is how long the first tools/list of a client waits for an executor when
	// there is none (default 5 s): many clients ask for the tools only once.
	Wait time.Duration

	// Eager assigns a client's sessions as soon as it is initialized, not when they are
	// first needed.
	Eager bool
	// NoServers leaves out the MCP servers of the executors' machines.
	NoServers bool

	MaxCalls         int   // at once for each client and executor; others wait (default 32)
	MaxClients       int   // sessions over HTTP at once (default 256)
	MaxResourceBytes int64 // of one file that is read (default 4 MiB)

	Logger *zap.Logger // default: none
}

const (
	assignLimit  = time.Minute      // for a session to begin
	fullWait     = 3 * time.Second  // for an executor that has as many as it takes
	stopTimeout  = 5 * time.Second  // for the sessions of a client that is gone
	lostTimeout  = 2 * time.Second  // for a transport that takes no more
	cancelLimit  = 15 * time.Second // for a cancel on its way
	maxNameBytes = 64               // of a tool's name, which clients accept
)

// Gateway gives MCP clients what the executors of a Brain can do. Its methods may be
// called concurrently; whoever made it ends it with Close.
type Gateway struct {
	b    *brain.Brain
	opts Options
	log  *zap.Logger

	ctx    context.Context // ends with the Gateway
	cancel context.CancelFunc
	stops  context.Context // of the ends of sessions, a little later
	giveUp context.CancelFunc
	work   sync.WaitGroup // clients, and the ends of sessions that nobody waits for

	mu     sync.Mutex
	closed bool
	last   *table
	https  []*HTTP
}

// New makes a Gateway for the executors of b. It starts nothing.
func New(b *brain.Brain, o Options) *Gateway {
	o.Name = cmp.Or(o.Name, "executor")
	o.Version = cmp.Or(o.Version, "devel")
	o.Grace = cmp.Or(o.Grace, 30*time.Second)
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	o.Answer = cmp.Or(o.Answer, 10*time.Minute)
	o.Wait = cmp.Or(o.Wait, 5*time.Second)
	o.MaxCalls = cmp.Or(o.MaxCalls, 32)
	o.MaxClients = cmp.Or(o.MaxClients, 256)
	o.MaxResourceBytes = cmp.Or(o.MaxResourceBytes, 4<<20)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	g := &Gateway{b: b, opts: o, log: o.Logger}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.stops, g.giveUp = context.WithCancel(context.Background())
	return g
}

func (g *Gateway) implementation() *mcp.Implementation {
	return &mcp.Implementation{Name: g.opts.Name, Version: g.opts.Version}
}

// Serve serves one client until it has gone or ctx is done, and returns when its calls
// and its sessions on executors have ended. The error says why the transport has failed;
// nil when the client has closed it or ctx was done.
func (g *Gateway) Serve(ctx context.Context, t mcp.Transport) error {
	c, err := g.newClient()
	if err != nil {
		return err
	}
	defer c.close()
	return c.serve(ctx, t)
}

// Close ends every client and returns when all has ended. It may be called twice.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	timer := time.AfterFunc(stopTimeout, g.giveUp)
	g.work.Wait()
	timer.Stop()
	g.giveUp()
	return nil
}

// makesRoom ends the session of a client over HTTP that is idle: an executor takes no more
// sessions, and clients that crash, or are done, do not say goodbye.
func (g *Gateway) makesRoom() bool {
	g.mu.Lock()
	https := slices.Clone(g.https)
	g.mu.Unlock()
	return slices.ContainsFunc(https, (*HTTP).makesRoom)
}

// enter says that something of the Gateway's has begun, which ends with g.work.Done;
// false when the Gateway is closed.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.work.Add(1)
	return true
}
