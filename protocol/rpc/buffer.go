package rpc

import (
	"encoding/json"
	"sync"
)

// Buffers for frames, in two sizes so that one big frame does not make every
// later small one keep its memory. Larger ones are left to the collector.
const (
	smallBuffer = 2 << 10
	largeBuffer = 72 << 10
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, smallBuffer); return &b }}
	largePool = sync.Pool{New: func() any { b := make([]byte, 0, largeBuffer); return &b }}
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
	if len(f.b)+n > largeBuffer {
		f.b = append(f.b, make([]byte, n)...)[:len(f.b)]
		return
	}
	p := largePool.Get().(*[]byte)
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

// encoder is a reused encoding/json encoder: without it each message costs a
// copy of itself.
type encoder struct {
	*buffer
	enc *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.enc = json.NewEncoder(e)
	e.enc.SetEscapeHTML(false)
	return e
}}

// writeJSON writes v. After an error the buffer holds no part of it.
func (f *buffer) writeJSON(v any) error {
	switch raw := v.(type) {
	case nil:
		f.b = append(f.b, "null"...)
		return nil
	case json.RawMessage:
		if len(raw) == 0 {
			raw = json.RawMessage("null")
		}
		_, err := f.Write(raw)
		return err
	}
	e := encoders.Get().(*encoder)
	e.buffer = f
	if err := e.enc.Encode(v); err != nil {
		return err // the encoder keeps its error: it is not used again
	}
	f.b = f.b[:len(f.b)-1] // its newline
	e.buffer = nil
	encoders.Put(e)
	return nil
}
