package capabilities

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// LongText is a member of an input that is a string, and perhaps a long one. It is not
// decoded before it is used, and then into memory that is used again: new memory for a
// file costs the system more time than the rest of its way to the disk costs us. It
// refers to the input that it is in. The zero value is the empty text. It may be used
// concurrently.
type LongText struct{ raw json.RawMessage }

// UnmarshalJSON keeps raw.
func (t *LongText) UnmarshalJSON(raw []byte) error {
	if len(raw) < 2 || raw[0] != '"' {
		return errors.New("want a string")
	}
	t.raw = raw
	return nil
}

// maxLongText is up to how many bytes the memory for a text is used again.
const maxLongText = 1 << 20

var longTexts = sync.Pool{New: func() any { return new([]byte) }}

// Bytes is the text. It is not to be written to, and not to be used after free, which
// is called once.
func (t LongText) Bytes() (text []byte, free func()) {
	if len(t.raw) == 0 {
		return nil, func() {}
	}
	if len(t.raw) > maxLongText {
		return protocol.AppendText(nil, t.raw), func() {}
	}
	b := longTexts.Get().(*[]byte)
	*b = protocol.AppendText((*b)[:0], t.raw)
	return *b, func() { longTexts.Put(b) }
}
