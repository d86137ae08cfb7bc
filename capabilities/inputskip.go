package capabilities

import "bytes"

// space skips white space; false at the end of the data.
func (c *inputCheck) space() bool {
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case ' ', '\t', '\r', '\n':
			c.pos++
		default:
			return true
		}
	}
	return false
}

// skip steps over one value of any kind, however deep, without recursion.
func (c *inputCheck) skip() bool {
	depth := 0
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case '"':
			if !c.skipString() {
				return false
			}
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return false
			}
			c.pos++
			continue
		default:
			if !c.skipLiteral() {
				return false
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

func (c *inputCheck) skipLiteral() bool {
	start := c.pos
	for c.pos < len(c.data) {
		switch ch := c.data[c.pos]; {
		case ch >= '0' && ch <= '9', ch >= 'a' && ch <= 'z', ch == '-', ch == '+', ch == '.', ch == 'E':
			c.pos++
		default:
			return c.pos > start
		}
	}
	return c.pos > start
}

// skipString looks for the quote at the end: the first that an even number of
// backslashes is in front of.
func (c *inputCheck) skipString() bool {
	start := c.pos + 1
	for i := start; ; i++ {
		n := bytes.IndexByte(c.data[i:], '"')
		if n < 0 {
			return false
		}
		i += n
		slashes := i
		for slashes > start && c.data[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			c.pos = i + 1
			return true
		}
	}
}

func isNumber(ch byte) bool { return ch == '-' || ch >= '0' && ch <= '9' }
