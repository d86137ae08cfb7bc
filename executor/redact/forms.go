package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// minLine is how long a line of a secret of several lines is to be looked for by itself.
const minLine = 16

// forms are the texts a secret is looked for in: each has at least MinLength bytes.
func forms(secret string) []string {
	list := encodings(secret)
	if strings.ContainsAny(secret, "\n") {
		list = append(list, encodings(strings.ReplaceAll(strings.ReplaceAll(secret, "\r\n", "\n"), "\n", "\r\n"))...) // as a terminal has it
		for line := range strings.SplitSeq(secret, "\n") {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				list = append(list, line)
			}
		}
	}
	return list
}

func encodings(secret string) []string {
	list := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for _, escaped := range []string{url.QueryEscape(secret), url.PathEscape(secret)} {
		list = append(list, escaped, lowerEscapes(escaped))
	}
	for shift := range 3 {
		list = append(list, aligned(base64.RawStdEncoding, secret, shift), aligned(base64.RawURLEncoding, secret, shift))
	}
	if utf8.ValidString(secret) {
		for _, html := range []bool{true, false} {
			quoted := jsonText(secret, html)
			list = append(list, quoted, strings.ReplaceAll(quoted, "/", `\/`))
		}
		for _, quoted := range []string{strconv.Quote(secret), strconv.QuoteToASCII(secret)} {
			list = append(list, quoted[1:len(quoted)-1])
		}
	}
	return list
}

// lowerEscapes is a text with the escapes of a URL in small letters, which they may have too.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// aligned is what of a secret's base64 is the same whatever is around it, when shift bytes modulo 3 are
// in front: digits that it shares with its neighbours are left out.
func aligned(encoding *base64.Encoding, secret string, shift int) string {
	text := encoding.EncodeToString(append(make([]byte, shift), secret...))
	first := (shift*8 + 5) / 6
	last := (shift + len(secret)) * 8 / 6
	return text[first:last]
}

// jsonText is how a text stands between the quotes of a JSON string.
func jsonText(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(b.String()[1:], "\"\n")
}
