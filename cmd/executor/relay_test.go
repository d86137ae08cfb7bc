package main

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// relay is a piece of network between an executor and a brain, over real sockets, that
// can be made to fail in the ways networks do. Its methods may be called concurrently.
type relay struct {
	listener net.Listener
	to       string // where it passes connections on to
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    relayMode
	changed chan struct{} // closed when mode changes
	conns   map[net.Conn]struct{}
}

// relayMode is what happens to the bytes.
type relayMode int

const (
	relayPasses   relayMode = iota
	relayStalls             // nothing is read and nothing is closed: it goes on later, and nothing is lost
	relayCrawls             // a few kilobytes a second
	relaySwallows           // a black hole: bytes are taken and lost, new connections too
)

const relayCrawl = 20 << 10 // bytes in a second

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{listener: l, to: to, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.set(relayPasses)
		r.cut()
		r.running.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.DialTimeout("tcp", r.to, time.Second)
		if err != nil { // the brain is away
			_ = near.Close()
			continue
		}
		r.mu.Lock()
		r.conns[near], r.conns[far] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.running.Go(func() { r.pass(near, far) })
		r.running.Go(func() { r.pass(far, near) })
	}
}

// pass is one direction of one connection. A black hole loses bytes, and with them the
// connection: whoever opens one cuts when it ends.
func (r *relay) pass(from, to net.Conn) {
	defer r.drop(from)
	defer r.drop(to)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		mode := r.flowing(from)
		switch mode {
		case relaySwallows:
			continue
		case relayCrawls:
			<-time.After(time.Duration(n) * time.Second / relayCrawl)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// flowing waits while the relay stalls, and returns what it does then.
func (r *relay) flowing(c net.Conn) relayMode {
	for {
		r.mu.Lock()
		mode, changed := r.mode, r.changed
		_, open := r.conns[c]
		r.mu.Unlock()
		if mode != relayStalls || !open {
			return mode
		}
		<-changed
	}
}

func (r *relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

func (r *relay) set(m relayMode) {
	r.mu.Lock()
	r.mode = m
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

// cut resets all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
		delete(r.conns, c)
	}
	close(r.changed) // whoever waits finds its connection gone
	r.changed = make(chan struct{})
}

// heal ends whatever is wrong.
func (r *relay) heal() {
	r.mu.Lock()
	lost := r.mode == relaySwallows
	r.mu.Unlock()
	r.set(relayPasses)
	if lost {
		r.cut()
	}
}

func TestRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	r := newRelay(t, l.Addr().String())
	pair := func() (near, far net.Conn) {
		near, err := net.Dial("tcp", r.addr())
		require.NoError(t, err)
		far, err = l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		return near, far
	}
	arrives := func(c net.Conn, within time.Duration) string {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
		buf := make([]byte, 10)
		n, _ := c.Read(buf)
		return string(buf[:n])
	}
	near, far := pair()
	_, err = near.Write([]byte("a"))
	require.NoError(t, err)
	require.Equal(t, "a", arrives(far, 5*time.Second))

	r.set(relayStalls)
	_, err = far.Write([]byte("b"))
	require.NoError(t, err)
	require.Empty(t, arrives(near, 20*time.Millisecond))
	r.heal()
	require.Equal(t, "b", arrives(near, 5*time.Second))

	r.set(relaySwallows)
	_, err = near.Write([]byte("c"))
	require.NoError(t, err)
	require.Empty(t, arrives(far, 20*time.Millisecond))
	r.heal()
	_, err = near.Read(make([]byte, 1))
	require.Error(t, err)

	near, far = pair()
	r.set(relayCrawls)
	_, err = near.Write([]byte("d"))
	require.NoError(t, err)
	require.Equal(t, "d", arrives(far, 5*time.Second))
	r.cut()
	_, err = far.Read(make([]byte, 1))
	require.Error(t, err)
}
