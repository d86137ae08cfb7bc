package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// elementError is what is wrong with one element of a list that is a setting.
type elementError struct {
	index int // from 0
	what  string
	err   error
}

func (e *elementError) Error() string { return fmt.Sprintf("%s %d: %v", e.what, e.index+1, e.err) }
func (e *elementError) Unwrap() error { return e.err }

// eachError takes errors that were joined apart; none for nil.
func eachError(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// syntaxError takes apart what the YAML parser says. It names no line when that is the
// first, or when it fails below the syntax.
func syntaxError(err error, raw []byte) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		return line, strings.TrimPrefix(text, m[0])
	}
	at := 0
	if m := regexp.MustCompile(`anchor '(.*)'`).FindStringSubmatch(text); m != nil {
		at = max(0, bytes.Index(raw, []byte("*"+m[1])))
	} else if i := unreadable(raw); i >= 0 {
		at = i
	}
	return 1 + bytes.Count(raw[:at], []byte("\n")), text
}

// unreadable is where the first bytes are that YAML does not allow; -1 when none are.
func unreadable(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i
		}
		i += n
	}
	return -1
}
