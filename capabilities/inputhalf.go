package capabilities

import (
	"bytes"
	"fmt"
	"strconv"
)

// wholeCharacters refuses the string data[start:pos] when it has half of a surrogate pair.
// Decoding would put U+FFFD in its place, and nobody would hear that another text
// than the one that was sent has been written, or another file named.
func (c *inputCheck) wholeCharacters(n *node, start int) {
	if !n.decoded || c.wrong != "" {
		return
	}
	if half := halfCharacter(c.data[start+1 : c.pos-1]); half != nil {
		c.wrongf("has %s, which is half of a surrogate pair and no character: write the character itself, or both halves, as %s%s",
			half, `\ud83d\ude00`, byteHint(half))
	}
}

// byteHint explains halves that Python makes of the bytes of a name that is not UTF-8.
func byteHint(half []byte) string {
	v, _ := strconv.ParseUint(string(half[2:]), 16, 16)
	if v < 0xdc80 || v > 0xdcff {
		return ""
	}
	return fmt.Sprintf(`; a name with the byte %#x, which is not UTF-8, is written $'…\x%x…'`, v-0xdc00, v-0xdc00)
}

// halfCharacter finds the first escape in the inside of a JSON string that is half of a
// surrogate pair without the other half, nil when there is none. It goes from one
// backslash to the next, and stops at few of them.
func halfCharacter(raw []byte) []byte {
	for len(raw) >= 6 {
		if raw[0] != '\\' {
			i := bytes.IndexByte(raw, '\\')
			if i < 0 {
				return nil
			}
			raw = raw[i:]
			continue
		}
		switch {
		case raw[1] != 'u':
			raw = raw[2:]
		case raw[2]|0x20 != 'd' || raw[3] < '8':
			raw = raw[6:]
		case !isHex(raw[2:6]):
			return nil // no JSON: encoding/json says where
		case secondHalf(raw), !secondHalf(raw[6:]):
			return raw[:6]
		default:
			raw = raw[12:]
		}
	}
	return nil
}

func isHex(digits []byte) bool {
	_, err := strconv.ParseUint(string(digits), 16, 16)
	return err == nil
}

// secondHalf: raw begins with \udc00 to \udfff.
func secondHalf(raw []byte) bool {
	return len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' && raw[2]|0x20 == 'd' && 'c' <= raw[3]|0x20 && raw[3]|0x20 <= 'f'
}
