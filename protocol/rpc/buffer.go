package rpc

import (
	"slices"
	"sync"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// Buffers for frames, in three sizes so that one big frame does not make every
// later small one keep its memory. Larger ones are left to the collector. The largest
// is for an answer of process.read in base64.
const (
	smallBuffer = 2 << 10
	largeBuffer = 72 << 10
	hugeBuffer  = 352 << 10
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, smallBuffer); return &b }}
	largePool = sync.Pool{New: func() any { b := make([]byte, 0, largeBuffer); return &b }}
	hugePool  = sync.Pool{New: func() any { b := make([]byte, 0, hugeBuffer); return &b }}
)

// buffer is a pooled byte slice. It has one owner at a time.
type buffer struct {
	b    []byte
	home *[]byte
}

func getBuffer() buffer {
	p := smallPool.Get().(*[]byte)
	return buffer{(*p)[:0], p}
}

// free gives the memory back; b must not be used after it.
func (f *buffer) free() {
	if f.home == nil {
		return
	}
	*f.home = f.b[:0]
	switch c := cap(f.b); {
	case c >= hugeBuffer && c <= 2*hugeBuffer:
		hugePool.Put(f.home)
	case c >= largeBuffer && c <= 2*largeBuffer:
		largePool.Put(f.home)
	case c >= smallBuffer && c <= 4*smallBuffer:
		smallPool.Put(f.home)
	}
	f.home, f.b = nil, nil
}

// reserve makes room for n more bytes.
func (f *buffer) reserve(n int) {
	if len(f.b)+n <= cap(f.b) {
		return
	}
	pool := &largePool
	switch need := len(f.b) + n; {
	case need > hugeBuffer:
		f.b = slices.Grow(f.b, n)
		return
	case need > largeBuffer:
		pool = &hugePool
	}
	p := pool.Get().(*[]byte)
	b := append((*p)[:0], f.b...)
	f.free()
	f.b, f.home = b, p
}

// Write lets an encoder write into the buffer.
func (f *buffer) Write(p []byte) (int, error) {
	f.reserve(len(p))
	f.b = append(f.b, p...)
	return len(p), nil
}

// writeJSON writes v. After an error the buffer holds no part of it.
func (f *buffer) writeJSON(v any) error {
	b, err := jsonwire.Append(f.b, v)
	if err != nil {
		return err
	}
	f.b = b
	return nil
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
