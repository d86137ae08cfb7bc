package rpc

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// socket stands between gorilla/websocket and the network, below TLS: it reads ahead
// and remembers when something last came in.
type socket struct {
	net.Conn
	begun    time.Time
	lastRead atomic.Int64 // nanoseconds since begun, on the monotonic clock: the wall clock may be set
	in       []byte       // read and not yet passed on; the reader's
	inBuf    []byte       // what in points into

	direct *directRead // nil: it is read through Conn

	upgrading bool // until the upgrade is done no more than left bytes are read; the reader's
	left      int
	tooLong   error // what is said when it is more
}

const (
	// maxUpgradeAnswer is how long the answer to an upgrade request may be, with that of
	// a proxy before it: net/http itself sets no bound.
	maxUpgradeAnswer = 64 << 10
	// maxTLSHandshake is apart from that: certificates may be long.
	maxTLSHandshake = 512 << 10
)

var (
	errLongAnswer = errors.New("the answer to the upgrade request is longer than 64 KiB, so it is none; check the URL and what is there")
	errLongTLS    = errors.New("the TLS handshake is longer than 512 KiB; check the URL and what is there")
)

func newSocket(c net.Conn) *socket {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetNoDelay(true)
	}
	return &socket{Conn: c, begun: time.Now()}
}

// expect bounds what is read until the upgrade is done, or until it is called again.
func (s *socket) expect(atMost int, tooLong error) {
	if s == nil { // whoever opens the connection does TLS of its own before
		return
	}
	s.upgrading, s.left, s.tooLong = true, atMost, tooLong
}

// upgraded takes the bound away.
func (s *socket) upgraded() { s.upgrading = false }

// rawConn is what allows to write without waiting; nil where there is no such thing.
func (s *socket) rawConn() syscall.RawConn {
	if c, ok := s.Conn.(syscall.Conn); ok && canWriteNow {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Read passes on what was read ahead. gorilla's own buffer is kept as small as it
// may be, so that more knows whether a message has come in behind this one; what is
// asked for beyond readBuffer is the rest of a frame.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		if len(p) >= readBuffer {
			return s.receive(p)
		}
		if s.inBuf == nil {
			s.inBuf = make([]byte, readBuffer)
		}
		n, err := s.receive(s.inBuf)
		if err != nil {
			return 0, err
		}
		s.in = s.inBuf[:n]
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *socket) receive(p []byte) (int, error) {
	var n int
	var err error
	if s.direct != nil {
		n, err = s.direct.read(p)
	} else {
		n, err = s.Conn.Read(p)
	}
	if n > 0 {
		s.lastRead.Store(int64(time.Since(s.begun)))
	}
	if s.upgrading {
		if s.left -= n; s.left < 0 {
			return 0, s.tooLong
		}
	}
	return n, err
}

// idle is for how long nothing has come in.
func (s *socket) idle() time.Duration {
	return time.Since(s.begun) - time.Duration(s.lastRead.Load())
}

// more reports whether something that was read has not been passed on.
func (s *socket) more() bool { return len(s.in) > 0 }
