package rpctest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBuffer is what one direction holds, like a socket's buffer.
const pipeBuffer = 64 << 10

// Conn is one end of a connection in memory, a net.Conn with a buffer, so that a
// writer does not wait for the reader. Close closes it as TCP does: the other end
// reads what was written before, then io.EOF.
type Conn struct {
	in, out *half
	once    sync.Once
	onClose func()
}

// NetPipe returns the two ends of a connection.
func NetPipe() (*Conn, *Conn) {
	a, b := newHalf(), newHalf()
	return &Conn{in: a, out: b}, &Conn{in: b, out: a}
}

// Read and the methods below are those of net.Conn.
func (c *Conn) Read(p []byte) (int, error)         { return c.in.read(p) }
func (c *Conn) Write(p []byte) (int, error)        { return c.out.write(p) }
func (c *Conn) LocalAddr() net.Addr                { return addr("local") }
func (c *Conn) RemoteAddr() net.Addr               { return addr("remote") }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readDeadline, t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeDeadline, t) }

func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *Conn) Close() error {
	c.in.change(func(h *half) {
		h.readErr, h.writeErr = first(h.readErr, net.ErrClosed), first(h.writeErr, syscall.EPIPE)
	})
	c.out.change(func(h *half) { h.writeErr, h.eof = net.ErrClosed, true })
	c.closed()
	return nil
}

// Cut resets the connection: what is on its way is lost, and both ends fail.
func (c *Conn) Cut() {
	both := []*half{c.in, c.out}
	for _, h := range both { // first, so that no end that notices can still say so to the other
		h.change(func(h *half) { h.writeErr, h.buf = first(h.writeErr, syscall.ECONNRESET), nil })
	}
	for _, h := range both {
		h.change(func(h *half) { h.readErr = first(h.readErr, syscall.ECONNRESET) })
	}
	c.closed()
}

// Stall stops the bytes in both directions, or lets them go on. Nothing is closed:
// writers fill the buffer and then wait, readers wait, closing is not noticed.
func (c *Conn) Stall(on bool) {
	c.in.change(func(h *half) { h.stalled = on })
	c.out.change(func(h *half) { h.stalled = on })
}

func (c *Conn) closed() {
	c.once.Do(func() {
		if c.onClose != nil {
			c.onClose()
		}
	})
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// half is one direction.
type half struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	eof     bool // the writer has closed
	stalled bool

	readErr, writeErr           error
	readDeadline, writeDeadline deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *half) change(f func(*half)) {
	h.mu.Lock()
	f(h)
	h.changed.Broadcast()
	h.mu.Unlock()
}

func (h *half) setDeadline(d *deadline, t time.Time) error {
	h.change(func(h *half) {
		if d.timer != nil {
			d.timer.Stop()
			d.timer = nil
		}
		d.at = t
		if wait := time.Until(t); !t.IsZero() && wait > 0 {
			d.timer = time.AfterFunc(wait, func() { h.change(func(*half) {}) })
		}
	})
	return nil
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readErr != nil:
			return 0, h.readErr
		case h.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		case h.stalled:
		case len(p) == 0:
			return 0, nil
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			if h.buf = h.buf[n:]; len(h.buf) == 0 {
				h.buf = nil
			}
			h.changed.Broadcast()
			return n, nil
		case h.eof:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := 0; ; {
		switch {
		case h.writeErr == syscall.EPIPE && h.stalled: // not noticed yet
		case h.writeErr != nil:
			return n, h.writeErr
		case h.writeDeadline.passed():
			return n, os.ErrDeadlineExceeded
		}
		if k := min(len(p)-n, pipeBuffer-len(h.buf)); k > 0 {
			h.buf = append(h.buf, p[n:n+k]...)
			n += k
			h.changed.Broadcast()
		}
		if n == len(p) {
			return n, nil
		}
		h.changed.Wait()
	}
}
