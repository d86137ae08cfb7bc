package files

import (
	"bytes"
	"strings"
)

// page is what read shows: lines with their numbers for people, and the same without
// them for programs.
type page struct {
	text, content strings.Builder
	notes         notes
}

// grow makes room for about what a window of a file of so many bytes and lines will
// need; 0 lines = not known.
func (p *page) grow(w window, size, total int64) {
	need := min(size, int64(w.bytes))
	per := int64(100)
	if total > 0 {
		per = size/total + 1
	}
	if w.limit < need/per {
		need = w.limit * per
	}
	p.content.Grow(int(need))
	p.text.Grow(int(need+need/per*int64(numberWidth(w.first))) + noteBytes)
}

// add shows a line.
func (p *page) add(number int64, l line) {
	shown := l.text
	if !l.plain {
		var invalid, nuls int
		shown, invalid, nuls = appendClean(nil, l.text)
		p.notes.invalid += invalid
		p.notes.nuls += nuls
	}
	p.content.Write(shown)
	if l.ended {
		p.content.WriteByte('\n')
		if n := len(shown); n > 0 && shown[n-1] == '\r' && !l.cut() {
			p.notes.crlf++
			shown = shown[:n-1]
		}
	}
	var digits [24]byte
	p.text.Write(appendNumber(digits[:0], number))
	p.text.Write(shown)
	if l.cut() {
		p.notes.cut++
		if l.chars > p.notes.longest {
			p.notes.longest, p.notes.longestLine = l.chars, number
		}
		p.text.WriteString(" …")
	}
	p.text.WriteByte('\n')
}

// addAll shows lines that need no change, whole ones.
func (p *page) addAll(number int64, whole []byte) {
	p.content.Write(whole)
	var digits [24]byte
	prefix := appendNumber(digits[:0], number)
	for len(whole) > 0 {
		n := bytes.IndexByte(whole, '\n') + 1
		p.text.Write(prefix)
		p.text.Write(whole[:n])
		whole = whole[n:]
		increment(prefix[:len(prefix)-1])
	}
}

// increment counts a number on that is written with blanks before it, which have room.
func increment(digits []byte) {
	for i := len(digits) - 1; i >= 0; i-- {
		switch digits[i] {
		case '9':
			digits[i] = '0'
		case ' ':
			digits[i] = '1'
			return
		default:
			digits[i]++
			return
		}
	}
}
