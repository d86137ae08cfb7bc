package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Line makes one line of any text that is safe on a terminal: ends of lines become
// spaces, and what would control the terminal or turn text around is shown as an
// escape.
func Line(s string) string {
	return safe(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
}

// Text is Line for a text of several lines.
func Text(s string) string {
	return safe(strings.ReplaceAll(s, "\r\n", "\n"))
}

func safe(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unsafeRune(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unsafeRune reports whether r does something to a terminal besides being seen, or is not seen at all.
func unsafeRune(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Co)
}

// WriteJSON writes v as one indented object that is safe on a terminal too.
func WriteJSON(w io.Writer, v any) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	// JSON has escaped what is below U+0020; unsafe characters above it stand only
	// inside strings.
	var out strings.Builder
	for _, r := range raw.String() {
		if unsafeRune(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// IsTerminal reports whether w is a terminal, or something else that shows single
// characters.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Count is a number of things: "1 call", "2 calls".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Ago is how long before now something was, in whole seconds; "?" when it is not known.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "?"
	}
	return max(0, now.Sub(at)).Round(time.Second).String()
}
