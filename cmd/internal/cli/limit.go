package cli

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limit bounds the connections of an HTTP server. A connection whose request is being
// answered keeps its place; any other, one that has sent half a request too, makes room
// for a newer one when all places are taken, the one that has been idle for longest
// first: who opens connections and says nothing keeps nobody out. While all of them are
// answered, further ones wait to be accepted.
//
//	limit := &cli.Limit{Max: 64}
//	server := limit.Guard(&http.Server{…})
//	err := server.Serve(limit.Listen(l))
//
// The fields are not changed after Guard. Its methods may be called concurrently.
type Limit struct {
	Max int // connections at once
	// Few tells those that have only MaxFew of the places, among themselves, and are closed
	// at once when all of these are being answered; nil for none. It is asked once for each
	// connection, before anything is read from it.
	Few    func(net.Conn) bool
	MaxFew int

	mu    sync.Mutex
	conns map[*limitedConn]struct{}
	freed chan struct{} // closed when a connection ends or becomes idle; nil while nobody waits
}

type limitedConn struct {
	net.Conn
	limit *Limit
	few   bool

	// Under the mutex of limit:
	busy bool      // its request is being answered
	gone bool      // it has no place any more
	idle time.Time // since when it is not busy
}

// Guard makes the limit see what a server does with its connections, and returns the
// server. The server's Handler, ConnContext and ConnState are set before, or not at all.
func (x *Limit) Guard(server *http.Server) *http.Server {
	context0, state0, handler := server.ConnContext, server.ConnState, server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if context0 != nil {
			ctx = context0(ctx, c)
		}
		return context.WithValue(ctx, limitKey{}, c)
	}
	server.ConnState = func(c net.Conn, s http.ConnState) {
		if state0 != nil {
			state0(c, s)
		}
		if c, ok := c.(*limitedConn); ok && s == http.StateIdle { // the answer is written
			c.rest()
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(limitKey{}).(*limitedConn); ok && !c.work() {
			panic(http.ErrAbortHandler) // its place was given away: nothing is done for it
		}
		handler.ServeHTTP(w, r)
	})
	return server
}

type limitKey struct{}

// Listen is l with the limit. It may be called for several listeners, which share it.
func (x *Limit) Listen(l net.Listener) net.Listener {
	return &limitListener{Listener: l, limit: x, done: make(chan struct{})}
}

type limitListener struct {
	net.Listener
	limit *Limit
	done  chan struct{}
	once  sync.Once
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &limitedConn{Conn: c, limit: l.limit, few: l.limit.Few != nil && l.limit.Few(c)}
		for {
			full, again := l.limit.enter(conn)
			if full == nil {
				return conn, nil
			}
			if conn.few {
				_ = c.Close()
				break
			}
			select {
			case <-full:
			case <-time.After(again):
			case <-l.done:
				_ = c.Close()
				return nil, net.ErrClosed
			}
		}
	}
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// enter gives a connection a place, if need be that of an idle one, which is closed. When
// there is none, it returns what is closed when it is worth trying again, and after how
// long it is worth it too.
func (x *Limit) enter(c *limitedConn) (full <-chan struct{}, again time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.conns == nil {
		x.conns = map[*limitedConn]struct{}{}
	}
	among, idle, most := 0, 0, x.Max
	if c.few {
		most = x.MaxFew
	}
	var oldest *limitedConn
	for other := range x.conns {
		if c.few && !other.few {
			continue
		}
		among++
		if other.busy {
			continue
		}
		idle++
		if oldest == nil || other.idle.Before(oldest.idle) {
			oldest = other
		}
	}
	if among >= most || len(x.conns) >= x.Max { // the second: one of the few, the others have all places
		again = time.Hour
		if oldest != nil {
			again = 0
			// Where half of them are being answered, an idle one has just come, and its request comes too.
			if !c.few && idle*2 <= most {
				again = oldest.idle.Add(limitGrace).Sub(now)
			}
		}
		if again > 0 {
			if x.freed == nil {
				x.freed = make(chan struct{})
			}
			return x.freed, again
		}
		x.drop(oldest)
		_ = oldest.Conn.Close()
	}
	c.idle = now
	x.conns[c] = struct{}{}
	return nil, 0
}

// limitGrace is how long an idle connection keeps its place at least, while half of the
// others are being answered.
const limitGrace = 100 * time.Millisecond

// drop takes a place back, with the mutex held.
func (x *Limit) drop(c *limitedConn) {
	c.gone = true
	delete(x.conns, c)
	x.free()
}

// free tells those that wait, with the mutex held.
func (x *Limit) free() {
	if x.freed != nil {
		close(x.freed)
		x.freed = nil
	}
}

// work marks a connection as being answered; false when it has lost its place.
func (c *limitedConn) work() bool {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.busy = !c.gone
	return c.busy
}

// rest marks a connection as idle.
func (c *limitedConn) rest() {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.busy, c.idle = false, time.Now()
	c.limit.free()
}

// Close gives the place back too. It may be called twice.
func (c *limitedConn) Close() error {
	c.limit.mu.Lock()
	if !c.gone {
		c.limit.drop(c)
	}
	c.limit.mu.Unlock()
	return c.Conn.Close()
}
