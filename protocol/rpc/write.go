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
	// maxBatch is how much is put into one write.
	maxBatch = 64 << 10
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
	// appendFrame takes a frame of at most maxBatch bytes; nothing is written yet.
	appendFrame(frame []byte)
	// tryFlush writes what it can without waiting; false when some is left, or when
	// the transport can only write waiting.
	tryFlush() (bool, error)
	// flush writes all that was appended.
	flush() error
}

// writer is the queue of frames to be sent and the one who writes them: the
// sender itself when nobody else does and it would not have to wait, else a
// goroutine that lives while there is something to write. Small frames go first.
type writer struct {
	c     *Conn
	batch batchWriter // nil when the transport has none

	mu      sync.Mutex
	urgent  queue
	bulk    queue
	queued  int
	busy    bool          // somebody is writing
	room    chan struct{} // closed when there is room again; nil when nobody waits
	idle    chan struct{} // closed when all is written; nil when nobody waits
	err     error         // no more frames are taken
	aborted bool          // no more are written
}

// queue is a first-in-first-out list of frames.
type queue struct {
	frames []buffer
	head   int
}

func (q *queue) push(f buffer) { q.frames = append(q.frames, f) }

func (q *queue) empty() bool { return q.head == len(q.frames) }

func (q *queue) peek() int { return len(q.frames[q.head].b) }

func (q *queue) pop() buffer {
	f := q.frames[q.head]
	q.frames[q.head] = buffer{}
	if q.head++; q.head == len(q.frames) {
		q.head, q.frames = 0, q.frames[:0]
	}
	return f
}

func (w *writer) init(c *Conn) {
	w.c = c
	w.batch, _ = c.frames.(batchWriter)
}

// send queues a frame, which it owns from then on. It waits while too much is queued,
// until ctx is done; with dontWait it does not. stream says that the frame must
// not overtake another of its kind; gather says that other senders are about to
// come, so that one write may serve them all. queued, if any, is called when the frame
// has its place in the queue and before it is written.
func (w *writer) send(ctx context.Context, f buffer, stream, gather bool, queued func()) error {
	w.mu.Lock()
	for w.queued > maxQueued && w.err == nil {
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
	w.queued += len(f.b)
	small := len(f.b) <= smallFrame
	if small && !stream {
		w.urgent.push(f)
	} else {
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
		if round == maxDirect || w.next() > maxBatch {
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
		if w.next() <= maxBatch {
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

// rest ends the writing when the queues are empty. w.mu is held.
func (w *writer) rest() bool {
	if !w.urgent.empty() || !w.bulk.empty() {
		return false
	}
	if !w.aborted { // else it stays busy, so that nobody writes any more
		w.busy = false
	}
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
	return true
}

// next is the size of the frame that take returns. w.mu is held.
func (w *writer) next() int {
	if !w.urgent.empty() {
		return w.urgent.peek()
	}
	return w.bulk.peek()
}

func (w *writer) take() buffer {
	q := &w.urgent
	if q.empty() {
		q = &w.bulk
	}
	f := q.pop()
	w.queued -= len(f.b)
	if w.room != nil && w.queued <= maxQueued {
		close(w.room)
		w.room = nil
	}
	return f
}

// fill appends frames to the batch, at least one. w.mu is held: appending copies
// at most maxBatch bytes.
func (w *writer) fill() {
	for n := 0; !w.urgent.empty() || !w.bulk.empty(); {
		if n += w.next(); n > maxBatch {
			break
		}
		f := w.take()
		w.batch.appendFrame(f.b)
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
	w.queued = 0
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
	if !w.busy || w.aborted {
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
