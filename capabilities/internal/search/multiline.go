package search

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// whole searches a file for matches that may be longer than a line.
func (g *grepper) whole(f io.Reader) (outcome, error) {
	r := reader{g: g, src: f}
	for {
		binary, err := r.fill()
		if err != nil || binary {
			return outcomeBinary, err
		}
		if r.eof {
			break
		}
		if len(g.buf) >= maxMultiline {
			return outcomeTooLong, nil
		}
		r.grow()
	}
	b := g.buf[:r.n]
	if !g.keepCR {
		b = dropCR(b)
	}
	if g.has {
		g.lineFinder.block(b)
		if g.bytes {
			if at, _ := g.next(b, 0); at < 0 {
				return outcomeText, nil
			}
		}
	}
	seen := 0  // the lines before it have been counted
	last := -1 // where the last match ended
	for pos := 0; pos < len(b); {
		if err := g.ctx.Err(); err != nil {
			return outcomeText, err
		}
		span := g.findFrom(b, pos)
		if span == nil && pos > 0 && b[pos-1] != '\n' && !g.starts {
			if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 { // this line has no more
				pos += i + 1
				continue
			}
		}
		if span == nil || span[0] == len(b) && b[len(b)-1] == '\n' {
			break
		}
		first, end := span[0], span[1]
		to := end
		if end > first && b[end-1] == '\n' {
			to--
		} else if i := bytes.IndexByte(b[end:], '\n'); i >= 0 {
			to = end + i
		} else {
			to = len(b)
		}
		if pos = end; end == first {
			_, size := utf8.DecodeRune(b[end:])
			pos += max(size, 1)
		}
		empty := first == end && end == last // right behind another one: none
		if last = end; empty || to < seen {
			continue // in lines that are shown already
		}
		seen = to + 1
		g.rows.matches++
		if g.rows.wants() {
			from := bytes.LastIndexByte(b[:first], '\n') + 1
			g.rows.match(b, from, to, b[from:to], []int{first - from, end - from})
		}
		if g.opts.Mode == ModeFiles {
			break
		}
	}
	if g.rows.wanted {
		g.rows.after(b, len(b))
	}
	return outcomeText, nil
}

// dropCR takes the carriage returns at the ends of the lines away.
func dropCR(b []byte) []byte {
	n := bytes.Index(b, []byte("\r\n"))
	if n < 0 {
		return b
	}
	for i := n; i < len(b); {
		k := bytes.Index(b[i+1:], []byte("\r\n")) + 1
		if k == 0 {
			k = len(b) - i
		}
		n += copy(b[n:], b[i+1:i+k])
		i += k
	}
	return b[:n]
}

// findFrom is where the pattern is found first at b[from] or behind it, with what is before
// from in sight of ^, \b and \A. Of a pattern without \A it is only what begins in the line
// of from, unless that is where the line begins.
func (f *lineFinder) findFrom(b []byte, from int) []int {
	if from == 0 || b[from-1] == '\n' && !f.starts {
		span := f.find(b[from:])
		if span == nil {
			return nil
		}
		return []int{span[0] + from, span[1] + from}
	}
	re := f.inLine()
	if f.starts {
		re = f.behind()
	}
	from--
	var all []int
	if text := b[from:]; len(text) <= longText {
		all = re.FindSubmatchIndex(text)
	} else {
		all = re.FindReaderSubmatchIndex(&cancelableRunes{ctx: f.ctx, b: text})
	}
	if all == nil {
		return nil
	}
	return []int{all[2] + from, all[3] + from}
}
