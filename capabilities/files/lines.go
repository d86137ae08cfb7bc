package files

import (
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"
)

// window says which lines of a text are wanted and how much of them.
type window struct {
	first int64 // number of the first line, from 1
	limit int64 // how many lines
	chars int   // of one line; 0 = all
	bytes int   // of all lines together as they are shown: with numbers and made clean
}

// appendNumber numbers a line; with the newline behind it that adds numberWidth bytes.
func appendNumber(b []byte, number int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], number, 10)
	b = append(b, "      "[:max(0, 6-len(d))]...)
	b = append(b, d...)
	return append(b, '\t')
}

func numberWidth(number int64) int {
	digits := 6
	for number >= 1_000_000 {
		number /= 10
		digits++
	}
	return digits + 2
}

// lines is what was found in one pass over a text, beside the lines themselves.
type lines struct {
	count    int64   // lines that were shown
	total    int64   // lines in the whole text; a last one without newline counts
	nuls     int64   // NUL characters in the whole text
	unending bool    // the last line has no newline
	damaged  bool    // it is UTF-16 with halves of characters
	full     bool    // it ended because window.bytes were used up
	blocks   []int64 // newlines before each block of the file, as far as it was read
}

// line is a line that is shown, or the start of it.
type line struct {
	text   []byte // without the newline; good until the next one
	length int64  // bytes of the whole line
	chars  int64  // characters of it, when it is cut
	plain  bool   // text is shown as it is
	ended  bool   // by a newline
}

func (l line) cut() bool { return int64(len(l.text)) < l.length }

// scan reads r to its end and shows what w wants. Memory is bounded by w, however
// long the text and its lines are.
func scan(r io.Reader, w window, show func(number int64, l line)) (lines, error) {
	s := newScanner(w, 0, 0, show)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		s.add(buf[:n])
		if err == io.EOF {
			return s.end(), nil
		}
		if err != nil {
			return lines{}, err
		}
	}
}

// scanSource is scan without a copy. With early it stops when it has what w wants,
// and the totals are of what was read.
func scanSource(src *source, s *scanner, early bool) (lines, error) {
	for {
		b, err := src.chunk()
		if err == io.EOF {
			return s.end(), nil
		}
		if err != nil {
			return lines{}, err
		}
		s.add(b)
		if early && s.done() {
			return s.lines, nil
		}
	}
}

type scanner struct {
	window
	lines
	show    func(number int64, l line)
	showAll func(number int64, whole []byte) // many plain lines at once; nil: each for itself
	offset  int64                            // in the file, of the next byte
	number  int64                            // of the line that the next byte belongs to
	open    bool                             // that line has bytes already
	used    int                              // of window.bytes
	begun   line                             // what is kept of a line that began in an earlier piece
	stopped bool
}

// newScanner begins at offset of a file, before which there are so many newlines.
func newScanner(w window, offset, newlines int64, show func(number int64, l line)) *scanner {
	return &scanner{window: w, show: show, offset: offset, number: newlines + 1}
}

// done: nothing more will be shown.
func (s *scanner) done() bool { return s.stopped || s.number >= s.first+s.limit }

// add takes the next piece of the text, one block of the index at a time.
func (s *scanner) add(b []byte) {
	for len(b) > 0 {
		n := min(int64(len(b)), blockSize-s.offset%blockSize)
		if s.offset%blockSize == 0 || len(s.blocks) == 0 {
			s.blocks = append(s.blocks, s.number-1)
		}
		s.addPiece(b[:n])
		s.offset += n
		b = b[n:]
	}
}

func (s *scanner) addPiece(b []byte) {
	if bytes.IndexByte(b, 0) >= 0 {
		s.nuls += int64(bytes.Count(b, []byte{0}))
	}
	newlines := int64(-1)
	if s.number < s.first {
		newlines = int64(bytes.Count(b, newline))
	}
	if s.done() || s.number+newlines < s.first && newlines >= 0 {
		s.skip(b, newlines)
		return
	}
	for len(b) > 0 {
		if s.done() {
			s.skip(b, -1)
			return
		}
		if n := s.whole(b); n > 0 {
			b = b[n:]
			continue
		}
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		shown := s.number >= s.first
		switch {
		case i < 0:
			if shown {
				s.keep(part)
			}
			s.open = true
			return
		case shown && s.begun.length > 0:
			s.keep(part)
			s.finishBegun(true)
		case shown:
			s.finish(line{text: part, length: int64(len(part)), ended: true})
		}
		s.number++
		s.open = false
		b = b[i+1:]
	}
}

var newline = []byte{'\n'}

// whole shows the lines that end in b at once, when all of them are shown as they are and
// there is room, and says how many bytes they have. It is for long texts: each line for
// itself takes three times as long.
func (s *scanner) whole(b []byte) int {
	if s.showAll == nil || s.chars > 0 || s.number < s.first || s.begun.length > 0 || len(b) < minWhole {
		return 0
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	n := bytes.Count(b, newline)
	if most := s.first + s.limit - s.number; int64(n) > most {
		n = int(most)
		at := 0
		for range n {
			at += bytes.IndexByte(b[at:], '\n') + 1
		}
		b = b[:at]
	}
	width := numberWidth(s.number)
	used := len(b) + n*(width-1)
	if n == 0 || width != numberWidth(s.number+int64(n)) || used > s.bytes-s.used {
		return 0
	}
	if !plain(b) { // all lines before the first that is not, or they would be looked through again with each
		b = b[:bytes.LastIndexByte(b[:plainPrefix(b)], '\n')+1]
		if len(b) < minWhole {
			return 0
		}
		n = bytes.Count(b, newline)
		used = len(b) + n*(width-1)
	}
	s.showAll(s.number, b)
	s.used += used
	s.count += int64(n)
	s.number += int64(n)
	s.open = false
	return len(b)
}

// minWhole is how many bytes are worth it.
const minWhole = 4 << 10

// skip only counts, unless that has been done.
func (s *scanner) skip(b []byte, newlines int64) {
	if newlines < 0 {
		newlines = int64(bytes.Count(b, newline))
	}
	s.number += newlines
	s.open = b[len(b)-1] != '\n'
}

// keep adds a piece to the line that has begun, as far as it can be shown.
func (s *scanner) keep(part []byte) {
	most := s.bytes
	if s.chars > 0 {
		most = min(most, s.chars*utf8.UTFMax)
	}
	s.begun.text = append(s.begun.text, part[:min(len(part), max(0, most-len(s.begun.text)))]...)
	s.begun.length += int64(len(part))
	s.begun.chars += runes(part)
}

func (s *scanner) finishBegun(newline bool) {
	l := s.begun
	s.begun = line{text: l.text[:0]}
	l.ended = newline
	s.finish(l)
}

// runes counts the characters that begin in b.
func runes(b []byte) int64 {
	n := len(b)
	for _, c := range b {
		if c&0xc0 == 0x80 {
			n--
		}
	}
	return int64(n)
}

// finish shows a line as far as there is room.
func (s *scanner) finish(l line) {
	all := l.text
	if s.chars > 0 && len(l.text) > s.chars {
		l.text = l.text[:runeIndex(l.text, s.chars)]
	}
	width := numberWidth(s.number)
	size, room := len(l.text), s.bytes-s.used-width
	if l.plain = plain(l.text); !l.plain {
		size = cleanSize(l.text)
	}
	if size > room {
		if s.count > 0 {
			s.full, s.stopped = true, true
			return
		}
		l.text = l.text[:cleanFit(l.text, room)]
	}
	if l.cut() {
		l.text = wholeRunes(l.text)
		l.plain, size = plain(l.text), cleanSize(l.text)
		if l.chars == 0 {
			l.chars = runes(all)
		}
	}
	s.used += size + width
	s.count++
	s.show(s.number, l)
}

func (s *scanner) end() lines {
	s.unending = s.open
	s.total = s.number - 1
	if s.open {
		s.total++
		if !s.stopped && s.number >= s.first && s.number < s.first+s.limit {
			s.finishBegun(false)
		}
	}
	return s.lines
}

// runeIndex is where the n-th character of b begins, len(b) when there are fewer.
func runeIndex(b []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return at
}
