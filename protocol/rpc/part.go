package rpc

import (
	"fmt"

	"github.com/agent-executor/executor/protocol"
)

// A message that is larger than one write goes in parts, when the peer takes them, so
// that small messages come between: WebSocket itself lets only its own control frames
// come between the fragments of a message. A part is a binary message whose first byte
// says whether it is the last; the rest is a piece of the message, text or binary, as it
// would have been sent whole. The parts of one message come in order, and no other
// message's between them.
const (
	partMore = 1
	partLast = 2
)

// maxPart is the size of a part with its first byte.
const maxPart = maxBatch

func isPart(frame []byte) bool {
	return len(frame) > 0 && (frame[0] == partMore || frame[0] == partLast)
}

// SetParts says that the peer takes large messages in parts. Those that come in are
// always taken.
func (c *Conn) SetParts(ok bool) { c.parts.Store(ok) }

// collect adds a part to the message that is coming in, and returns the message when it
// is whole. Only the reader calls it. The error ends the connection.
func (c *Conn) collect(f buffer) (whole buffer, complete bool, err error) {
	last, piece := f.b[0] == partLast, f.b[1:]
	if c.partial.home == nil {
		c.partial = getBuffer()
	}
	if n, limit := len(c.partial.b)+len(piece), c.maxReceive.Load(); int64(n) > limit {
		f.free()
		c.partial.free()
		return buffer{}, false, &CloseError{Code: protocol.CloseTooBig, Local: true,
			Reason: fmt.Sprintf("message over the limit of %d bytes", limit)}
	}
	c.partial.reserve(len(piece))
	c.partial.b = append(c.partial.b, piece...)
	f.free()
	if !last {
		return buffer{}, false, nil
	}
	whole, c.partial = c.partial, buffer{}
	return whole, true, nil
}

// nextPart is the next part of the message that is being sent in parts. w.mu is held.
func (w *writer) nextPart() buffer {
	if w.part.home == nil {
		w.part, w.partSent = w.bulk.pop(), 0
	}
	rest := w.part.b[w.partSent:]
	n := min(len(rest), maxPart-1)
	mark := byte(partMore)
	if n == len(rest) {
		mark = partLast
	}
	f := getBuffer()
	f.reserve(n + 1)
	f.b = append(append(f.b, mark), rest[:n]...)
	w.partSent += n
	if mark == partLast {
		w.part.free()
	}
	return f
}
