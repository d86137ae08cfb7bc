package files

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// utf16Order is the byte order of an encoding that is UTF-16 with its mark.
func utf16Order(encoding string) (order unicode.Endianness, ok bool) {
	switch encoding {
	case utf16LE:
		return unicode.LittleEndian, true
	case utf16BE:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

// wideEncoding is the encoding that a content's byte order mark says, when it is one with
// more than a byte for each character; "" for others.
func wideEncoding(content []byte) string {
	if bytes.HasPrefix(content, []byte(utf32Mark)) {
		return utf32LE
	}
	encoding := sniff(content[:min(len(content), headSize)]).encoding
	if _, wide := utf16Order(encoding); wide {
		return encoding
	}
	return ""
}

// fromUTF16 makes UTF-8 without a mark of a content in that encoding. ok is false when it
// is not UTF-16, or when what toUTF16 made of the text would not be the same bytes again:
// halves of characters, for one.
func fromUTF16(content []byte, encoding string) (text []byte, ok bool) {
	order, ok := utf16Order(encoding)
	if !ok {
		return nil, false
	}
	text, err := unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(content)
	if err != nil || !bytes.Equal(toUTF16(text, encoding), content) {
		return nil, false
	}
	return text, true
}

// toUTF16 makes UTF-16 with its mark of UTF-8.
func toUTF16(text []byte, encoding string) []byte {
	order, _ := utf16Order(encoding)
	content, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().Bytes(text)
	if err != nil {
		return nil
	}
	return content
}

// wideReader reads UTF-16 as it is and finds out whether it is whole: fromUTF16 would take
// it. It belongs to one goroutine.
type wideReader struct {
	r    io.Reader
	high int // which byte of a unit says whether it is half of a character

	size  int64
	first bool // the unit before is a first half
	bad   bool // a half without the other
}

func (w *wideReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	for i := (int64(w.high) - w.size) & 1; i < int64(n); i += 2 {
		first, second := p[i]&0xfc == 0xd8, p[i]&0xfc == 0xdc
		if w.first != second {
			w.bad = true
		}
		w.first = first
	}
	w.size += int64(n)
	return n, err
}

// damaged is known when all has been read.
func (w *wideReader) damaged() bool { return w.bad || w.first || w.size%2 != 0 }

// decoded is the text of w without a byte order mark, in UTF-8.
func (w *wideReader) decoded(order unicode.Endianness) io.Reader {
	return transform.NewReader(w, unicode.UTF16(order, unicode.UseBOM).NewDecoder())
}

// newWideReader reads r, which is UTF-16 in that order.
func newWideReader(r io.Reader, order unicode.Endianness) *wideReader {
	w := &wideReader{r: r}
	if order == unicode.LittleEndian {
		w.high = 1
	}
	return w
}
