package mcp

import (
	"bytes"
	"encoding/json"
)

// message takes in one message of a server, which comes in pieces. Beyond the limit only what is around it
// is found out.
type message struct {
	limit int
	text  []byte // all of it, unless it is over the limit
	size  int64
	envelope
}

func (m *message) write(p []byte) {
	before := m.size
	m.size += int64(len(p))
	switch {
	case m.size <= int64(m.limit):
		m.text = append(m.text, p...)
	case before <= int64(m.limit): // it was whole until now
		m.envelope.write(m.text)
		m.envelope.write(p)
		m.text = nil
	default:
		m.envelope.write(p)
	}
}

func (m *message) tooLarge() bool { return m.size > int64(m.limit) }

// lines cuts what a server prints into messages, one a line, and passes each on. Its caller is held up as
// long as take is.
type lines struct {
	limit int
	take  func(*message)
	now   *message // nil at the beginning of a line
}

func (l *lines) write(p []byte) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		if l.now == nil {
			l.now = &message{limit: l.limit}
			if ended {
				l.now.text = make([]byte, 0, len(part)) // most are whole
			}
		}
		l.now.write(part)
		if ended {
			l.end()
		}
		p = rest
	}
}

// end is the end of the line, or of the output: the last line may lack its own.
func (l *lines) end() {
	m := l.now
	if l.now = nil; m == nil {
		return
	}
	if !m.tooLarge() {
		if m.text = bytes.TrimSpace(m.text); len(m.text) == 0 {
			return
		}
	}
	l.take(m)
}

// oneLine is a message that is written on a line of its own: the line ends in it, which JSON has between
// its words only, are taken out. False: it is no JSON.
func oneLine(frame []byte) ([]byte, bool) {
	if bytes.IndexByte(frame, '\n') < 0 && bytes.IndexByte(frame, '\r') < 0 {
		return frame, true
	}
	var out bytes.Buffer
	out.Grow(len(frame))
	if json.Compact(&out, frame) != nil {
		return nil, false
	}
	return out.Bytes(), true
}
