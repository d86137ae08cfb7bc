package rpc

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// socket stands between gorilla/websocket and the network. Once corked, it keeps
// what is written until flush, so that many frames become one write(2) and no
// framing ever waits for the peer; and it remembers when something last came in.
type socket struct {
	net.Conn
	raw      syscall.RawConn // nil: it can only write waiting
	lastRead atomic.Int64    // Unix nanoseconds
	in       []byte          // read and not yet passed on; the reader's
	inBuf    []byte          // what in points into
	lastSent atomic.Int64

	mu     sync.Mutex
	corked bool
	out    []byte // framed and not yet written
	spare  []byte
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	switch t := c.(type) {
	case *net.TCPConn:
		_ = t.SetNoDelay(true)
		s.raw, _ = t.SyscallConn()
	case *net.UnixConn:
		s.raw, _ = t.SyscallConn()
	}
	s.lastRead.Store(time.Now().UnixNano())
	return s
}

// cork begins to keep what is written. Until then the handshake goes straight
// through.
func (s *socket) cork() {
	s.mu.Lock()
	s.corked = true
	s.mu.Unlock()
}

// Read passes on what was read ahead. gorilla's own buffer is kept as small as it
// may be, so that more knows whether a message has come in behind this one.
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
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.lastRead.Store(time.Now().UnixNano())
	}
	return n, err
}

// more reports whether something that was read has not been passed on.
func (s *socket) more() bool { return len(s.in) > 0 }

func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.corked {
		s.out = append(s.out, p...)
		s.mu.Unlock()
		return len(p), nil
	}
	s.mu.Unlock()
	return s.Conn.Write(p)
}

// appendFragment keeps one frame of a data message.
func (s *socket) appendFragment(opcode byte, final, mask bool, payload []byte) {
	s.mu.Lock()
	s.out = appendFragment(s.out, opcode, final, mask, payload)
	s.mu.Unlock()
}

// SetWriteDeadline is what gorilla calls before every frame; deadlines belong to
// flush here.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	corked := s.corked
	s.mu.Unlock()
	if corked {
		return nil
	}
	return s.Conn.SetWriteDeadline(t)
}

// flush writes all that is kept. Each batch has the timeout to be taken. One flush or
// tryFlush at a time.
func (s *socket) flush(timeout time.Duration) error {
	for {
		out := s.takeOut()
		if len(out) == 0 {
			return s.Conn.SetWriteDeadline(time.Time{}) // it would hold for tryFlush too
		}
		if err := s.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := s.Conn.Write(out); err != nil {
			return err
		}
		s.wrote(out)
	}
}

// tryFlush writes what the kernel takes at once; false when some is left.
func (s *socket) tryFlush() (bool, error) {
	if s.raw == nil {
		return false, nil
	}
	for {
		out := s.takeOut()
		if len(out) == 0 {
			return true, nil
		}
		n, err := writeNow(s.raw, out)
		if err != nil {
			return false, err
		}
		if n < len(out) {
			s.putBack(out, n)
			return false, nil
		}
		s.wrote(out)
	}
}

func (s *socket) takeOut() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.out
	s.out, s.spare = s.spare[:0], nil
	return out
}

// putBack keeps out[n:] before what was framed since.
func (s *socket) putBack(out []byte, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := append(out[:0], out[n:]...)
	s.out = append(rest, s.out...)
}

func (s *socket) wrote(out []byte) {
	s.lastSent.Store(time.Now().UnixNano())
	if cap(out) > 2*maxBatch {
		return
	}
	s.mu.Lock()
	s.spare = out[:0]
	s.mu.Unlock()
}
