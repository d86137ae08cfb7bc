package jsonwire_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

func TestTypeErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct {
		v         any
		raw, want string
	}{
		{new(protocol.ToolCallParams), `{"session_id":7}`, "session_id: want a string, got number 7"},
		{new(protocol.ToolCallParams), `{"deadline_ms":1.5}`, "deadline_ms: want an integer, got number 1.5"},
		{new(protocol.ToolCallParams), `{"deadline_ms":1e3}`, "deadline_ms: want an integer, got number 1e3"},
		{new(protocol.ToolCallParams), `{"deadline_ms":` + strings.Repeat("9", 99) + `}`, "deadline_ms: want an integer, got number " + strings.Repeat("9", 25) + "…"},
		{new(protocol.ToolCallParams), `{"permission":[]}`, "permission: want an object, got array"},
		{new(protocol.ToolCallParams), `["s"]`, "value: want an object, got array"},
		{new(protocol.SessionAssignParams), `{"lease":{"fencing_token":"12"}}`, "lease.fencing_token: want an integer, got string"},
		{new(protocol.SessionAssignParams), `{"metadata":{"k":1}}`, "metadata.k: want a string, got number 1"},
		{new(protocol.SessionAssignParams), `{"metadata":[]}`, "metadata: want an object, got array"},
		{new(protocol.SessionAssignParams), `{"mcp_servers":[{},{"transport":{"args":"x"}}]}`, "mcp_servers.1.transport.args: want an array, got string"},
		{new(protocol.SessionAssignParams), `{"mcp_servers":[{"transport":{"args":["a",{}]}}]}`, "mcp_servers.0.transport.args.1: want a string, got object"},
		{new(protocol.SessionReadyParams), `{"mcp":{"k":{"error":{"retryable":1}}}}`, "mcp.error.retryable: want true or false, got number"},
		{new(protocol.ProcessWriteParams), `{"data":5}`, "data: want a base64 string, got number 5"},
		{new(protocol.ProcessWriteParams), `{"data":[1,256]}`, "data.1: want an integer that is not negative, got number 256"},
		{new(protocol.ProcessWriteParams), `{"data":"*"}`, "data: want a base64 string: illegal base64 data at input byte 0"},
		{new(protocol.ProcessWriteParams), `{"offset":true}`, "offset: want an integer, got bool"},
		{new(protocol.ProcessStatusParams), `{"ended_at":"yesterday"}`, "ended_at: want another value: not a time as in RFC 3339"},
		{new(protocol.HeartbeatParams), `{"load":{"cpu_percent":"50"}}`, "load.cpu_percent: want a number, got string"},
		{new(protocol.HeartbeatParams), `{"load":{"cpu_percent":1e999}}`, "load.cpu_percent: want a number, got number 1e999"},
		{new(protocol.RegisterParams), `{"capabilities":[]}`, "capabilities: want an object, got array"},
		{new(protocol.AcceptedResult), `{"accepted":"yes"}`, "accepted: want true or false, got string"},
		{new(numbers), `{"U8":-1}`, "U8: want an integer that is not negative, got number -1"},
		{new(numbers), `{"I8":128}`, "I8: want an integer, got number 128"},
		{new(methods), `{"text":1}`, "text: want a string, got number"},
		{new(methods), `{"text":""}`, "text: want a string: empty"},
		{new([2]int), `{}`, "value: want an array, got object"},
		{new([]string), `"x"`, "value: want an array, got string"},
	} {
		for _, valid := range []bool{false, true} {
			err := jsonwire.Unmarshal([]byte(c.raw), c.v, valid)
			var e *jsonwire.TypeError
			require.ErrorAs(t, err, &e, c.raw)
			assert.Equal(t, c.want, err.Error(), c.raw)
		}
	}
}

func TestTypeErrorKeepsTheReason(t *testing.T) {
	var params protocol.ProcessWriteParams
	err := jsonwire.Unmarshal([]byte(`{"data":"aGk"}`), &params, true)
	var corrupt base64.CorruptInputError
	require.ErrorAs(t, err, &corrupt)
	err = jsonwire.Unmarshal([]byte(`"bad"`), new(shout), true)
	assert.EqualError(t, errors.Unwrap(err), "bad")
}

func TestSyntaxErrors(t *testing.T) {
	deep := strings.Repeat(`{"]":[`, 501)
	for raw, offset := range map[string]int{
		``: 0, ` `: 1, `{"a":`: 5, `{"a":1,}`: 8, `{} x`: 4, `nulx`: 4, `"\x"`: 3, `{"a":1]`: 7, `tru`: 3,
		deep + "1" + strings.Repeat("]}", 501): 6*500 + 1,
	} {
		var v any
		err := jsonwire.Unmarshal([]byte(raw), &v, false)
		var e *jsonwire.SyntaxError
		require.ErrorAs(t, err, &e, raw)
		assert.Equal(t, offset, e.Offset, raw)
		assert.Nil(t, v)
	}
}

func TestUnmarshalNeedsAPointer(t *testing.T) {
	for _, v := range []any{nil, 1, tree{}, (*tree)(nil)} {
		var e *json.InvalidUnmarshalError
		assert.ErrorAs(t, jsonwire.Unmarshal([]byte(`{}`), v, false), &e)
	}
}

func TestUnmarshalDecodesOver(t *testing.T) {
	code := 7
	have := protocol.ProcessReadResult{ProcessID: "p", Stream: "s", Data: []byte("old"), NextCursor: 3, ExitCode: &code, Gap: true}
	require.NoError(t, jsonwire.Unmarshal([]byte(`{"process_id":null,"stream":"t","stream":"u","data":null,"next_cursor":null,"exit_code":8,"gap":null,"more":[{}]}`), &have, false))
	assert.Equal(t, protocol.ProcessReadResult{ProcessID: "p", Stream: "u", NextCursor: 3, ExitCode: &code, Gap: true}, have)
	assert.Equal(t, 8, code, "what a pointer points to is kept")
	require.NoError(t, jsonwire.Unmarshal([]byte(`{"exit_code":null,"data":""}`), &have, false))
	assert.Nil(t, have.ExitCode)
	assert.Equal(t, []byte{}, have.Data)

	params := protocol.ToolResultParams{Content: []protocol.Content{{Type: "text", Text: "a"}, {Type: "b"}}}
	require.NoError(t, jsonwire.Unmarshal([]byte(`{"content":[{"text":"c"}],"artifacts":[]}`), &params, false))
	assert.Equal(t, protocol.ToolResultParams{Content: []protocol.Content{{Type: "text", Text: "c"}}, Artifacts: []protocol.Artifact{}}, params)
}

// The frame may be used again as soon as Unmarshal has returned.
func TestNothingRefersToTheData(t *testing.T) {
	data := []byte(` {"session_id":"ses","input":{"a":"long enough to be worth sharing"},"tool":"esc\naped"} `)
	var params protocol.ToolCallParams
	require.NoError(t, jsonwire.Unmarshal(data, &params, true))
	clear(data)
	assert.Equal(t, protocol.ToolCallParams{SessionID: "ses", Tool: "esc\naped", Input: json.RawMessage(`{"a":"long enough to be worth sharing"}`)}, params)
}

func TestBase64WithEscapes(t *testing.T) {
	for _, raw := range []string{`"/+8="`, `"\/+8="`, `"\u002f+8="`, `"/+\r\n8="`} {
		var have []byte
		require.NoError(t, jsonwire.Unmarshal([]byte(raw), &have, false), raw)
		assert.Equal(t, []byte{0xff, 0xef}, have, raw)
	}
}

func TestDeepValues(t *testing.T) {
	raw := []byte(strings.Repeat(`{"left":`, 999) + "{}" + strings.Repeat("}", 999))
	var have tree
	require.NoError(t, jsonwire.Unmarshal(raw, &have, false))
	again, err := jsonwire.Append(nil, &have)
	require.NoError(t, err)
	assert.Equal(t, string(raw), string(again))
}
