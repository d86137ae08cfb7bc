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

// numberFormat numbers a line; numberWidth is how many bytes that adds to it.
const numberFormat = "%6d\t%s\n"

func numberWidth(number int64) int { return max(6, len(strconv.FormatInt(number, 10))) + 2 }

// lines is what was found in one pass over a text.
type lines struct {
	shown    []line
	total    int64 // lines in the whole text; a last one without newline counts
	nuls     int64 // NUL characters in the whole text
	unending bool  // the last line has no newline
	full     bool  // it ended because window.bytes were used up
}

// line is a line that is shown, or the start of it.
type line struct {
	text   []byte // without the newline
	length int64  // bytes of the whole line
	chars  int64  // characters of it
	ended  bool   // by a newline
}

func (l line) cut() bool { return int64(len(l.text)) < l.length }

// scan reads r to its end and keeps what w wants. Memory is bounded by w, however
// long the text and its lines are.
func scan(r io.Reader, w window) (lines, error) {
	s := scanner{window: w, number: 1}
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

type scanner struct {
	window
	lines
	number  int64 // of the line that the next byte belongs to
	open    bool  // that line has bytes already
	used    int   // of window.bytes
	cur     line
	stopped bool
}

// add takes the next piece of the text.
func (s *scanner) add(b []byte) {
	s.nuls += int64(bytes.Count(b, []byte{0}))
	if s.number+int64(bytes.Count(b, []byte{'\n'})) < s.first && len(b) > 0 {
		s.skip(b)
		return
	}
	for len(b) > 0 {
		if s.stopped || s.number >= s.first+s.limit {
			s.skip(b)
			return
		}
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if s.number >= s.first {
			s.keep(part)
		}
		if i < 0 {
			s.open = true
			return
		}
		if s.number >= s.first {
			s.finishLine(true)
		}
		s.number++
		s.open = false
		b = b[i+1:]
	}
}

// skip only counts.
func (s *scanner) skip(b []byte) {
	s.number += int64(bytes.Count(b, []byte{'\n'}))
	s.open = b[len(b)-1] != '\n'
}

// keep adds a piece to the current line as far as it can be shown.
func (s *scanner) keep(part []byte) {
	most := s.bytes
	if s.chars > 0 {
		most = min(most, s.chars*utf8.UTFMax)
	}
	s.cur.text = append(s.cur.text, part[:min(len(part), max(0, most-len(s.cur.text)))]...)
	s.cur.length += int64(len(part))
	for _, c := range part {
		if utf8.RuneStart(c) {
			s.cur.chars++
		}
	}
}

func (s *scanner) finishLine(newline bool) {
	l := s.cur
	s.cur = line{}
	l.ended = newline
	if s.chars > 0 {
		l.text = l.text[:runeIndex(l.text, s.chars)]
	}
	if room := s.bytes - s.used - numberWidth(s.number); cleanSize(l.text) > room {
		if len(s.shown) > 0 {
			s.full, s.stopped = true, true
			return
		}
		l.text = l.text[:cleanFit(l.text, room)]
	}
	if l.cut() {
		l.text = wholeRunes(l.text)
	}
	s.used += cleanSize(l.text) + numberWidth(s.number)
	s.shown = append(s.shown, l)
}

func (s *scanner) end() lines {
	s.unending = s.open
	s.total = s.number - 1
	if s.open {
		s.total++
		if !s.stopped && s.number >= s.first && s.number < s.first+s.limit {
			s.finishLine(false)
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
