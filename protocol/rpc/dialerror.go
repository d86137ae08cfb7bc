package rpc

import (
	"net/http"
	"strings"
)

// NewDialError is what a server's answer says, of whose body the beginning was read. A
// server that repeats the secret it was sent is not quoted with it.
func NewDialError(resp *http.Response, body []byte, secret string) *DialError {
	line, _, _ := strings.Cut(strings.TrimSpace(hide(string(body), secret)), "\n")
	return &DialError{Status: resp.StatusCode, Body: strings.ToValidUTF8(line[:min(len(line), 200)], ""),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
}

// hide takes a secret out of a text, also one that the end of the text cuts in two.
func hide(text, secret string) string {
	const shortest = 4 // less gives nothing away
	if len(secret) < shortest {
		return text
	}
	text = strings.ReplaceAll(text, secret, "[redacted]")
	for n := min(len(secret), len(text)); n >= shortest; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n] + "[redacted]"
		}
	}
	return text
}
