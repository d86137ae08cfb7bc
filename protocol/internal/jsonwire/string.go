package jsonwire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string, byte for byte as encoding/json does
// when it does not escape HTML.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	wellFormed := false // the rest of s is known to be valid UTF-8
	start := 0
	for i := 0; ; {
		if i = cleanRun(s, i, wellFormed); i >= len(s) {
			dst = append(dst, s[start:]...)
			return append(dst, '"')
		}
		c := s[i]
		if c >= utf8.RuneSelf && !wellFormed && utf8.ValidString(s[i:]) {
			wellFormed = true
			continue
		}
		size := 1
		var escape string
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
				escape = `\ufffd`
			} else if r == '\u2028' {
				escape = `\u2028` // these two would end a line of JavaScript
			} else if r == '\u2029' {
				escape = `\u2029`
			} else {
				i += size
				continue
			}
		default:
			escape = escapes[c]
		}
		dst = append(dst, s[start:i]...)
		dst = append(dst, escape...)
		i += size
		start = i
	}
}

// escapes of the ASCII bytes that need one.
var escapes = func() (t [utf8.RuneSelf]string) {
	for c := range byte(0x20) {
		t[c] = `\u00` + hexDigits[c>>4:c>>4+1] + hexDigits[c&15:c&15+1]
	}
	t['"'], t['\\'] = `\"`, `\\`
	t['\b'], t['\f'], t['\n'], t['\r'], t['\t'] = `\b`, `\f`, `\n`, `\r`, `\t`
	return t
}()

// cleanRun returns the index of the first byte from s[i] on that may not be
// copied as it is: a quote, a backslash, a control byte, or one beyond ASCII. In
// well-formed text only E2 counts of the last, with which U+2028 begins.
func cleanRun(s string, i int, wellFormed bool) int {
	beyond := uint64(highs)
	if wellFormed {
		beyond = 0
	}
	b := unsafe.Slice(unsafe.StringData(s), len(s)) // only read; encoding/binary takes no string
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash, e2 := w^ones*'"', w^ones*'\\', w^ones*0xE2
		stop := ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*0x20)&^w|(e2-ones)&^e2)&highs | w&beyond
		if stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' || c == 0xE2 || c >= utf8.RuneSelf && !wellFormed {
			return i
		}
	}
	return i
}

// stringEnd returns the index after the valid string whose opening quote is
// b[i], and whether its inside is plain: ASCII without escapes.
func stringEnd(b []byte, i int) (end int, plain bool) {
	i++
	var seen uint64
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		if stop := ((quote-ones)&^quote | (slash-ones)&^slash) & highs; stop != 0 {
			n := bits.TrailingZeros64(stop) &^ 7
			seen |= w & (1<<n - 1)
			i += n / 8
			break
		}
		seen |= w
	}
	for ; b[i] != '"'; i++ {
		if b[i] == '\\' {
			return skipString(b, i-1), false
		}
		seen |= uint64(b[i])
	}
	return i + 1, seen&highs == 0
}

// unquote returns the string that raw, the inside of a valid JSON string, stands
// for.
func unquote(raw []byte, plain bool) string {
	if plain || bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var small [64]byte
	if len(raw) <= len(small) {
		return string(appendUnquoted(small[:0], raw))
	}
	b := appendUnquoted(make([]byte, 0, len(raw)), raw)
	s := unsafe.String(unsafe.SliceData(b), len(b)) // nobody else has b
	if len(b) < cap(b)/2 {
		return strings.Clone(s) // mostly escapes: do not keep twice its size
	}
	return s
}

// appendUnquoted writes what raw stands for. As in encoding/json, each byte that
// is not UTF-8 and each half of a surrogate pair becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return appendWellFormed(dst, raw)
		}
		dst = appendWellFormed(dst, raw[:n])
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low = hex4(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

func appendWellFormed(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[size:]
	}
	return dst
}

// hex4 reads the four hexadecimal digits of a \u escape.
func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
