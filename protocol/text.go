package protocol

import (
	"encoding/json"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// AppendText appends to dst what raw stands for, a JSON string with its quotes that is
// known to be valid, as decoding it into a string would.
func AppendText(dst []byte, raw json.RawMessage) []byte {
	return jsonwire.AppendUnquoted(dst, raw[1:len(raw)-1])
}
