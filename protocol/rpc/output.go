package rpc

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// output is the bytes of a WebSocket on their way to the network: frames are put
// together here, which never waits, and written by flush or tryFlush, many at a time.
type output struct {
	to  net.Conn        // TLS or plain
	raw syscall.RawConn // nil: it can only be written waiting

	// flushing serialises flush and tryFlush: the connection's writer, and pings,
	// pongs and close messages between its chunks. A channel, since in a test bubble
	// time does not pass while somebody waits for a mutex.
	flushing chan struct{}

	mu    sync.Mutex
	out   []byte // framed and not yet written
	spare []byte
}

func newOutput(to net.Conn, raw syscall.RawConn) *output {
	return &output{to: to, raw: raw, flushing: make(chan struct{}, 1)}
}

// add frames a message, a part of one, or a control frame.
func (o *output) add(opcode byte, final, mask bool, payload []byte) {
	o.mu.Lock()
	o.out = appendFrame(o.out, opcode, final, mask, payload)
	o.mu.Unlock()
}

// flush writes all that was added. Each batch has the timeout to be taken.
func (o *output) flush(timeout time.Duration) error {
	o.flushing <- struct{}{}
	defer func() { <-o.flushing }()
	return o.writeAll(timeout)
}

func (o *output) writeAll(timeout time.Duration) error {
	for {
		out := o.take()
		if len(out) == 0 {
			return o.to.SetWriteDeadline(time.Time{}) // it would hold for tryFlush too
		}
		if err := o.to.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := o.to.Write(out); err != nil {
			return err
		}
		o.recycle(out)
	}
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
		if len(out) == 0 {
			return true, nil
		}
		n, err := writeNow(o.raw, out)
		if err != nil {
			return false, err
		}
		if n < len(out) {
			o.putBack(out, n)
			return false, nil
		}
		o.recycle(out)
	}
}

func (o *output) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.out
	o.out, o.spare = o.spare[:0], nil
	return out
}

// putBack keeps out[n:] before what was framed since.
func (o *output) putBack(out []byte, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := append(out[:0], out[n:]...)
	o.out = append(rest, o.out...)
}

func (o *output) recycle(out []byte) {
	if cap(out) > 2*maxBatch {
		return
	}
	o.mu.Lock()
	o.spare = out[:0]
	o.mu.Unlock()
}
