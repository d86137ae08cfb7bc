package redact

import (
	"bytes"
	"sort"
)

// A secret is found over the ends of lines too, as programs break long ones: what is looked at is the text without
// each line end, "\n" or "\r\n", that stands by itself between two other bytes. Several of them in a row stay, so that
// what is held back of a stream is bounded.

// joined is a text without its line ends, and where each of its bytes was. It may be used again.
type joined struct {
	text []byte // of the text that was given, or of buf
	buf  []byte
	cuts []cut
}

// cut is a place where something was left out.
type cut struct {
	at  int // in the joined text
	out int // how many bytes, here and before
}

func isEnd(b byte) bool { return b == '\n' || b == '\r' }

// join sets it. open: more may follow, so that a line end behind the last byte is left out too.
func (j *joined) join(p []byte, open bool) {
	j.cuts = j.cuts[:0]
	next := bytes.IndexByte(p, '\n')
	if next < 0 && !(open && len(p) > 0 && p[len(p)-1] == '\r') {
		j.text = p
		return
	}
	out, from := j.buf[:0], 0
	leave := func(begin, end int) {
		out = append(out, p[from:begin]...)
		total := end - begin
		if n := len(j.cuts); n > 0 {
			total += j.cuts[n-1].out
		}
		j.cuts = append(j.cuts, cut{len(out), total})
		from = end
	}
	for at := next; next >= 0; at += next {
		begin, end := at, at+1
		if begin > 0 && p[begin-1] == '\r' {
			begin--
		}
		if begin > 0 && !isEnd(p[begin-1]) && (end < len(p) && !isEnd(p[end]) || open && end == len(p)) {
			leave(begin, end)
		}
		at = end
		next = bytes.IndexByte(p[at:], '\n')
	}
	if n := len(p); open && n > 1 && p[n-1] == '\r' && !isEnd(p[n-2]) { // the first half of one
		leave(n-1, n)
	}
	j.buf = append(out, p[from:]...)
	j.text = j.buf
}

// raw is where a byte of the joined text was; its length is where the bytes behind it would be.
func (j *joined) raw(at int) int {
	if i := sort.Search(len(j.cuts), func(i int) bool { return j.cuts[i].at > at }); i > 0 {
		at += j.cuts[i-1].out
	}
	return at
}

// find is matcher.find, with places in the text that was given.
func (j *joined) find(m *matcher, found func(from, to int)) {
	m.find(j.text, func(from, to int) { found(j.raw(from), j.raw(to-1)+1) })
}

// join is a text without its line ends.
func join(s string) string {
	var j joined
	j.join([]byte(s), false)
	return string(j.text)
}

// shown is how many of the first bytes of what is held back are let out since they are short lines: up to the last line
// end with fewer than MinLength other bytes in front of it. So what comes line by line is not late for a few letters
// that a secret begins with.
func shown(held []byte) (n int) {
	other := 0
	for i, b := range held {
		switch {
		case !isEnd(b):
			if other++; other == MinLength {
				return n
			}
		case b == '\n':
			n = i + 1
		}
	}
	return n
}
