package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/segmentio/asm/ascii"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// message is one JSON-RPC 2.0 object that came in. Its slices point into the
// frame. The types of sourcegraph/jsonrpc2 stand for ids and errors wherever
// they can hold them; a peer's id stays raw beside that, because they have no
// negative integers and an id is echoed as it came.
type message struct {
	id     []byte // raw; nil when there is none
	method string // "" for a response
	params []byte
	result []byte
	err    []byte
	data   []byte // what came behind the JSON of a binary message
}

func (m *message) isRequest() bool { return m.method != "" && m.id != nil }

var (
	errParse   = protocol.Errorf(protocol.CodeParseError, "parse error: the message is not valid UTF-8 JSON")
	errBatch   = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: batches are not supported; send one object per message")
	errObject  = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: a message is one JSON object")
	errVersion = protocol.Errorf(protocol.CodeInvalidRequest, `invalid request: jsonrpc: must be "2.0"`)
	errMethod  = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: method: must be a string that is not empty")
	errID      = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: id: must be a string or an integer")
	errShape   = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: neither a method nor exactly one of result and error")
	errBinary  = protocol.Errorf(protocol.CodeParseError, "parse error: a binary message is a 4-byte length, a JSON object of that length, then its data")
)

// parseMessage reads a frame, text or binary. The error says what to answer with
// `id: null`; the connection goes on.
func parseMessage(frame []byte) (message, *protocol.Error) {
	var m message
	if isBinary(frame) {
		if len(frame) < 4 {
			return m, errBinary
		}
		n := int64(binary.BigEndian.Uint32(frame))
		if n > int64(len(frame)-4) {
			return m, errBinary
		}
		m.data = frame[4+n:]
		frame = frame[4 : 4+n]
	}
	if !ascii.Valid(frame) && !utf8.Valid(frame) {
		return m, errParse
	}
	var version, method []byte
	if !jsonwire.ForEachMember(frame, func(name, value []byte) {
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			m.id = value
		case "method":
			method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.err = value
		}
	}) {
		return message{}, whyNotObject(frame)
	}
	if string(version) != `"2.0"` {
		return m, errVersion
	}
	if m.err != nil && string(m.err) == "null" && m.result != nil {
		m.err = nil // some peers send both members
	}
	if method != nil {
		if method[0] != '"' || len(method) == 2 {
			return m, errMethod
		}
		if m.method = string(method[1 : len(method)-1]); bytes.IndexByte(method, '\\') >= 0 {
			m.method = string(unescape(method[1 : len(method)-1]))
		}
		if m.id != nil && !validID(m.id) {
			return m, errID
		}
		return m, nil
	}
	switch {
	case (m.result == nil) == (m.err == nil):
		return m, errShape
	case m.id == nil, !validID(m.id) && string(m.id) != "null":
		return m, errID
	}
	return m, nil
}

// isBinary tells a binary message from a text message: its length comes first,
// and no frame is 16 MiB long, so its first byte is zero; JSON never has one.
func isBinary(frame []byte) bool { return len(frame) > 0 && frame[0] == 0 }

func whyNotObject(frame []byte) *protocol.Error {
	i := jsonwire.SkipSpace(frame, 0)
	end := jsonwire.SkipValue(frame, i)
	switch {
	case end < 0 || jsonwire.SkipSpace(frame, end) != len(frame):
		return errParse
	case frame[i] == '[':
		return errBatch
	default:
		return errObject
	}
}

func validID(id []byte) bool {
	if id[0] == '"' {
		return true
	}
	if id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return false
	}
	return !bytes.ContainsAny(id, ".eE")
}

// unescape decodes the inside of a JSON string that was checked before.
func unescape(s []byte) []byte {
	var out string
	if json.Unmarshal([]byte(`"`+string(s)+`"`), &out) != nil {
		return s
	}
	return []byte(out)
}

// ownID reads back an id this end gave out: a decimal number in a string, since
// a peer may answer a malformed frame with id null or 0 and must not hit a call.
func ownID(raw []byte) (uint64, bool) {
	if len(raw) < 3 || raw[0] != '"' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[1:len(raw)-1]), 10, 64)
	return n, err == nil
}

// newID is the id of the n-th call.
func newID(n uint64) jsonrpc2.ID { return jsonrpc2.ID{Str: strconv.FormatUint(n, 10), IsString: true} }

// writeRequest writes the frame of a request, or of a notification when id is
// nil. binary says whether the peer takes binary messages.
func writeRequest(f *buffer, id *jsonrpc2.ID, method string, params any, binary bool) error {
	return writeFrame(f, params, "params", binary, func() {
		f.b = append(f.b, `{"jsonrpc":"2.0",`...)
		if id != nil {
			f.b = append(f.b, `"id":"`...)
			f.b = append(f.b, id.Str...)
			f.b = append(f.b, `",`...)
		}
		f.b = append(f.b, `"method":"`...)
		f.b = append(f.b, method...)
		f.b = append(f.b, `",`...)
	})
}

// writeResponse writes the frame of an answer; id is as it came.
func writeResponse(f *buffer, id []byte, result any, binary bool) error {
	return writeFrame(f, result, "result", binary, func() {
		f.b = append(f.b, `{"jsonrpc":"2.0","id":`...)
		f.b = append(f.b, id...)
		f.b = append(f.b, ',')
	})
}

// writeError writes the frame of an error answer; a nil id is null.
func writeError(f *buffer, id []byte, e *protocol.Error) {
	w := jsonrpc2.Error{Code: int64(e.Code), Message: e.Message}
	data := e.Data
	if data.Reason == "" {
		data.Reason = e.Code.String()
	}
	if raw, err := json.Marshal(data); err == nil {
		w.Data = (*json.RawMessage)(&raw)
	}
	if id == nil {
		id = []byte("null")
	}
	f.b = append(f.b, `{"jsonrpc":"2.0","id":`...)
	f.b = append(f.b, id...)
	f.b = append(f.b, `,"error":`...)
	_ = f.writeJSON(w) // numbers, strings and valid JSON: it cannot fail
	f.b = append(f.b, '}')
}

// errNoError is an answer that is malformed: it decides nothing.
var errNoError = errors.New("decode error: the peer answered with an error that is no object with a code and a message")

// decodeError turns an answer's error member into the *protocol.Error it stands for,
// or into errNoError.
func decodeError(raw []byte) error {
	var w jsonrpc2.Error
	if json.Unmarshal(raw, &w) != nil {
		return errNoError
	}
	e := protocol.Errorf(protocol.Code(w.Code), "%s", w.Message)
	if w.Data != nil {
		var data protocol.ErrorData
		if json.Unmarshal(*w.Data, &data) == nil && data.Reason != "" {
			e.Data = data
		} else {
			e.Data.Detail = string(*w.Data)
		}
	}
	return e
}

// toError maps whatever a handler returned to the one error that crosses the
// wire. internal is true when the error's own text must not cross it.
func toError(err error) (e *protocol.Error, internal bool) {
	if errors.As(err, &e) {
		return e, false
	}
	return protocol.Errorf(protocol.CodeInternalError, "internal error"), true
}

// writeFrame writes head, then the payload under key. The payload's data member
// goes behind the JSON of a binary message, or into it as base64; it never goes
// through encoding/json.
func writeFrame(f *buffer, payload any, key string, binaryOK bool, head func()) error {
	var data []byte
	if blob, ok := payload.(protocol.Blob); ok {
		field := blob.Blob()
		if data = *field; len(data) > 0 {
			*field = nil
			defer func() { *field = data }()
		}
	}
	asBinary := binaryOK && len(data) > 0
	if asBinary {
		f.b = append(f.b, 0, 0, 0, 0)
	}
	head()
	f.b = append(f.b, '"')
	f.b = append(f.b, key...)
	f.b = append(f.b, `":`...)
	if err := f.writeJSON(payload); err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if len(data) > 0 && !asBinary {
		f.b = f.b[:len(f.b)-1] // the closing brace
		if f.b[len(f.b)-1] != '{' {
			f.b = append(f.b, ',')
		}
		f.b = append(f.b, `"data":"`...)
		f.reserve(base64.StdEncoding.EncodedLen(len(data)))
		f.b = jsonwire.AppendBase64(f.b, data)
		f.b = append(f.b, `"}`...)
	}
	f.b = append(f.b, '}')
	if asBinary {
		binary.BigEndian.PutUint32(f.b, uint32(len(f.b)-4))
		_, _ = f.Write(data)
	}
	return nil
}
