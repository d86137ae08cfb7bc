package stream

import (
	"bytes"
	"unicode/utf8"
)

// HeadTail keeps the beginning and the end of a text that may be of any length. It needs about twice
// its limit of memory. It is not safe for concurrent use.
type HeadTail struct {
	headCap, tailCap int
	head             []byte
	tail             []byte // its last tailCap bytes count; the rest is slack, to move rarely
	total            int64
}

// NewHeadTail keeps at least limit bytes: two fifths for the beginning, the rest for the end, where
// programs say how it went.
func NewHeadTail(limit int) *HeadTail {
	h := headShare(limit)
	return &HeadTail{headCap: h, tailCap: limit - h}
}

func headShare(limit int) int { return limit * 2 / 5 }

// Write takes the next bytes of valid UTF-8. It never fails.
func (h *HeadTail) Write(p []byte) (int, error) {
	size := len(p)
	h.total += int64(size)
	if room := h.headCap - len(h.head); room > 0 {
		n := min(room, len(p))
		h.head = append(h.head, p[:n]...)
		p = p[n:]
	}
	if len(p) >= h.tailCap {
		h.tail = append(h.tail[:0], p[len(p)-h.tailCap:]...)
		return size, nil
	}
	if len(h.tail)+len(p) > 2*h.tailCap {
		h.tail = append(h.tail[:0], h.tail[len(h.tail)-h.tailCap:]...)
	}
	h.tail = append(h.tail, p...)
	return size, nil
}

// Total is the number of bytes written.
func (h *HeadTail) Total() int64 { return h.total }

// View is a text, or its beginning and its end.
type View struct {
	Head    string
	Tail    string // empty when nothing is omitted
	Omitted int64  // bytes between them, exactly
	Total   int64  // bytes of the whole text
}

// Text puts the two together, with a line between them that stands for what is omitted.
func (v View) Text(note string) string {
	if v.Omitted == 0 {
		return v.Head + v.Tail
	}
	head := v.Head
	if head != "" && head[len(head)-1] != '\n' {
		head += "\n"
	}
	return head + note + "\n" + v.Tail
}

// View shows at most limit bytes, and at most what is kept. Cuts are between characters, and between
// lines where a line ends near by. The end of the last line is always there.
func (h *HeadTail) View(limit int) View {
	limit = min(limit, h.headCap+h.tailCap)
	v := View{Total: h.total}
	kept := int64(len(h.head) + min(len(h.tail), h.tailCap))
	if h.total <= int64(limit) && h.total == kept {
		v.Head = string(h.head) + string(h.tail)
		return v
	}
	// The end may reach back into the beginning when the limit is below what is kept.
	share := headShare(limit)
	head := h.head[:min(share, len(h.head))]
	tail := h.tail[max(0, len(h.tail)-h.tailCap):]
	if rest := limit - share; len(tail) > rest {
		tail = tail[len(tail)-rest:]
	} else if missing := rest - len(tail); missing > 0 && h.total == kept {
		from := max(len(head), len(h.head)-missing)
		tail = append(bytes.Clone(h.head[from:]), tail...)
	}
	head, tail = cutHead(head), cutTail(tail)
	v.Head, v.Tail = string(head), string(tail)
	v.Omitted = h.total - int64(len(head)+len(tail))
	return v
}

// cutHead ends the head with a whole character, and with a whole line if that costs a quarter at most.
func cutHead(p []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				p = p[:len(p)-i]
			}
			break
		}
	}
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 && i+1 >= len(p)-len(p)/4 {
		p = p[:i+1]
	}
	return p
}

// cutTail begins the tail with a whole character, and with a whole line on the same terms.
func cutTail(p []byte) []byte {
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	if i := bytes.IndexByte(p, '\n'); i >= 0 && i < len(p)/4 {
		p = p[i+1:]
	}
	return p
}
