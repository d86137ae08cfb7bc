package search

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	// blockBytes is how much of a file is searched at a time, maxLineBytes how long a line
	// may be before it is searched in pieces, and maxMultiline how much text a search for
	// longer matches takes at once.
	blockBytes   = 256 << 10
	maxLineBytes = 2 << 20
	maxMultiline = 16 << 20
	// maxContextBytes bounds the lines before a match that are remembered across blocks.
	maxContextBytes = 64 << 10
)

// grepper is the visitor of Grep. It searches one file after the other.
type grepper struct {
	*lineFinder
	start  *start
	filter filter
	opts   GrepOptions

	buf     []byte
	block0  *[blockBytes]byte // what buf begins as
	rows    rows
	results results
	skipped Skipped

	matches, matched, searched, long int
}

func newGrepper(ctx context.Context, s *start, m *matcher, f filter, o GrepOptions) *grepper {
	return &grepper{lineFinder: m.finder(ctx), start: s, filter: f, opts: o, results: results{limit: o.Limit, context: o.Context, bytes: o.MaxText}}
}

func (g *grepper) visit(d dir, path string, e entry) {
	if e.kind == kindDir || !g.filter.match(path, e) || g.ctx.Err() != nil {
		return
	}
	switch e.kind {
	case kindLink:
		g.skipped.Links++
		return
	case kindSpecial:
		g.skipped.Special++
		return
	}
	f, err := d.file(e.name)
	if err != nil {
		g.skipped.unreadable(g.start.show(path+e.name), err)
		return
	}
	g.file(f, path+e.name)
}

// blocks are buffers of searches that have ended. Most searches are short, and new memory
// would cost them a good part of their time.
var blocks = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// release gives the buffer back. Nothing is searched after it.
func (g *grepper) release() {
	if g.block0 != nil {
		blocks.Put(g.block0)
	}
	g.buf, g.block0 = nil, nil
}

// outcome is how the search of one file ended.
type outcome uint8

const (
	outcomeText outcome = iota
	outcomeBinary
	outcomeTooLong
)

// file searches one file and closes it.
func (g *grepper) file(f io.ReadCloser, path string) {
	defer f.Close()
	g.rows.reset(g.opts, g.opts.Mode != ModeFiles && g.opts.Mode != ModeCount && g.results.wants(path))
	if g.buf == nil {
		g.block0 = blocks.Get().(*[blockBytes]byte)
		g.buf = g.block0[:]
	}
	search := g.lineByLine
	if !g.lines {
		search = g.whole
	}
	how, err := search(f)
	if len(g.buf) > blockBytes {
		g.buf = g.block0[:] // one long line is no reason to keep so much
	}
	switch {
	case err != nil:
		g.skipped.unreadable(g.start.show(path), err)
		return
	case how == outcomeBinary:
		g.skipped.Binary++
		return
	case how == outcomeTooLong:
		g.skipped.TooLong++
		return
	}
	g.searched++
	g.long += g.rows.long
	if g.rows.matches == 0 {
		return
	}
	g.matches += g.rows.matches
	g.matched++
	if !g.results.wants(path) {
		return
	}
	r := result{path: path, matches: g.rows.matches, weight: 1, size: len(path)}
	if g.rows.wanted {
		r.rows = slices.Clone(g.rows.all)
		r.weight = g.rows.kept
		r.size += g.rows.size
	}
	g.results.add(r)
}

// reader fills the buffer of a grepper with one file as UTF-8.
type reader struct {
	g    *grepper
	src  io.Reader
	n    int // bytes in buf
	eof  bool
	head bool // the first bytes have been looked at
}

// fill reads until the buffer is full or the file ends. binary: there is a NUL.
func (r *reader) fill() (binary bool, err error) {
	from := r.n
	for !r.eof && r.n < len(r.g.buf) {
		if err := r.g.ctx.Err(); err != nil {
			return false, err
		}
		n, err := r.src.Read(r.g.buf[r.n:])
		r.n += n
		switch {
		case err == io.EOF:
			r.eof = true
		case err != nil:
			return false, err
		}
	}
	if !r.head {
		r.head = true
		b := r.g.buf[:r.n]
		var endian unicode.Endianness
		switch {
		case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
			r.n = copy(r.g.buf, b[3:])
		case bytes.HasPrefix(b, []byte("\xff\xfe")):
			endian = unicode.LittleEndian
		case bytes.HasPrefix(b, []byte("\xfe\xff")):
			endian = unicode.BigEndian
		}
		if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
			rest := io.MultiReader(bytes.NewReader(bytes.Clone(b)), r.src)
			r.src = transform.NewReader(rest, unicode.UTF16(endian, unicode.UseBOM).NewDecoder())
			r.n, r.eof = 0, false
			return r.fill()
		}
	}
	return bytes.IndexByte(r.g.buf[from:r.n], 0) >= 0, nil
}

// grow doubles the buffer.
func (r *reader) grow() {
	bigger := make([]byte, 2*len(r.g.buf))
	copy(bigger, r.g.buf[:r.n])
	r.g.buf = bigger
}

// lineByLine searches a file in blocks of whole lines.
func (g *grepper) lineByLine(f io.Reader) (outcome, error) {
	r := reader{g: g, src: f}
	done := 0 // what is before has been searched and is there as context
	for {
		fresh := max(done, r.n) // before it there is no newline that ends a line
		binary, err := r.fill()
		if err != nil || binary {
			return outcomeBinary, err
		}
		end := r.n
		if !r.eof {
			last := bytes.LastIndexByte(g.buf[min(fresh, r.n):r.n], '\n')
			if end = min(fresh, r.n) + last + 1; last < 0 {
				if len(g.buf) < maxLineBytes {
					r.grow()
					continue
				}
				end = r.n
				g.rows.long++
			}
		}
		if err := g.block(g.buf[:end], done, r.eof); err != nil || r.eof {
			return outcomeText, err
		}
		keep := end
		if g.rows.wanted {
			keep = g.rows.carry(g.buf[:end], end)
		}
		r.n = copy(g.buf, g.buf[keep:r.n])
		done = end - keep
	}
}

// block searches the whole lines of b from done on.
func (g *grepper) block(b []byte, done int, last bool) error {
	if g.opts.Mode == ModeFiles && g.rows.matches > 0 {
		return nil // what is left is only read for a NUL
	}
	g.lineFinder.block(b)
	for pos := done; pos < len(b); {
		at, sure := g.next(b, pos)
		if at < 0 {
			break
		}
		from := bytes.LastIndexByte(b[pos:at], '\n') + 1 + pos
		if from >= len(b) {
			break
		}
		to := len(b)
		if i := bytes.IndexByte(b[at:], '\n'); i >= 0 {
			to = at + i
		}
		pos = to + 1
		line := b[from:to]
		if !g.keepCR {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		literal := sure && g.bytes
		// The automaton has seen the carriage return that line is without.
		if !literal && !(sure && (g.keepCR || bytes.IndexByte(b[from:to], '\r') < 0)) && !g.lineFinder.matches(line) {
			if err := g.ctx.Err(); err != nil {
				return err
			}
			continue
		}
		g.rows.matches++
		switch {
		case g.rows.wants():
			span := []int{at - from, at - from}
			if !literal {
				span = g.find(line)
			}
			g.rows.match(b, from, to, line, span)
		case g.opts.Mode == ModeFiles:
			return nil
		}
	}
	if g.rows.wanted {
		g.rows.after(b, len(b))
	}
	return g.ctx.Err()
}
