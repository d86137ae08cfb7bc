package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
	"github.com/agent-executor/executor/protocol"
)

// Kinds of records. The head of each says which call it is of, the body of a result is
// the params of its tool.result. A marked result was acknowledged.
const (
	kindAccept byte = 1 // a call will be run
	kindResult byte = 2 // it has a result
	kindGone   byte = 3 // it had one, which is no longer kept
	kindNote   byte = 4 // no call, but a note
)

const headReadOnly = 1

// digest identifies what a call is: a repeat may be spaced differently and have
// another deadline.
type digest [sha256.Size]byte

// headOf is u8 flags, the digest, and the two ids, each behind its length; of a note
// also the value.
func headOf(e *entry) []byte {
	h := make([]byte, 0, 1+len(e.digest)+2*binary.MaxVarintLen16+len(e.session)+len(e.call))
	flags := byte(0)
	if e.readOnly {
		flags |= headReadOnly
	}
	if e.forgotten {
		flags |= headForgotten
	}
	h = append(h, flags)
	h = append(h, e.digest[:]...)
	for _, id := range []string{e.session, e.call} {
		h = binary.AppendUvarint(h, uint64(len(id)))
		h = append(h, id...)
	}
	return append(h, e.value...)
}

// noteOf is what is to be written of a note.
func noteOf(e *entry) journal.Entry { return journal.Entry{Kind: kindNote, Head: headOf(e)} }

// readHead makes an entry of a head; nil when it is none.
func readHead(h []byte) *entry {
	e := &entry{}
	if len(h) < 1+len(e.digest) {
		return nil
	}
	e.readOnly, e.forgotten = h[0]&headReadOnly != 0, h[0]&headForgotten != 0
	h = h[1:]
	copy(e.digest[:], h)
	h = h[len(e.digest):]
	for _, id := range []*string{&e.session, &e.call} {
		n, used := binary.Uvarint(h)
		if used <= 0 || n > uint64(len(h)-used) {
			return nil
		}
		*id = string(h[used : used+int(n)])
		h = h[used+int(n):]
	}
	e.value = bytes.Clone(h)
	return e
}

// encode writes a result as JSON.
func encode(r *protocol.ToolResultParams) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r)
	return b.Bytes(), err
}

// digestOf is that of a call. No input is an empty one.
func digestOf(p protocol.ToolCallParams) digest {
	mode := ""
	if p.Permission != nil {
		mode = p.Permission.Mode
	}
	var b bytes.Buffer
	b.Grow(len(p.Tool) + len(mode) + len(p.Input) + 2*binary.MaxVarintLen64)
	for _, s := range []string{p.Tool, mode} {
		b.Write(binary.AppendUvarint(b.AvailableBuffer(), uint64(len(s))))
		b.WriteString(s)
	}
	start := b.Len()
	switch {
	case len(p.Input) == 0 || string(p.Input) == "null":
		b.WriteString("{}")
	case json.Compact(&b, p.Input) != nil:
		b.Truncate(start)
		b.Write(p.Input)
	}
	return sha256.Sum256(b.Bytes())
}
