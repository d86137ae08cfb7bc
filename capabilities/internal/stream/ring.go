package stream

import (
	"context"
	"fmt"
	"sync"
)

// minRing is what a ring takes with its first byte. Most streams say little or nothing.
const minRing = 4 << 10

// Ring is a log of bytes of which the newest are kept. A cursor is an offset since the start of the
// log; it stays true however much has been dropped. All methods may be called concurrently; with
// several writers the order of their bytes is that of their calls. Nothing is to be ended: a ring is
// memory. CloseWrite says that no more comes.
//
// A ring drops its oldest bytes to make room, so a slow reader never holds up the writer. One made
// with Block drops nothing that no reader has passed: its Write waits, or after Unblock drops what comes.
type Ring struct {
	mu      sync.Mutex
	limit   int    // capacity in bytes
	buf     []byte // the byte at cursor c is buf[c%len(buf)]
	end     int64  // bytes written so far that were kept at first
	missing int64  // bytes written behind them that never were; the last of all
	first   int64  // the oldest byte kept
	block   bool
	hold    bool  // Write drops what there is no room for
	passed  int64 // every byte before it has been taken; for block and hold
	closed  bool
	lost    bool          // how much is missing before its end is not known
	changed chan struct{} // closed by the next change; nil when nobody waits
	follow  func()        // told by the writer of what it has written; nil for nobody
}

// NewRing makes a ring that keeps the newest limit bytes, at least one. Memory is taken as it is needed.
func NewRing(limit int) *Ring { return &Ring{limit: max(limit, 1)} }

// NewEnded makes a ring that has come to its end at a cursor, and of which nothing is kept.
func NewEnded(end int64) *Ring { return &Ring{limit: 1, end: end, first: end, closed: true} }

// NewLost is NewEnded where bytes may be missing that nobody knows of: what is read from it has a gap.
func NewLost(end int64) *Ring {
	r := NewEnded(end)
	r.lost = true
	return r
}

// Closed says whether the log has come to its end.
func (r *Ring) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Block makes Write wait while a byte would be dropped that no reader has passed, with Pass. It is
// called before the first Write.
func (r *Ring) Block() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.block = true
}

// Blocks says whether Write may wait.
func (r *Ring) Blocks() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.block
}

// Unblock ends the waiting for readers, now and later, and makes room for extra more bytes: what was
// on its way when the writer had to stop. What no reader has passed stays all the same: what comes when
// there is no room is dropped itself, and all that comes behind it, which is one gap at the end.
func (r *Ring) Unblock(extra int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.block {
		return
	}
	r.block, r.hold = false, true
	r.limit += extra
	r.wake()
}

// Follow has f called by the writer, on its goroutine, behind each Write and CloseWrite, and before a Write
// waits: for who would otherwise be woken in Wait each time. f must not wait, and may use the ring. There is
// one at a time; nil takes it away, when it may still be called once more.
func (r *Ring) Follow(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow = f
}

// Write appends p, which is not kept. It never fails; after CloseWrite it does nothing.
func (r *Ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	n := r.write(p)
	follow := r.follow
	r.mu.Unlock()
	if follow != nil {
		follow()
	}
	return n, nil
}

func (r *Ring) write(p []byte) int {
	size := len(p)
	for len(p) > 0 && !r.closed {
		n := len(p)
		if r.block || r.hold {
			room := int64(r.limit) - (r.end - max(r.passed, r.first))
			switch {
			case r.hold && (room <= 0 || r.missing > 0):
				r.missing += int64(n)
				r.wake()
				return size
			case room <= 0:
				changed, follow := r.wait(), r.follow
				r.mu.Unlock()
				if follow != nil {
					follow()
				}
				<-changed
				r.mu.Lock()
				continue
			}
			n = int(min(int64(n), room))
		}
		r.append(p[:n])
		p = p[n:]
	}
	return size
}

// append adds p and drops what is too much. r.mu is held.
func (r *Ring) append(p []byte) {
	if over := len(p) - r.limit; over > 0 { // would be dropped by what follows it
		r.end += int64(over)
		r.first = r.end
		p = p[over:]
	}
	r.first = max(r.first, r.end+int64(len(p))-int64(r.limit))
	r.resize(int(r.end-min(r.first, r.end)) + len(p))
	at := int(r.end % int64(len(r.buf)))
	n := copy(r.buf[at:], p)
	copy(r.buf, p[n:])
	r.end += int64(len(p))
	r.wake()
}

// resize makes the buffer hold need bytes. What is kept moves to its places in the new one.
func (r *Ring) resize(need int) {
	if need <= len(r.buf) {
		return
	}
	size := max(minRing, 2*len(r.buf))
	for size < need {
		size *= 2
	}
	r.move(min(size, r.limit))
}

func (r *Ring) move(size int) {
	fresh := make([]byte, size)
	for c := r.first; c < r.end; {
		part := r.span(c, r.end)
		at := int(c % int64(size))
		c += int64(copy(fresh[at:], part))
	}
	r.buf = fresh
}

// span is the longest piece from cursor c to before end that lies in one piece in the buffer.
func (r *Ring) span(c, end int64) []byte {
	at := int(c % int64(len(r.buf)))
	return r.buf[at:min(int64(len(r.buf)), int64(at)+end-c)]
}

// CloseWrite says that the log has come to its end. It may be called twice.
func (r *Ring) CloseWrite() {
	r.mu.Lock()
	follow := r.follow
	if r.closed {
		follow = nil
	} else {
		r.close()
	}
	r.mu.Unlock()
	if follow != nil {
		follow()
	}
}

func (r *Ring) close() {
	r.closed = true
	if kept := int(r.end - r.first); kept == 0 {
		r.buf = nil
	} else if kept < len(r.buf)/2 { // it may be kept for long
		r.move(kept)
	}
	r.wake()
}

// Chunk is what ReadAt found.
type Chunk struct {
	Data     []byte // the caller's own, or his buffer; empty when there is nothing at the cursor
	From     int64  // the cursor of its first byte: not the one asked for when Gap
	Next     int64  // the cursor behind its last byte
	Earliest int64  // the oldest byte that is kept
	Gap      bool   // bytes from the cursor on have been dropped
	EOF      bool   // the log has ended, and Next is its end
	More     bool   // there are bytes behind Next now
}

// RangeError is the error of a cursor beyond the end of the log.
type RangeError struct{ Cursor, End int64 }

func (e *RangeError) Error() string {
	return fmt.Sprintf("cursor %d is beyond the end of the stream, %d", e.Cursor, e.End)
}

// ReadAt returns at most limit bytes from a cursor on, without waiting. A cursor whose bytes were
// dropped is taken for the earliest. The error is a *RangeError.
func (r *Ring) ReadAt(cursor int64, limit int) (Chunk, error) { return r.read(cursor, limit, nil) }

// ReadInto is ReadAt with memory of the caller's for the data, as much as fits into it.
func (r *Ring) ReadInto(cursor int64, buf []byte) (Chunk, error) {
	return r.read(cursor, len(buf), buf)
}

func (r *Ring) read(cursor int64, limit int, buf []byte) (Chunk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.end + r.missing
	if cursor < 0 || cursor > all {
		return Chunk{}, &RangeError{cursor, all}
	}
	if r.missing > 0 && cursor >= r.end {
		return Chunk{From: all, Next: all, Earliest: r.first, Gap: cursor < all, EOF: r.closed}, nil
	}
	c := Chunk{From: max(cursor, r.first), Earliest: r.first, Gap: cursor < r.first || r.lost}
	c.Next = min(r.end, c.From+int64(max(limit, 0)))
	if n := c.Next - c.From; n > 0 {
		if c.Data = buf[:0]; buf == nil {
			c.Data = make([]byte, 0, n)
		}
		for at := c.From; at < c.Next; {
			part := r.span(at, c.Next)
			c.Data = append(c.Data, part...)
			at += int64(len(part))
		}
	}
	c.More = c.Next < all
	c.EOF = r.closed && !c.More
	return c, nil
}

// Wait waits until there are bytes at the cursor, the log has ended, also is closed (which may be nil),
// or the context is done, whose error it returns then.
func (r *Ring) Wait(ctx context.Context, cursor int64, also <-chan struct{}) error {
	for {
		r.mu.Lock()
		if r.end+r.missing > cursor || r.closed {
			r.mu.Unlock()
			return nil
		}
		changed := r.wait()
		r.mu.Unlock()
		select {
		case <-changed:
		case <-also:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Pass says that every byte before the cursor has been taken and may be dropped. A cursor that is
// lower than one before, or beyond the end, is no news.
func (r *Ring) Pass(cursor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cursor > r.passed && cursor <= r.end+r.missing {
		r.passed = cursor
		if r.block {
			r.wake()
		}
	}
}

// End is the number of bytes written so far, which is the cursor of the next one.
func (r *Ring) End() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end + r.missing
}

// wait returns a channel that the next change closes. r.mu is held.
func (r *Ring) wait() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

func (r *Ring) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}
