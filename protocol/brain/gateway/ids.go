package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The library reads every number of an id into a float64 and cuts it to an integer: 1.5
// becomes 1, and a large one another. So ids are read here. The library can hold integers
// that a float64 has exactly, and strings; a larger integer is a string to it that no
// client can send, and becomes the integer again on its way out.

const (
	exactIDs = 1 << 53 // integers below it are float64s exactly

	largeID = "\x00" // begins the string that stands for a large integer

	methodCancelled = "notifications/cancelled"
)

var errID = errors.New("an id is neither a string nor an integer of 64 bits")

// idOf reads an id as it was sent.
func idOf(raw json.RawMessage) (jsonrpc.ID, error) {
	var value any
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || strings.HasPrefix(s, largeID) {
			return jsonrpc.ID{}, errID
		}
		value = s
	} else {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return jsonrpc.ID{}, errID
		}
		value = float64(n)
		if n <= -exactIDs || n >= exactIDs {
			value = largeID + strconv.FormatInt(n, 10)
		}
	}
	return jsonrpc.MakeID(value)
}

// identify gives a message the id that is in raw, the text of it. A cancelled that names
// no request is errID too.
func identify(msg jsonrpc.Message, raw []byte) (cancelled jsonrpc.ID, err error) {
	var sent struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(raw, &sent); err != nil {
		return cancelled, fmt.Errorf("read the id: %w", err)
	}
	var id jsonrpc.ID
	if sent.ID != nil {
		if id, err = idOf(sent.ID); err != nil {
			return cancelled, err
		}
	}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		m.ID = id
	case *jsonrpc.Request:
		m.ID = id
		if m.Method != methodCancelled {
			return cancelled, nil
		}
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return cancelled, errID
		}
		if cancelled, err = idOf(p.RequestID); err != nil {
			return cancelled, err
		}
		m.Params, err = json.Marshal(map[string]any{"requestId": cancelled.Raw()})
	}
	return cancelled, err
}

// encode is a message as it is sent.
func encode(msg jsonrpc.Message) ([]byte, error) {
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return jsonrpc.EncodeMessage(msg)
	}
	raw, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: r.ID, Result: r.Result, Error: coded(r.Error)})
	if s, ok := r.ID.Raw().(string); ok && err == nil && strings.HasPrefix(s, largeID) {
		raw = []byte(strings.Replace(string(raw), string(quote(s)), s[len(largeID):], 1)) // the id comes first
	}
	return raw, err
}

// coded gives an error a code that has none. Those are the library's own, of what came at
// the wrong time: what handlers return has one.
func coded(err error) error {
	var e *jsonrpc.Error
	if err == nil || errors.As(err, &e) && e.Code != 0 {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
}
