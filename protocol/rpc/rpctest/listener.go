package rpctest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"

	"github.com/agent-executor/executor/protocol/rpc"
)

// Listener is a net.Listener in memory. Its methods may be called concurrently;
// whoever made it closes it.
type Listener struct {
	queue chan *Conn
	done  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	conns   map[*Conn]struct{} // the dialling ends
	stalled bool
}

// Listen makes a listener that takes connections at once.
func Listen() *Listener {
	return &Listener{queue: make(chan *Conn), done: make(chan struct{}), conns: map[*Conn]struct{}{}}
}

// Accept waits for the next Dial.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections; those there are go on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a name that is no address.
func (l *Listener) Addr() net.Addr { return addr("listener") }

// Dial connects to whoever accepts next. It returns a *Conn. After Close the
// connection is refused.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	near, far := NetPipe()
	l.mu.Lock()
	near.Stall(l.stalled)
	l.conns[near] = struct{}{}
	near.onClose = func() {
		l.mu.Lock()
		delete(l.conns, near)
		l.mu.Unlock()
	}
	l.mu.Unlock()
	var err error
	select {
	case <-l.done:
		err = fmt.Errorf("dial %s: %w", l.Addr(), syscall.ECONNREFUSED)
	default:
		select {
		case l.queue <- far:
			return near, nil
		case <-l.done:
			err = fmt.Errorf("dial %s: %w", l.Addr(), syscall.ECONNREFUSED)
		case <-ctx.Done():
			err = fmt.Errorf("dial %s: %w", l.Addr(), ctx.Err())
		}
	}
	_ = near.Close()
	return nil, err
}

// NetDial is Dial with the arguments of rpc.DialOptions.NetDial, which it ignores.
func (l *Listener) NetDial(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }

// DialOptions are those that make rpc.Dial come here, whatever the URL's host,
// without a look at the environment's proxies.
func (l *Listener) DialOptions() rpc.DialOptions {
	return rpc.DialOptions{
		NetDial: l.NetDial,
		Proxy:   func(*http.Request) (*url.URL, error) { return nil, nil },
	}
}

// Cut resets every connection there is, as if the cable was cut and both
// machines noticed at once.
func (l *Listener) Cut() {
	for _, c := range l.live() {
		c.Cut()
	}
}

// Stall stops the bytes of every connection, those there are and those to come,
// or lets them go on. Nothing is closed and nothing is lost.
func (l *Listener) Stall(on bool) {
	l.mu.Lock()
	l.stalled = on
	l.mu.Unlock()
	for _, c := range l.live() {
		c.Stall(on)
	}
}

func (l *Listener) live() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		list = append(list, c)
	}
	return list
}

type addr string

func (a addr) Network() string { return "memory" }
func (a addr) String() string  { return string(a) }
