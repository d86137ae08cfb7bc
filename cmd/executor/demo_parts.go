package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// cutter is a listener that can cut all connections it has accepted.
type cutter struct {
	net.Listener

	mu       sync.Mutex
	conns    []net.Conn
	accepted int
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.accepted++
		c.mu.Unlock()
	}
	return conn, err
}

// count is how many connections there have been.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted
}

// cut closes all connections without a word, as a network that breaks does.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.conns)
	for _, conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	c.conns = nil
	return n
}

// countedResults counts how often each result arrives.
type countedResults struct {
	once  sync.Once
	kept  *brain.MemoryResults
	times sync.Map // tool_call_id → *atomic.Int64
}

func (r *countedResults) Put(ctx context.Context, result protocol.ToolResultParams) (bool, error) {
	r.once.Do(func() { r.kept = brain.NewMemoryResults(0) })
	n, _ := r.times.LoadOrStore(result.ToolCallID, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return r.kept.Put(ctx, result)
}

func (r *countedResults) arrived(id string) int64 {
	n, ok := r.times.Load(id)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

// lockedBuffer keeps the log for the case that something fails.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
