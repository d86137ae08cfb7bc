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
)

// headSize is how many bytes at the start of a file tell what it is.
const headSize = 8 << 10

// source reads a file once, from its start, and knows how much of it there was and,
// when asked for, its hash, whatever was made of the bytes.
type source struct {
	*bufio.Reader
	raw *counted
}

// counted is what is below the buffer.
type counted struct {
	ctx  context.Context
	r    io.Reader
	hash hash.Hash // nil: nobody asks for it
	size int64
	end  bool // it has been seen, and need not be asked for again
}

// bufferSize is the buffer of a source, in bytes.
const bufferSize = 256 << 10

// newSource reads r through buffer, a new one when it is nil.
func newSource(ctx context.Context, r io.Reader, buffer *bufio.Reader, hashed bool) *source {
	raw := &counted{ctx: ctx, r: r}
	if hashed {
		raw.hash = sha256.New()
	}
	if buffer == nil {
		buffer = bufio.NewReaderSize(nil, bufferSize)
	}
	buffer.Reset(raw)
	return &source{Reader: buffer, raw: raw}
}

// hash asks for the hash after all. Nothing has been taken from the buffer yet.
func (s *source) hash() {
	s.raw.hash = sha256.New()
	b, _ := s.Peek(s.Buffered())
	s.raw.hash.Write(b)
}

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.end {
		return 0, io.EOF
	}
	n, err := c.r.Read(p)
	c.end = err == io.EOF
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	c.size += int64(n)
	return n, err
}

// chunk returns what is next, without a copy: it is good until the next call. At the
// end it is io.EOF.
func (s *source) chunk() ([]byte, error) {
	if s.Buffered() == 0 {
		if _, err := s.Peek(1); err != nil {
			return nil, err
		}
	}
	b, err := s.Peek(s.Buffered())
	if err == nil {
		_, err = s.Discard(len(b))
	}
	return b, err
}

// drain reads what is left.
func (s *source) drain() error {
	for {
		if _, err := s.chunk(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// sum is the hash of what was read.
func (s *source) sum() (content sum) {
	s.raw.hash.Sum(content[:0])
	return content
}

// Encodings of text as they are named in results.
const (
	utf8Text    = "utf-8"
	utf8BOM     = "utf-8-bom"
	utf16LE     = "utf-16le"
	utf16BE     = "utf-16be"
	utf32LE     = "utf-32le"
	notUTF8Text = "unknown-8bit"
)

// format is what the first bytes of a file say.
type format struct {
	mime     string // of an image or of something binary, "" for text
	image    bool   // one that models take
	encoding string // of text, as far as a byte order mark says it
	nuls     bool   // but for NUL characters it would be text
}

// sniff tells text from the rest. Signatures that are plain letters, as "BM" or
// "ID3", count only when the bytes behind them are not text.
func sniff(head []byte) format {
	switch {
	case bytes.HasPrefix(head, []byte(utf8Mark)):
		return format{encoding: utf8BOM}
	case bytes.HasPrefix(head, []byte(utf32Mark)):
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
		rest := bytes.ReplaceAll(head, []byte{0}, nil)
		return format{mime: "application/octet-stream", nuls: len(rest) > 0 && strings.HasPrefix(http.DetectContentType(rest), "text/")}
	}
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return format{mime: mime, image: true}
	}
	return format{mime: mime}
}

// Byte order marks in UTF-8 and in UTF-32, low bytes first.
const (
	utf8Mark  = "\xef\xbb\xbf"
	utf32Mark = "\xff\xfe\x00\x00"
)

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

// plain reports that b can be shown as it is.
func plain(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// plainPrefix is how many bytes at the start of b can be shown as they are.
func plainPrefix(b []byte) int {
	for at := 0; at < len(b); {
		if 0 < b[at] && b[at] < utf8.RuneSelf {
			at++
			continue
		}
		r, size := utf8.DecodeRune(b[at:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return len(b)
}

// clean makes text of bytes: what is no UTF-8 and every NUL becomes U+FFFD, one
// for each byte, and is counted.
func clean(b []byte) (text string, invalid, nuls int) {
	if plain(b) {
		return string(b), 0, 0
	}
	out, invalid, nuls := appendClean(nil, b)
	return string(out), invalid, nuls
}

func appendClean(out, b []byte) (text []byte, invalid, nuls int) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			invalid++
		case r == 0:
			nuls++
			r = utf8.RuneError
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out, invalid, nuls
}

// cleanSize is how many bytes clean makes of b.
func cleanSize(b []byte) int {
	if plain(b) {
		return len(b)
	}
	text, _, _ := appendClean(nil, b)
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
