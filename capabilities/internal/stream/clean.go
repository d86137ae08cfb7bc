package stream

import (
	"io"
	"unicode/utf8"
)

// maxLine is the longest line, in characters, that is kept for redrawing. The beginning of a longer one
// is passed on, and a carriage return then goes back to where the rest begins.
const maxLine = 64 << 10

// maxString is the longest operating system command or device control string that is swallowed. One
// that is longer, or has a line end in it, was none, and what follows is text again.
const maxString = 4 << 10

// Cleaner turns the bytes of a terminal stream into text. Lines appear as a terminal shows them in the
// end: carriage return, backspace and the cursor movements within a line overwrite; other escape
// sequences and control characters leave nothing. Movements to other lines are left out: the lines stay
// in the order in which they were printed. What it writes is valid UTF-8 without NUL, in pieces that end
// with whole characters, a line at a time.
//
// It is not safe for concurrent use. Close passes on an unfinished last line.
type Cleaner struct {
	to io.Writer

	line    []rune // the unfinished line
	col     int    // the cursor in it
	partial []byte // the beginning of a character
	state   state
	length  int    // of the control string so far
	params  []byte // of the control sequence so far
	out     []byte

	// Invalid counts the bytes that were not UTF-8; each became U+FFFD.
	Invalid int64
	// NULs counts the NUL bytes that were removed.
	NULs int64
}

type state uint8

const (
	ground    state = iota
	escape          // after ESC
	charset         // after ESC and an intermediate byte: one more belongs to it
	control         // in a control sequence, after ESC [
	str             // in a string that ends with BEL or ESC \
	strEscape       // after ESC in it
)

// NewCleaner makes a cleaner that writes to to, whose errors are ignored: it is memory.
func NewCleaner(to io.Writer) *Cleaner { return &Cleaner{to: to} }

// Write takes the next bytes. It never fails.
func (c *Cleaner) Write(p []byte) (int, error) {
	size := len(p)
	for len(p) > 0 {
		if c.state == ground && len(c.line) == 0 && len(c.partial) == 0 {
			if n := plainLines(p); n > 0 {
				_, _ = c.to.Write(p[:n])
				p = p[n:]
				continue
			}
		}
		p = p[c.step(p):]
	}
	return size, nil
}

// Close passes on what is left: an unfinished line, and what never became a character.
func (c *Cleaner) Close() error {
	for range c.partial {
		c.invalid()
	}
	c.partial = nil
	c.emit(false)
	return nil
}

// plainLines is the length of the whole lines at the beginning that need no work: the fast way for
// nearly all output.
func plainLines(p []byte) int {
	end := 0
	for i := 0; i < len(p); {
		b := p[i]
		switch {
		case b == '\n':
			end = i + 1
			i++
		case b >= ' ' && b < 0x7f || b == '\t':
			i++
		case b < utf8.RuneSelf:
			return end
		default:
			r, n := utf8.DecodeRune(p[i:])
			if r == utf8.RuneError && n == 1 || r < 0xa0 {
				return end
			}
			i += n
		}
	}
	return end
}

// step takes one character or control byte and returns its length.
func (c *Cleaner) step(p []byte) int {
	if len(c.partial) == 0 && p[0] < utf8.RuneSelf {
		c.rune(rune(p[0]))
		return 1
	}
	if len(c.partial) > 0 && p[0]&0xc0 != 0x80 { // the character will not be finished
		c.partial = c.partial[1:]
		c.invalid()
		return 0
	}
	if len(c.partial) > 0 || !utf8.FullRune(p) {
		c.partial = append(c.partial, p[0])
		if utf8.FullRune(c.partial) {
			whole := c.partial
			c.partial = nil
			for len(whole) > 0 {
				whole = whole[c.decode(whole):]
			}
		}
		return 1
	}
	return c.decode(p)
}

func (c *Cleaner) decode(p []byte) int {
	r, n := utf8.DecodeRune(p)
	if r == utf8.RuneError && n == 1 {
		c.invalid()
	} else {
		c.rune(r)
	}
	return n
}

func (c *Cleaner) invalid() {
	c.Invalid++
	c.rune(utf8.RuneError)
}

func (c *Cleaner) rune(r rune) {
	switch c.state {
	case ground:
		c.show(r)
	case escape:
		c.state = ground
		switch {
		case r == '[':
			c.state, c.params = control, c.params[:0]
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			c.state, c.length = str, 0
		case r >= ' ' && r <= '/':
			c.state = charset
		case r < ' ' || r >= 0x7f:
			c.show(r) // not a sequence: a lone ESC leaves nothing
		}
	case charset:
		if r < ' ' || r > '/' { // several intermediate bytes may come
			c.state = ground
			if r < ' ' || r >= 0x7f {
				c.show(r)
			}
		}
	case control:
		switch {
		case r >= '@' && r <= '~':
			c.state = ground
			c.sequence(byte(r))
		case r >= ' ' && r <= '?' && len(c.params) < 64:
			c.params = append(c.params, byte(r))
		default:
			c.state = ground
			c.show(r)
		}
	case str:
		c.length++
		switch {
		case r == 0x07 || r == 0x9c || c.length > maxString:
			c.state = ground
		case r == 0x1b:
			c.state = strEscape
		case r == '\n':
			c.state = ground
			c.show(r)
		}
	case strEscape:
		c.state = ground
		if r != '\\' { // the string was broken off by another sequence
			c.state = escape
			c.rune(r)
		}
	}
}

// show puts a character on the line, or does what a control character does to it.
func (c *Cleaner) show(r rune) {
	switch {
	case r == '\n':
		c.emit(true)
	case r == '\r':
		c.col = 0
	case r == '\b':
		c.col = max(0, c.col-1)
	case r == 0x1b:
		c.state = escape
	case r == 0x9b:
		c.state, c.params = control, c.params[:0]
	case r == 0:
		c.NULs++
	case r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0:
	default:
		if c.col < len(c.line) {
			c.line[c.col] = r
		} else {
			c.pad(c.col)
			c.line = append(c.line, r)
		}
		c.col++
		if len(c.line) >= maxLine {
			c.out = append(c.out[:0], string(c.line)...)
			_, _ = c.to.Write(c.out)
			c.line, c.col = c.line[:0], 0
		}
	}
}

// sequence does what a control sequence does to the line.
func (c *Cleaner) sequence(final byte) {
	n, given := 0, false
	for _, b := range c.params {
		if b < '0' || b > '9' {
			break
		}
		n, given = min(n*10+int(b-'0'), maxLine-1), true
	}
	count := n
	if !given || n == 0 {
		count = 1
	}
	switch final {
	case 'C':
		c.col = min(c.col+count, maxLine-1)
	case 'D':
		c.col = max(0, c.col-count)
	case 'G', '`':
		c.col = count - 1
	case 'K':
		switch n {
		case 0:
			c.line = c.line[:min(c.col, len(c.line))]
		case 1:
			c.pad(c.col + 1)
			for i := range min(c.col+1, len(c.line)) {
				c.line[i] = ' '
			}
		case 2:
			c.line = c.line[:0]
		}
	}
}

// pad fills the line with blanks up to a column.
func (c *Cleaner) pad(col int) {
	for len(c.line) < col {
		c.line = append(c.line, ' ')
	}
}

func (c *Cleaner) emit(end bool) {
	c.out = append(c.out[:0], string(c.line)...)
	if end {
		c.out = append(c.out, '\n')
	}
	if len(c.out) > 0 {
		_, _ = c.to.Write(c.out)
	}
	c.line, c.col = c.line[:0], 0
	if cap(c.out) > 4*maxLine { // one huge line must not be paid for ever after
		c.out = nil
	}
}
