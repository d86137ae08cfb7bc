package files

import (
	"bytes"
	"strings"
	"unsafe"
)

// page is what read shows: lines with their numbers for people, and the same without
// them for programs.
type page struct {
	text, content part
	notes         notes
}

// part is a text that is being written.
type part []byte

func (p *part) Write(b []byte) (int, error) {
	*p = append(*p, b...)
	return len(b), nil
}

func (p *part) WriteByte(c byte) error {
	*p = append(*p, c)
	return nil
}

func (p *part) WriteString(s string) { *p = append(*p, s...) }

// String is the text. Nothing may be written after it: it is not copied.
func (p part) String() string { return unsafe.String(unsafe.SliceData(p), len(p)) }

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
	p.room(int(need), int(need+need/per*int64(numberWidth(w.first)))+noteBytes)
}

// room makes room for so many bytes. It is one piece of memory, because what begins a
// garbage collection with the first piece has to help with it for the second, and it is
// not cleared, because all of it that is shown is written first.
func (p *page) room(content, text int) {
	var b strings.Builder
	b.Grow(content + text)
	b.WriteByte(0) // so that there is something to point to
	memory := unsafe.Slice(unsafe.StringData(b.String()), b.Cap())
	p.content, p.text = memory[:0:content], memory[content:content]
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
	p.content = append(p.content, shown...)
	if l.ended {
		p.content = append(p.content, '\n')
		if n := len(shown); n > 0 && shown[n-1] == '\r' && !l.cut() {
			p.notes.crlf++
			shown = shown[:n-1]
		}
	}
	p.text = append(appendNumber(p.text, number), shown...)
	if l.cut() {
		p.notes.cut++
		if l.chars > p.notes.longest {
			p.notes.longest, p.notes.longestLine = l.chars, number
		}
		p.text = append(p.text, " …"...)
	}
	p.text = append(p.text, '\n')
}

// addAll shows lines that need no change, whole ones.
func (p *page) addAll(number int64, whole []byte) {
	p.content = append(p.content, whole...)
	p.number(number, whole)
}

// number writes whole lines with their numbers, which all have as many digits.
func (p *page) number(number int64, whole []byte) {
	var digits [24]byte
	prefix := appendNumber(digits[:0], number)
	text := p.text
	for len(whole) > 0 {
		n := bytes.IndexByte(whole, '\n')
		text = append(text, prefix...)
		if n > 0 && whole[n-1] == '\r' {
			text = append(append(text, whole[:n-1]...), '\n')
			p.notes.crlf++
		} else {
			text = append(text, whole[:n+1]...)
		}
		whole = whole[n+1:]
		increment(prefix[:len(prefix)-1])
	}
	p.text = text
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
