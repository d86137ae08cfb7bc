package rpc

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// smallFrame is the largest frame that goes before bulk data.
	smallFrame = 4 << 10
	// maxBatch is how much is put into one write: what a pipe holds, and what is said
	// about it.
	maxBatch = 64<<10 + 1<<10
	// wideBatch is that when the peer reads so fast that little is lost by waiting for it.
	wideBatch = hugeBuffer
	// maxQueued bounds what waits for a peer that does not read; more waits in the
	// callers.
	maxQueued = 1 << 20
	// maxDirect is how many batches a caller writes before it hands the rest over.
	maxDirect = 4
)

// dontWait is a context that is done.
var dontWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// batchWriter is what a transport offers that can put frames together and try to
// write without waiting. The three are called by one goroutine at a time.
type batchWriter interface {
	// appendFrame takes a frame of at most wideBatch bytes; nothing is written yet.
	appendFrame(frame []byte)
	// tryFlush writes what it can without waiting; false when some is left, or when
	// the transport can only write waiting.
	tryFlush() (bool, error)
	// flush writes all that was appended.
	flush() error
}

// pacer is what a transport offers that knows how much of what was sent the peer has
// read.
type pacer interface {
	ready() bool   // more bulk may be written; else resume is called when it may
	isQuick() bool // a wideBatch is read at once
	wrote(n int)   // of bulk that was appended
	moved() int64  // changes as long as the peer reads bulk
}

// writer is the queue of frames to be sent and the one who writes them: the
// sender itself when nobody else does and it would not have to wait, else a
// goroutine that lives while there is something to write. Small frames go first.
type writer struct {
	c     *Conn
	batch batchWriter // nil when the transport has none

	pace pacer // nil likewise

	mu       sync.Mutex
	urgent   queue
	bulk     queue
	part     buffer        // of the bulk, what is being sent in parts
	partSent int           // how much of it was taken
	taken    int64         // bytes of bulk so far
	hurried  int           // bytes in urgent
	queued   int           // bytes of bulk
	busy     bool          // somebody is writing
	room     chan struct{} // closed when there is room again; nil when nobody waits
	idle     chan struct{} // closed when all is written; nil when nobody waits
	err      error         // no more frames are taken
	aborted  bool          // no more are written
}

func (w *writer) init(c *Conn) {
	w.c = c
	w.batch, _ = c.frames.(batchWriter)
	if f, ok := c.frames.(*webSocket); ok && f.pace != nil {
		f.pace.resume = w.resume
		w.pace = f.pace
	}
}

// resume goes on with bulk when the peer has read what was sent.
func (w *writer) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy && !w.aborted && w.hasBulk() {
		w.busy = true
		w.hand()
	}
}

// sending is a number that changes as long as bulk goes out, and whether some waits.
func (w *writer) sending() (moved int64, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pace != nil {
		moved = w.pace.moved()
	}
	return moved + w.taken, w.busy || w.hasBulk()
}

func (w *writer) hasBulk() bool { return w.part.home != nil || !w.bulk.empty() }

// mayBulk reports whether there is bulk, and may be written. w.mu is held.
func (w *writer) mayBulk() bool { return w.hasBulk() && (w.pace == nil || w.pace.ready()) }

// inParts reports whether what comes next of the bulk goes in parts. w.mu is held.
func (w *writer) inParts() bool {
	if w.part.home != nil {
		return true
	}
	n := w.bulk.peek()
	return n > maxPart && w.c.parts.Load() && n > w.most()
}

// most is how much is put into one write now.
func (w *writer) most() int {
	if w.pace != nil && w.pace.isQuick() {
		return wideBatch
	}
	return maxBatch
}

// send queues a frame, which it owns from then on. It waits while too much is queued,
// until ctx is done; with dontWait it does not. stream says that the frame must
// not overtake another of its kind; gather says that other senders are about to
// come, so that one write may serve them all. queued, if any, is called when the frame
// has its place in the queue and before it is written.
func (w *writer) send(ctx context.Context, f buffer, stream, gather bool, queued func()) error {
	small := len(f.b) <= smallFrame
	urgent := small && !stream
	w.mu.Lock()
	for w.err == nil && (urgent && w.hurried > maxQueued || !urgent && w.queued > maxQueued) {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			f.free()
			if ctx == dontWait {
				return ErrNoRoom
			}
			if ctx == w.c.ctx {
				return w.c.closedError()
			}
			return ctx.Err()
		}
		w.mu.Lock()
	}
	if w.err != nil {
		w.mu.Unlock()
		f.free()
		return w.c.closedError()
	}
	if urgent {
		w.hurried += len(f.b)
		w.urgent.push(f)
	} else {
		w.queued += len(f.b)
		w.bulk.push(f)
	}
	write := !w.busy && w.batch != nil
	if !w.busy && w.batch == nil {
		w.hand()
	}
	w.busy = true
	w.mu.Unlock()
	if queued != nil {
		queued()
	}
	if !write {
		return nil
	}
	if gather && small {
		runtime.Gosched()
	}
	w.direct()
	return nil
}

// hand starts the goroutine that writes until nothing is left. w.mu is held.
// abort comes before the read loop ends, so that the count of the connection's
// goroutines is never raised from zero.
func (w *writer) hand() {
	if w.aborted {
		return
	}
	w.c.work.Add(1)
	go func() {
		defer w.c.work.Done()
		w.loop()
	}()
}

// direct writes on the sender's goroutine as long as nothing has to be waited for.
func (w *writer) direct() {
	for round := 0; ; round++ {
		w.mu.Lock()
		if w.rest() {
			w.mu.Unlock()
			return
		}
		if round == maxDirect || w.next() > w.most() {
			w.hand()
			w.mu.Unlock()
			return
		}
		w.fill()
		w.mu.Unlock()
		done, err := w.batch.tryFlush()
		if err != nil {
			w.fail(err)
			return
		}
		if !done {
			w.mu.Lock()
			w.hand()
			w.mu.Unlock()
			return
		}
	}
}

// loop writes until nothing is left.
func (w *writer) loop() {
	if w.batch == nil {
		w.loopFrames()
		return
	}
	for {
		if err := w.batch.flush(); err != nil {
			w.fail(err)
			return
		}
		w.mu.Lock()
		if w.rest() {
			w.mu.Unlock()
			return
		}
		if w.next() <= w.most() {
			w.fill()
			w.mu.Unlock()
			continue
		}
		f := w.take()
		w.mu.Unlock()
		err := w.c.frames.WriteFrame(w.c.ctx, f.b)
		f.free()
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// loopFrames is loop for a transport without batches.
func (w *writer) loopFrames() {
	for {
		w.mu.Lock()
		if w.rest() {
			w.mu.Unlock()
			return
		}
		f := w.take()
		w.mu.Unlock()
		err := w.c.frames.WriteFrame(w.c.ctx, f.b)
		f.free()
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// rest ends the writing when nothing is left, or nothing that the peer has room for.
// w.mu is held.
func (w *writer) rest() bool {
	if !w.urgent.empty() || w.mayBulk() {
		return false
	}
	if !w.aborted { // else it stays busy, so that nobody writes any more
		w.busy = false
	}
	if w.idle != nil && !w.hasBulk() {
		close(w.idle)
		w.idle = nil
	}
	return true
}

// next is the size of the frame that take returns, at most. There is one. w.mu is held.
func (w *writer) next() int {
	switch {
	case !w.urgent.empty():
		return w.urgent.peek()
	case w.inParts():
		return maxPart
	}
	return w.bulk.peek()
}

func (w *writer) take() (f buffer) {
	full := w.queued > maxQueued || w.hurried > maxQueued
	switch {
	case !w.urgent.empty():
		f = w.urgent.pop()
		w.hurried -= len(f.b)
	case w.inParts():
		f = w.nextPart()
		w.queued -= len(f.b) - 1
		w.taken += int64(len(f.b))
	default:
		f = w.bulk.pop()
		w.queued -= len(f.b)
		w.taken += int64(len(f.b))
	}
	if full && w.room != nil && (w.queued <= maxQueued || w.hurried <= maxQueued) {
		close(w.room)
		w.room = nil
	}
	return f
}

// fill appends frames to the batch, at least one. w.mu is held: appending copies
// at most wideBatch bytes.
func (w *writer) fill() {
	for n, most := 0, w.most(); ; {
		bulk := w.urgent.empty()
		if bulk && !w.mayBulk() {
			break
		}
		if n += w.next(); n > most {
			break
		}
		f := w.take()
		w.batch.appendFrame(f.b)
		if bulk && w.pace != nil {
			w.pace.wrote(len(f.b))
		}
		f.free()
	}
}

// fail is the end of the connection by a write error.
func (w *writer) fail(err error) {
	w.c.failWriting(err)
}

// abort drops everything that waits.
func (w *writer) abort(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.aborted = true
	for _, q := range []*queue{&w.urgent, &w.bulk} {
		for !q.empty() {
			f := q.pop()
			f.free()
		}
	}
	w.part.free()
	w.queued, w.hurried = 0, 0
	for _, waiters := range []*chan struct{}{&w.room, &w.idle} {
		if *waiters != nil {
			close(*waiters)
			*waiters = nil
		}
	}
}

// finish takes no more frames and waits until those that were taken are written,
// at most for the timeout.
func (w *writer) finish(timeout time.Duration) {
	w.mu.Lock()
	if w.err == nil {
		w.err = ErrClosed
	}
	if !w.busy && !w.hasBulk() || w.aborted {
		w.mu.Unlock()
		return
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	w.mu.Unlock()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
	w.abort(ErrClosed)
}
