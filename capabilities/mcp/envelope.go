package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

const (
	// maxMember is how much of a member's name is looked at, and maxValue of a value that is wanted.
	maxMember = 64
	maxValue  = 1 << 10
)

// envelope finds what is around a JSON-RPC message, its id above all, in text that comes in pieces and is
// not kept: a message that is too long to be passed on still has somebody who waits for it. It takes the
// text to be JSON; of one that is none it finds nothing of use.
type envelope struct {
	id      []byte // as it stands there; nil for none
	method  bool
	answer  bool // it has a result or an error
	version bool // it has a member jsonrpc

	depth   int
	quoted  bool // in a string
	escaped bool
	naming  bool   // the next string of the outermost object is the name of a member
	name    string // of the member whose value comes
	keeps   bool   // what comes is kept
	kept    []byte
}

// request says whether somebody wants an answer, response whether it is one.
func (e *envelope) request() bool  { return e.id != nil && e.method }
func (e *envelope) response() bool { return e.id != nil && !e.method }

// known says whether it is a message of JSON-RPC at all.
func (e *envelope) known() bool { return e.version && (e.method || e.answer) }

func (e *envelope) write(p []byte) {
	quote := -1 // where the next one is
	for i := 0; i < len(p); i++ {
		if e.quoted && !e.escaped && !e.keeps { // most of a long message is text
			if quote < i {
				quote = len(p)
				if next := bytes.IndexByte(p[i:], '"'); next >= 0 {
					quote = i + next
				}
			}
			next := bytes.IndexByte(p[i:quote], '\\')
			if next < 0 {
				next = quote - i
			}
			if i += next; i == len(p) {
				return
			}
		}
		c := p[i]
		if e.quoted {
			e.keep(c)
			switch {
			case e.escaped:
				e.escaped = false
			case c == '\\':
				e.escaped = true
			case c == '"':
				e.quoted = false
			}
			continue
		}
		switch c {
		case '"':
			e.quoted = true
			if e.depth == 1 && e.naming {
				e.begin(maxMember)
			}
			e.keep(c)
		case '{', '[':
			e.keep(c)
			e.depth++
			if e.depth == 1 {
				e.naming = c == '{'
			}
		case '}', ']':
			if e.depth--; e.depth == 0 {
				e.endValue()
			}
			e.keep(c)
		case ':':
			if e.depth == 1 && e.naming {
				e.endName()
				continue
			}
			e.keep(c)
		case ',':
			if e.depth == 1 {
				e.endValue()
				e.naming = true
				continue
			}
			e.keep(c)
		default:
			e.keep(c)
		}
	}
}

func (e *envelope) begin(limit int) {
	e.keeps = true
	if cap(e.kept) < limit {
		e.kept = make([]byte, 0, limit)
	}
	e.kept = e.kept[:0]
}

func (e *envelope) keep(c byte) {
	if e.keeps && len(e.kept) < cap(e.kept) {
		e.kept = append(e.kept, c)
	}
}

func (e *envelope) endName() {
	e.naming, e.keeps = false, false
	if json.Unmarshal(bytes.TrimSpace(e.kept), &e.name) != nil {
		e.name = ""
	}
	if e.name == "id" {
		e.begin(maxValue)
	}
}

func (e *envelope) endValue() {
	e.keeps = false
	switch e.name {
	case "id":
		if id := bytes.TrimSpace(e.kept); isID(id) {
			e.id = bytes.Clone(id)
		}
	case "method":
		e.method = true
	case "result", "error":
		e.answer = true
	case "jsonrpc":
		e.version = true
	}
	e.name = ""
}

// isID says whether a value can be the id of a message: a text or a number.
func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') && json.Valid(raw) && utf8.Valid(raw)
}
