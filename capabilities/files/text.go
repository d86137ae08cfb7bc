package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// headSize is how many bytes at the start of a file tell what it is.
const headSize = 8 << 10

// source reads a file once, from its start to its end, and knows afterwards its
// hash and its size, whatever was made of the bytes.
type source struct {
	*bufio.Reader
	raw *hashed
}

type hashed struct {
	ctx  context.Context
	r    io.Reader
	hash hash.Hash
	size int64
}

func newSource(ctx context.Context, r io.Reader) *source {
	raw := &hashed{ctx: ctx, r: r, hash: sha256.New()}
	return &source{Reader: bufio.NewReaderSize(raw, 128<<10), raw: raw}
}

func (h *hashed) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := h.r.Read(p)
	h.hash.Write(p[:n])
	h.size += int64(n)
	return n, err
}

// finish reads what is left and returns hash and size of all.
func (s *source) finish() (content sum, size int64, err error) {
	_, err = io.Copy(io.Discard, s)
	s.raw.hash.Sum(content[:0])
	return content, s.raw.size, err
}

// Encodings of text as they are named in results.
const (
	utf8Text    = "utf-8"
	utf8BOM     = "utf-8-bom"
	utf16LE     = "utf-16le"
	utf16BE     = "utf-16be"
	notUTF8Text = "unknown-8bit"
)

// format is what the first bytes of a file say.
type format struct {
	mime     string // of an image or of something binary, "" for text
	image    bool   // one that models take
	encoding string // of text, as far as a byte order mark says it
}

// sniff tells text from the rest. Signatures that are plain letters, as "BM" or
// "ID3", count only when the bytes behind them are not text.
func sniff(head []byte) format {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return format{encoding: utf8BOM}
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")): // UTF-32
		return format{mime: "text/plain; charset=utf-32"}
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return format{encoding: utf16LE}
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return format{encoding: utf16BE}
	}
	mime := http.DetectContentType(head)
	known := !strings.HasPrefix(mime, "text/") && mime != "application/octet-stream"
	nul := bytes.IndexByte(head, 0) >= 0
	if !nul && (!known || mime == "image/bmp" || utf8.Valid(wholeRunes(head))) {
		return format{encoding: utf8Text}
	}
	if !known {
		return format{mime: "application/octet-stream"}
	}
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return format{mime: mime, image: true}
	}
	return format{mime: mime}
}

// text returns the source decoded to UTF-8, without a byte order mark.
func (s *source) text(encoding string) io.Reader {
	switch encoding {
	case utf8BOM:
		s.Discard(3)
	case utf16LE:
		return transform.NewReader(s, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder())
	case utf16BE:
		return transform.NewReader(s, unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder())
	}
	return s
}

// wholeRunes drops a character that is cut off at the end of b.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// clean makes text of bytes: what is no UTF-8 and every NUL becomes U+FFFD, one
// for each byte, and is counted.
func clean(b []byte) (text string, invalid, nuls int) {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return string(b), 0, 0
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			invalid++
		case r == 0:
			nuls++
			r = utf8.RuneError
		}
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String(), invalid, nuls
}

// cleanSize is how many bytes clean makes of b.
func cleanSize(b []byte) int {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return len(b)
	}
	text, _, _ := clean(b)
	return len(text)
}

// cleanFit is how much of b can be made clean within so many bytes.
func cleanFit(b []byte, most int) int {
	n := min(len(b), max(most, 0))
	if cleanSize(b[:n]) > most {
		n = max(most, 0) / utf8.RuneLen(utf8.RuneError) // the worst case
	}
	return n
}
