package mcp

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// keptStderr is how much of what a server has last printed on its standard error is kept.
const keptStderr = 4 << 10

// secrets are texts that nobody is to see: the values of secret_env.
type secrets [][]byte

// minSecretLine is the length from which a line of a secret of several lines is one itself.
const minSecretLine = 8

func secretsOf(env map[string]string) secrets {
	var all secrets
	for _, value := range env {
		if value == "" {
			continue
		}
		all = append(all, []byte(value))
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			for _, line := range lines {
				if line = strings.TrimSpace(line); len(line) >= minSecretLine {
					all = append(all, []byte(line))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b []byte) int { return len(b) - len(a) }) // one may be a part of another
	return all
}

// mask is text with asterisks in their place, of the same length. The result may be text itself.
func (s secrets) mask(text []byte) []byte {
	for _, secret := range s {
		if bytes.Contains(text, secret) {
			text = bytes.ReplaceAll(text, secret, bytes.Repeat([]byte{'*'}, len(secret)))
		}
	}
	return text
}

func (s secrets) maskString(text string) string {
	if len(s) == 0 {
		return text
	}
	return string(s.mask([]byte(text)))
}

// longest is the length of the longest.
func (s secrets) longest() int {
	if len(s) == 0 {
		return 0
	}
	return len(s[0])
}

// tail keeps the end of a server's standard error, which is read always: a server whose error output is not
// read stands still. It may be used concurrently.
type tail struct {
	hide secrets

	mu   sync.Mutex
	text []byte
	size int64 // of all that was printed
}

// write is a sink.
func (t *tail) write(p []byte) {
	room := keptStderr + t.hide.longest() // more than is shown, since a secret may be cut in two at its beginning
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size += int64(len(p))
	p = p[max(0, len(p)-room):]
	if have := len(t.text) + len(p); have > 2*room {
		t.text = append(t.text[:0], t.text[len(t.text)-max(0, min(len(t.text), room-len(p))):]...)
	}
	t.text = append(t.text, p...)
}

// end is what was printed last, without secrets, and how much there was in all.
func (t *tail) end() (text string, size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	masked := t.hide.mask(t.text)
	shown := masked[max(0, len(masked)-keptStderr):]
	return strings.ToValidUTF8(string(bytes.TrimSpace(shown)), "\uFFFD"), t.size
}
