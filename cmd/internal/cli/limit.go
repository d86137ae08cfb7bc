package cli

import (
	"net"
	"sync"
)

// LimitListener is l with at most n connections at once; further ones wait to be accepted.
func LimitListener(l net.Listener, n int) net.Listener {
	return &limitListener{Listener: l, room: make(chan struct{}, n), done: make(chan struct{})}
}

type limitListener struct {
	net.Listener
	room chan struct{}
	done chan struct{}
	once sync.Once
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	leave func()
}

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
