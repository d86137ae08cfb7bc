package capabilities

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// QuoteName writes a file name or path as text. A name that is plain UTF-8 text
// is itself; one with invalid bytes, control characters or characters that
// change how the text around them looks is written as bash writes it,
// $'caf\xe9.txt', and so is a plain name that would be read as a quoted one.
// The result is always valid UTF-8 without control characters, and UnquoteName
// gives the name back byte for byte.
func QuoteName(name string) string {
	if isPlain(name) && !isQuoted(name) {
		return name
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(r))
		case plainRune(r, size):
			b.WriteString(name[i : i+size])
		default:
			// Bytes and never \u: what bash makes of \u depends on its locale.
			for _, c := range []byte(name[i : i+size]) {
				b.WriteString(`\x`)
				b.WriteByte("0123456789abcdef"[c>>4])
				b.WriteByte("0123456789abcdef"[c&15])
			}
		}
		i += size
	}
	b.WriteByte('\'')
	return b.String()
}

// UnquoteName reads what QuoteName or a person wrote: text that starts with $'
// and ends with ' has its escapes replaced as bash does it, everything else is
// the name already. What bash leaves alone, as \q, is left alone here too.
func UnquoteName(text string) string {
	if !isQuoted(text) {
		return text
	}
	in := text[2 : len(text)-1]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' || i+1 == len(in) {
			out = append(out, in[i])
			i++
			continue
		}
		c := in[i+1]
		i += 2
		switch c {
		case 'a', 'b', 'e', 'E', 'f', 'n', 'r', 't', 'v':
			out = append(out, "\a\b\x1b\x1b\f\n\r\t\v"[strings.IndexByte("abeEfnrtv", c)])
		case '\\', '\'', '"', '?':
			out = append(out, c)
		case 'x':
			v, n := digits(in[i:], 16, 2)
			if n == 0 {
				out = append(out, '\\', c)
				continue
			}
			out = append(out, byte(v))
			i += n
		case 'u', 'U':
			most := 4
			if c == 'U' {
				most = 8
			}
			v, n := digits(in[i:], 16, most)
			if n == 0 {
				out = append(out, '\\', c)
				continue
			}
			out = utf8.AppendRune(out, rune(min(v, utf8.MaxRune+1)))
			i += n
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v, n := digits(in[i-1:], 8, 3)
			out = append(out, byte(v))
			i += n - 1
		case 'c':
			if i == len(in) {
				out = append(out, '\\', c)
				continue
			}
			if in[i] == '?' {
				out = append(out, 0x7f)
			} else {
				out = append(out, in[i]&0x1f)
			}
			i++
		default:
			out = append(out, '\\', c)
		}
	}
	return string(out)
}

func isQuoted(s string) bool {
	return len(s) >= 3 && strings.HasPrefix(s, "$'") && s[len(s)-1] == '\''
}

func isPlain(s string) bool {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !plainRune(r, size) {
			return false
		}
		i += size
	}
	return true
}

// plainRune refuses, beside control characters and invalid bytes, the line
// separators and the direction marks: with them a name can pass for another one.
func plainRune(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size <= 1, r < 0x20, r >= 0x7f && r < 0xa0:
		return false
	case r == 0x61c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return false
	}
	return true
}

// digits reads up to most digits and says how many there were.
func digits(s string, base, most int) (value uint64, n int) {
	for n < most && n < len(s) {
		if _, err := strconv.ParseUint(s[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	value, _ = strconv.ParseUint(s[:n], base, 64)
	return value, n
}
