package jsonwire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// slack is how far behind its end a string may be copied, eight bytes at a time.
const slack = 8

// appendString writes s as a JSON string, byte for byte as encoding/json does
// when it does not escape HTML.
func appendString(dst []byte, s string) []byte {
	b := unsafe.Slice(unsafe.StringData(s), len(s)) // only read; encoding/binary takes no string
	dst = append(slices.Grow(dst, len(b)+2+slack), '"')
	wellFormed := false // the rest of b is known to be valid UTF-8
	for {
		var n int
		dst, n = appendClean(dst, b, wellFormed)
		if b = b[n:]; len(b) == 0 {
			return append(dst, '"')
		}
		switch c := b[0]; {
		case c < utf8.RuneSelf:
			if e := escapes[c]; e != 0 {
				dst = append(dst, '\\', e)
			} else {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			b = b[1:]
		case !wellFormed && utf8.Valid(b):
			wellFormed = true
		default:
			r, size := utf8.DecodeRune(b)
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, `\ufffd`...)
			case r == '\u2028', r == '\u2029': // they end a line of JavaScript
				dst = append(dst, '\\', 'u', '2', '0', '2', hexDigits[r&15])
			default:
				dst = append(dst, b[:size]...)
			}
			b = b[size:]
		}
		if cap(dst)-len(dst) < len(b)+1+slack { // escapes have used it up
			dst = slices.Grow(dst, len(b)+1+slack)
		}
	}
}

// escapes are the letters of the short escapes.
var escapes = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// unescapes are what the letters of the short escapes stand for; 0 is for other letters.
var unescapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendClean copies the beginning of b up to the first byte that may not be
// copied as it is, n: a quote, a backslash, a control byte, or one beyond ASCII.
// In well-formed text only E2 counts of the last, with which U+2028 begins. dst
// has room for all of b and slack.
func appendClean(dst, b []byte, wellFormed bool) (out []byte, n int) {
	beyond := uint64(highs)
	if wellFormed {
		beyond = 0
	}
	free := dst[len(dst) : len(dst)+len(b)+slack]
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		binary.LittleEndian.PutUint64(free[n:], w)
		quote, slash, e2 := w^ones*'"', w^ones*'\\', w^ones*0xE2
		stop := ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*0x20)&^w|(e2-ones)&^e2)&highs | w&beyond
		if stop != 0 {
			n += bits.TrailingZeros64(stop) / 8
			return dst[:len(dst)+n], n
		}
	}
	for ; n < len(b); n++ { // at most seven
		c := b[n]
		if c < 0x20 || c == '"' || c == '\\' || c == 0xE2 || c >= utf8.RuneSelf && !wellFormed {
			break
		}
		free[n] = c
	}
	return dst[:len(dst)+n], n
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
			return quotedEnd(b, i), false
		}
		seen |= uint64(b[i])
	}
	return i + 1, seen&highs == 0
}

// quotedEnd returns the index after the valid string that b[i] is inside of, but not
// behind the backslash of an escape. A quote ends it when the backslashes before it are
// pairs.
func quotedEnd(b []byte, i int) int {
	for start := i; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		slashes := i
		for slashes > start && b[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}

// unquote returns the string that raw, the inside of a valid JSON string, stands
// for.
func unquote(raw []byte, plain bool) string {
	if plain || bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var small [64 + slack]byte
	if len(raw) <= len(small)-slack {
		return string(AppendUnquoted(small[:0], raw))
	}
	b := AppendUnquoted(make([]byte, 0, len(raw)+slack), raw)
	s := unsafe.String(unsafe.SliceData(b), len(b)) // nobody else has b
	if len(b) < cap(b)/2 {
		return strings.Clone(s) // mostly escapes: do not keep twice its size
	}
	return s
}

// AppendUnquoted appends to dst what raw, the inside of a valid JSON string, stands for.
// As in encoding/json, each byte that is not UTF-8 and each half of a surrogate pair
// becomes U+FFFD.
func AppendUnquoted(dst, raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = wellFormed(raw)
	}
	dst = slices.Grow(dst, len(raw)+slack) // nothing is longer than its escape
	free := dst[len(dst) : len(dst)+len(raw)+slack]
	n, i := 0, 0
	for many := sparse(raw); i < len(raw); {
		switch {
		case many:
			k := bytes.IndexByte(raw[i:], '\\')
			if k < 0 {
				k = len(raw) - i
			}
			n, i, many = n+copy(free[n:], raw[i:i+k]), i+k, k >= shortPiece
			if i == len(raw) {
				return dst[:len(dst)+n]
			}
		case i+8 <= len(raw):
			w := binary.LittleEndian.Uint64(raw[i:])
			binary.LittleEndian.PutUint64(free[n:], w)
			slash := w ^ ones*'\\'
			stop := (slash - ones) &^ slash & highs
			if stop == 0 {
				n, i = n+8, i+8
				continue
			}
			k := bits.TrailingZeros64(stop) / 8
			n, i = n+k, i+k
		case raw[i] != '\\':
			free[n] = raw[i]
			n, i = n+1, i+1
			continue
		}
		if c := unescapes[raw[i+1]]; c != 0 {
			free[n] = c
			n, i = n+1, i+2
			continue
		}
		r := hex4(raw[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				low = hex4(raw[i+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		n += utf8.EncodeRune(free[n:], r)
	}
	return dst[:len(dst)+n]
}

// wellFormed returns b with U+FFFD for each byte that is not UTF-8.
func wellFormed(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/2)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
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
