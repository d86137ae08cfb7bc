package rpc

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// output is the bytes of a WebSocket on their way to the network: frames are put
// together here, which never waits, and written by flush or tryFlush, many at a time.
type output struct {
	to  net.Conn        // TLS or plain
	raw syscall.RawConn // nil: it can only be written waiting
	now nowWrite        // with raw, who holds flushing

	// flushing serialises flush and tryFlush: the connection's writer, and pings,
	// pongs and close messages between its chunks. A channel, since in a test bubble
	// time does not pass while somebody waits for a mutex.
	flushing chan struct{}

	mu  sync.Mutex
	out buffer // framed and not yet written
}

func newOutput(to net.Conn, raw syscall.RawConn) *output {
	o := &output{to: to, raw: raw, flushing: make(chan struct{}, 1)}
	o.now.step = o.now.try
	return o
}

// add frames a message, a part of one, or a control frame.
func (o *output) add(opcode byte, final, mask bool, payload []byte) {
	o.mu.Lock()
	if o.out.home == nil {
		o.out = getBuffer()
	}
	o.out.reserve(maxFrameHeader + len(payload))
	o.out.b = appendFrame(o.out.b, opcode, final, mask, payload)
	o.mu.Unlock()
}

// flush writes all that was added. Each piece of a batch has the timeout to be taken.
func (o *output) flush(timeout time.Duration) error {
	o.flushing <- struct{}{}
	defer func() { <-o.flushing }()
	return o.writeAll(timeout)
}

func (o *output) writeAll(timeout time.Duration) error {
	for {
		out := o.take()
		if len(out.b) == 0 {
			out.free()
			return o.to.SetWriteDeadline(time.Time{}) // it would hold for tryFlush too
		}
		err := o.writePieces(out.b, timeout)
		out.free()
		if err != nil {
			return err
		}
	}
}

// writePieces writes p in pieces that a slow peer takes in time.
func (o *output) writePieces(p []byte, timeout time.Duration) error {
	for len(p) > 0 {
		n := min(len(p), maxBatch)
		if err := o.to.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := o.to.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// flushLast is flush before the end: a write that is under way is cut short, and so is
// the wait for it.
func (o *output) flushLast(timeout time.Duration) {
	_ = o.to.SetWriteDeadline(time.Now().Add(timeout))
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case o.flushing <- struct{}{}:
		_ = o.writeAll(timeout)
		<-o.flushing
	case <-t.C:
	}
}

// tryFlush writes what the kernel takes at once; false when some is left.
func (o *output) tryFlush() (bool, error) {
	o.flushing <- struct{}{}
	defer func() { <-o.flushing }()
	return o.writeNow()
}

// nudge writes what was added without waiting, unless somebody is writing, who looks
// again after that.
func (o *output) nudge() {
	select {
	case o.flushing <- struct{}{}:
	default:
		return
	}
	// The next writer or reader sees an error.
	if o.raw != nil {
		_, _ = o.writeNow()
	} else {
		_ = o.writeAll(closeTimeout)
	}
	<-o.flushing
}

func (o *output) writeNow() (bool, error) {
	if o.raw == nil {
		return false, nil
	}
	for {
		out := o.take()
		if len(out.b) == 0 {
			out.free()
			return true, nil
		}
		n, err := o.now.write(o.raw, out.b)
		if err != nil {
			out.free()
			return false, err
		}
		if n < len(out.b) {
			o.putBack(out, n)
			return false, nil
		}
		out.free()
	}
}

func (o *output) take() (out buffer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, o.out = o.out, buffer{}
	return out
}

// putBack keeps out.b[n:] before what was framed since.
func (o *output) putBack(out buffer, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out.b = append(out.b[:0], out.b[n:]...)
	_, _ = out.Write(o.out.b)
	o.out.free()
	o.out = out
}

// nowWrite is one write(2) that does not wait.
type nowWrite struct {
	step  func(fd uintptr) (done bool) // try, bound once
	p     []byte
	n     int
	errno syscall.Errno
}

// write returns how much was taken, which may be nothing. p is not empty.
func (w *nowWrite) write(raw syscall.RawConn, p []byte) (int, error) {
	w.p = p
	err := raw.Write(w.step)
	w.p = nil
	switch {
	case err != nil:
		return 0, err
	case w.errno == syscall.EAGAIN:
		return 0, nil
	case w.errno != 0:
		return 0, os.NewSyscallError("write", w.errno)
	case w.n == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return w.n, nil
}

func (w *nowWrite) try(fd uintptr) (done bool) {
	w.n, w.errno = write(fd, w.p)
	return true
}
