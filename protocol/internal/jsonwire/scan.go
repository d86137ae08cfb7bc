// Package jsonwire reads and writes the protocol's JSON where encoding/json would
// cost more than the socket. Scanning checks a message completely and without
// recursion; Append and Unmarshal agree with encoding/json on every value of the
// protocol's types.
//
//	end := jsonwire.SkipValue(frame, 0)
package jsonwire

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/segmentio/asm/ascii"
)

// maxDepth bounds the nesting of arrays and objects in a message. encoding/json
// takes ten times that; nothing in the protocol needs a tenth.
const maxDepth = 1000

// SkipValue returns the index after the JSON value that starts at b[i], which is
// checked completely on the way, or -1 when it is not valid JSON. It uses no
// recursion, so that a hostile peer cannot grow the stack. UTF-8 is checked by
// the caller for the whole frame at once.
func SkipValue(b []byte, i int) int {
	// Most values are strings and numbers; they need no record of what is open.
	if i = SkipSpace(b, i); i < len(b) && b[i] == '"' {
		return skipString(b, i)
	}
	// A bit for each open array (0) or object (1).
	var objects [(maxDepth + 63) / 64]uint64
	depth := 0
	for {
		// A value is expected at b[i].
		i = SkipSpace(b, i)
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '{' || c == '[':
			if depth == maxDepth {
				return -1
			}
			if objects[depth/64] &^= 1 << (depth % 64); c == '{' {
				objects[depth/64] |= 1 << (depth % 64)
			}
			depth++
			i = SkipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '{'+2 == '}', '['+2 == ']'
				depth--
				i++
				break
			}
			if c == '{' {
				if i = skipKey(b, i); i < 0 {
					return -1
				}
			}
			continue
		case c == '"':
			i = skipString(b, i)
		case c == '-' || c >= '0' && c <= '9':
			i = skipNumber(b, i)
		case c == 't':
			i = skipWord(b, i, "true")
		case c == 'f':
			i = skipWord(b, i, "false")
		case c == 'n':
			i = skipWord(b, i, "null")
		default:
			return -1
		}
		if i < 0 {
			return -1
		}
		// A value has ended: close what it was the last of, or go on to the next.
		for {
			if depth == 0 {
				return i
			}
			i = SkipSpace(b, i)
			if i >= len(b) {
				return -1
			}
			object := objects[(depth-1)/64]>>((depth-1)%64)&1 == 1
			if b[i] == ',' {
				i = SkipSpace(b, i+1)
				if object {
					if i = skipKey(b, i); i < 0 {
						return -1
					}
				}
				break
			}
			if object && b[i] != '}' || !object && b[i] != ']' {
				return -1
			}
			depth--
			i++
		}
	}
}

// skipKey returns the index after the member name at b[i] and its colon.
func skipKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = skipString(b, i); i < 0 {
		return -1
	}
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// SkipSpace returns the index of the first byte from b[i] on that is no JSON
// white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// longString is from how many bytes on a string is looked through for one thing at a
// time, many bytes at once, if it begins with at most fewEscapes in as many bytes, and
// until less than shortPiece is between two of them: else that would cost more.
const (
	longString = 512
	fewEscapes = 12
	shortPiece = 16
)

// sparse reports that there seems to be little to stop at in the string that b begins with.
func sparse(b []byte) bool {
	return len(b) >= longString && bytes.Count(b[:longString], []byte{'\\'}) <= fewEscapes
}

// skipString returns the index after the string whose opening quote is b[i], -1 when it is
// not valid.
func skipString(b []byte, i int) int {
	i++
	if len(b)-i >= longString {
		if n := bytes.IndexByte(b[i:], '"'); n >= longString && sparse(b[i:]) {
			i = skipSparse(b, i, i+n)
		}
	}
	for i >= 0 {
		if i = skipClean(b, i); i == len(b) {
			return -1
		}
		if b[i] == '"' {
			return i + 1
		}
		i = skipEscape(b, i)
	}
	return -1
}

// skipSparse goes from b[i] on to the first quote, b[quote], or to where the escapes are
// close to each other; -1 when there is what must not be.
func skipSparse(b []byte, i, quote int) int {
	for i >= 0 && i < quote {
		end := quote
		if n := bytes.IndexByte(b[i:quote], '\\'); n >= 0 {
			end = i + n
		}
		short := end-i < shortPiece
		if !ascii.ValidPrint(b[i:end]) && skipClean(b[:end], i) < end {
			return -1
		}
		if end == quote {
			return quote
		}
		if i = skipEscape(b, end); short {
			return i
		}
	}
	return i
}

// skipClean returns the index of the first quote, backslash or control byte from b[i] on,
// len(b) when there is none.
func skipClean(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		if stop := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs; stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// skipEscape returns the index after the escape at b[i], -1 when it is none.
func skipEscape(b []byte, i int) int {
	switch {
	case i+1 >= len(b) || b[i] != '\\':
		return -1
	case unescapes[b[i+1]] != 0:
		return i + 2
	case b[i+1] != 'u' || i+6 > len(b):
		return -1
	}
	for _, h := range b[i+2 : i+6] {
		if (h < '0' || h > '9') && (h < 'a' || h > 'f') && (h < 'A' || h > 'F') {
			return -1
		}
	}
	return i + 6
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	case b[i] >= '1' && b[i] <= '9':
		i = skipDigits(b, i)
	default:
		return -1
	}
	if i < len(b) && b[i] == '.' {
		j := skipDigits(b, i+1)
		if j == i+1 {
			return -1
		}
		i = j
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := skipDigits(b, i)
		if j == i {
			return -1
		}
		i = j
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// ForEachMember calls f with the raw name (without quotes, escapes as they are)
// and the raw value of each member of the object in b; false when b is not
// exactly one valid JSON object.
func ForEachMember(b []byte, f func(name, value []byte)) bool {
	i := SkipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return SkipSpace(b, i+1) == len(b)
	}
	for {
		nameStart := i + 1
		if i >= len(b) || b[i] != '"' {
			return false
		}
		if i = skipString(b, i); i < 0 {
			return false
		}
		name := b[nameStart : i-1]
		i = SkipSpace(b, i)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		start := SkipSpace(b, i+1)
		if i = SkipValue(b, start); i < 0 {
			return false
		}
		f(name, b[start:i])
		i = SkipSpace(b, i)
		if i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i = SkipSpace(b, i+1)
		case '}':
			return SkipSpace(b, i+1) == len(b)
		default:
			return false
		}
	}
}
