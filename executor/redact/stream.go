package redact

import "io"

// Stream masks a stream that comes in pieces. It is for one goroutine at a time. What is neither a secret nor
// may become one goes out at once: held back is only what a secret begins with, which is fewer bytes than the
// longest form of a secret has, with its line ends. Secrets that are added meanwhile count from the next piece on.
type Stream struct {
	r    *Redactor
	lead int

	buf     []byte // what came and is not settled: the beginning of a secret, perhaps
	let     int    // so many of its first bytes are out already
	covered int    // so many of its first bytes belong to a secret that began before
	out     []byte // what the last call returned
	lines   joined
}

// NewStream makes one. lead is how many bytes of what is held back are let out all the same, at most 3: with it
// a prompt that ends like a secret begins is seen at once, and when a secret comes in pieces its first bytes
// are seen.
func (r *Redactor) NewStream(lead int) *Stream { return &Stream{r: r, lead: min(max(lead, 0), 3)} }

// Mask takes the next piece, and returns what can go out now: as many bytes as came and were held back before,
// less those that are held back now. It is valid until the next call, and may be p itself; p is not changed.
func (s *Stream) Mask(p []byte) []byte {
	m := s.r.matcher()
	if len(s.buf) == 0 && s.covered == 0 {
		if m == nil || len(p) == 0 {
			return p
		}
		s.lines.join(p, true)
		if n := m.unfinished(s.lines.text); n == 0 && !m.any(s.lines.text) {
			return p // as most pieces are
		}
	}
	s.buf = append(s.buf, p...)
	return s.settle(m, true)
}

// Flush returns what was held back: nothing follows, or not soon.
func (s *Stream) Flush() []byte { return s.settle(s.r.matcher(), false) }

// settle masks what there is, keeps what may be the beginning of a secret when more may follow, and returns what goes
// out.
func (s *Stream) settle(m *matcher, open bool) []byte {
	s.lines.join(s.buf, open)
	cut := len(s.buf)
	if n := m.unfinished(s.lines.text); open && n > 0 {
		cut = s.lines.raw(len(s.lines.text) - n)
	}
	s.out = append(s.out[:0], s.buf...)
	blot(s.out[:min(s.covered, len(s.out))])
	covered := s.covered
	s.lines.find(m, func(from, to int) {
		blot(s.out[from:to])
		if from < cut {
			covered = max(covered, to)
		}
	})
	// A secret that begins in front of the cut goes on behind it only to where it ends.
	s.covered = max(0, covered-cut)
	// What was let out is at least let out.
	lead := max(min(s.lead, len(s.buf)-cut), shown(s.buf[cut:]), s.let-cut)
	out := s.out[s.let : cut+lead]
	s.let = lead
	s.buf = s.buf[:copy(s.buf, s.buf[cut:])]
	if len(s.buf) == 0 {
		s.let, s.covered = 0, 0
		if cap(s.buf) > keepBuffer {
			s.buf, s.out, s.lines = nil, nil, joined{} // what is returned is the caller's until the next call all the same
		}
	}
	return out
}

// keepBuffer is how large a buffer is kept while nothing is held back.
const keepBuffer = 64 << 10

// any says whether there is a pattern in p.
func (m *matcher) any(p []byte) (found bool) {
	m.find(p, func(int, int) { found = true })
	return found
}

// Writer is a Stream in front of an io.Writer. It is for one goroutine at a time.
type Writer struct {
	w io.Writer
	s *Stream
}

// NewWriter makes a Writer in front of w. Close ends it, and not w.
func (r *Redactor) NewWriter(w io.Writer) *Writer { return &Writer{w, r.NewStream(0)} }

// Write writes what of p can go out. Its error is that of the writer behind it; what was not written then is
// lost.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), keepBuffer)
		if out := w.s.Mask(rest[:n]); len(out) > 0 {
			if _, err := w.w.Write(out); err != nil {
				return len(p) - len(rest), err
			}
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Flush writes what was held back.
func (w *Writer) Flush() error {
	out := w.s.Flush()
	if len(out) == 0 {
		return nil
	}
	_, err := w.w.Write(out)
	return err
}

// Close is Flush.
func (w *Writer) Close() error { return w.Flush() }
