package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// requiredMembers finds out by trial: a member of the golden params without
// which they are refused.
func requiredMembers(t testing.TB, m method) map[string]bool {
	t.Helper()
	needed := map[string]bool{}
	var params map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(readGolden(t, m.Name).Request.Params, &params))
	for name, value := range params {
		delete(params, name)
		raw, err := json.Marshal(params)
		require.NoError(t, err)
		if _, err := m.decode(raw); err != nil {
			requireInvalidParams(t, err)
			require.True(t, strings.HasPrefix(err.(*protocol.Error).Message, name+": "), "the error names %s: %v", name, err)
			needed[name] = true
		}
		params[name] = value
	}
	return needed
}

func requireInvalidParams(t testing.TB, err error) {
	t.Helper()
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, protocol.CodeInvalidParams, e.Code)
	require.Equal(t, protocol.ErrorData{Reason: "invalid_params"}, e.Data)
	for _, leak := range []string{"protocol.", "Go ", "int64", "RawMessage", "[]", "struct", "json:", "2006"} {
		require.NotContains(t, e.Message, leak, "it says how this implementation is made")
	}
}

func TestRequiredMembersAreNamed(t *testing.T) {
	for _, m := range methods() {
		needed := requiredMembers(t, m)
		for _, id := range []string{"session_id", "process_id", "tool_call_id", "terminal_id", "interaction_id"} {
			if slices.Contains(members(m.params), id) {
				assert.True(t, needed[id], "%s needs %s", m.Name, id)
			}
		}
		// What makes a repeat harmless has to be there.
		for key := range strings.SplitSeq(m.Repeat, " + ") {
			if slices.Contains(members(m.params), key) && key != "offset" && key != "cursor" {
				assert.True(t, needed[key], "%s needs its repeat key %s", m.Name, key)
			}
		}
	}
}

func TestInSessionReadsTheSession(t *testing.T) {
	for _, m := range methods() {
		params, err := m.decode(readGolden(t, m.Name).Request.Params)
		require.NoError(t, err)
		if p, ok := params.(protocol.InSession); ok {
			assert.Equal(t, "ses_01jd8q", p.InSession(), m.Name)
		}
	}
}

func TestDecodeParamsNamesTheMember(t *testing.T) {
	for _, c := range []struct{ method, params, want string }{
		{"tool.call", `{"session_id":7}`, "session_id: want a string, got number"},
		{"tool.call", `{"session_id":"s","tool_call_id":"c","tool":"x","deadline_ms":"1"}`, "deadline_ms: want an integer, got string"},
		{"tool.call", `{"session_id":"s","tool_call_id":"c","tool":"x","deadline_ms":1.5}`, "deadline_ms: want an integer, got number"},
		{"tool.call", `{"session_id":"s","tool_call_id":"c","tool":"x","deadline_ms":-1}`, "deadline_ms: must not be negative, got -1"},
		{"tool.call", `{"session_id":"s","tool_call_id":"c","tool":"x","permission":{"mode":"perhaps"}}`, "permission.mode: must be always_allow or always_ask"},
		{"tool.call", `{"session_id":"s","tool_call_id":"c","tool":"x","permission":[]}`, "permission: want an object, got array"},
		{"tool.call", `["s","c"]`, "params: want an object, got array"},
		{"tool.call", `"s"`, "params: want an object, got string"},
		{"tool.call", `{"session_id":`, "params: not valid JSON at byte 14"},
		{"tool.call", `{"session_id":"s",}`, "params: not valid JSON at byte 19"},
		{"session.assign", `{"session_id":"s","work_id":"w","lease":{"fencing_token":"12"}}`, "lease.fencing_token: want an integer, got string"},
		{"session.assign", `{"session_id":"s","work_id":"w","metadata":{"a":1}}`, "metadata.a: want a string, got number"},
		{"session.assign", `{"session_id":"s","work_id":"w","mcp_servers":[{"transport":{"args":"x"}}]}`, "mcp_servers.0.transport.args: want an array, got string"},
		{"process.start", `{"session_id":"s","process_id":"p"}`, "argv: exactly one of argv, package_install and file_transfer is needed, got 0"},
		{"process.start", `{"session_id":"s","process_id":"p","argv":["x"],"file_transfer":{}}`, "argv: exactly one of argv, package_install and file_transfer is needed, got 2"},
		{"process.start", `{"session_id":"s","process_id":"p","argv":["x"],"io_mode":"tty"}`, "io_mode: must be pipes or pty"},
		{"process.start", `{"session_id":"s","process_id":"p","argv":["x"],"cols":80}`, "rows: must be between 1 and 65535, got 0"},
		{"process.read", `{"session_id":"s","process_id":"p","cursor":-1}`, "cursor: must not be negative, got -1"},
		{"process.read", `{"session_id":"s","process_id":"p","stream":"stdin"}`, "stream: must be stdout or stderr"},
		{"process.write", `{"session_id":"s","process_id":"p","data":"*"}`, "data: want a base64 string"},
		{"process.write", `{"session_id":"s","process_id":"p","data":5}`, "data: want a base64 string, got number"},
		{"process.write", `{"session_id":"s","process_id":"p","offset":-1}`, "offset: must not be negative, got -1"},
		{"process.terminate", `{"session_id":"s","process_id":"p","grace_ms":-1}`, "grace_ms: must not be negative, got -1"},
		{"process.status", `{"session_id":"s","process_id":"p","state":"exited","ended_at":"yesterday"}`, "ended_at: want a time as in RFC 3339"},
		{"process.status", `{"session_id":"s","process_id":"p","state":"exited","ended_at":1700000000}`, "ended_at: want a time as in RFC 3339"},
		{"executor.register", `{"protocol":"executor.v1","capabilities":[]}`, "capabilities: want an object, got array"},
		{"executor.heartbeat", `{"connection_id":"c","load":{"cpu_percent":"50"}}`, "load.cpu_percent: want a number, got string"},
		{"executor.capabilities_update", `{}`, "capabilities: required, but missing"},
		{"fs.mount", `{"session_id":"s","service_url":"u","mounts":[{"readonly":1}]}`, "mounts.0.readonly: want true or false, got number"},
		{"turn.start", `{"session_id":"s","turn_id":"t","input":[{"type":"image","data":"~"}]}`, "input.0.data: want a base64 string"},
		{"terminal.open", `{"terminal_id":"t","cols":0,"rows":24}`, "cols: must be between 1 and 65535, got 0"},
	} {
		t.Run(c.method+" "+c.params, func(t *testing.T) {
			_, err := find(t, c.method).decode(json.RawMessage(c.params))
			requireInvalidParams(t, err)
			assert.Equal(t, c.want, err.(*protocol.Error).Message)
		})
	}
}

func find(t testing.TB, name string) method {
	for _, m := range methods() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return method{}
}

// Every member of every params with a value of every wrong kind: refused with
// its name, or taken.
func TestDecodeParamsWrongKindsEverywhere(t *testing.T) {
	for _, m := range methods() {
		for f := range m.params.Fields() {
			for _, wrong := range []string{`7`, `-1.5`, `1e400`, `"~"`, `true`, `[]`, `{}`, `[[1]]`, `{"a":{"b":[0]}}`} {
				name := jsonName(f)
				_, err := m.decode(json.RawMessage(fmt.Sprintf(`{%q:%s}`, name, wrong)))
				if err == nil {
					continue
				}
				requireInvalidParams(t, err)
				if err := json.Unmarshal([]byte(wrong), reflect.New(f.Type).Interface()); err != nil {
					require.Regexp(t, `^`+name+`(\.[a-z0-9_]+)*: want `, errMessage(m.decode(json.RawMessage(fmt.Sprintf(`{%q:%s}`, name, wrong)))))
				}
			}
		}
	}
}

func errMessage(_ any, err error) string { return err.(*protocol.Error).Message }

func TestDecodeParamsIsLenientWhereItMay(t *testing.T) {
	for _, raw := range []string{"", "null", "{}", `{"reason":null}`, ` { "reason" : null, "unheard_of": [1] } `} {
		p, err := protocol.DecodeParams[protocol.DrainParams](json.RawMessage(raw), nil)
		require.NoError(t, err, raw)
		assert.Zero(t, p)
	}
	_, err := protocol.DecodeParams[protocol.ToolCallParams](nil, nil)
	requireInvalidParams(t, err)
}

func TestLongValuesAreNotEchoed(t *testing.T) {
	_, err := protocol.DecodeParams[protocol.ToolCallParams](json.RawMessage(`{"deadline_ms":`+strings.Repeat("9", 1<<16)+`}`), nil)
	requireInvalidParams(t, err)
	assert.Equal(t, "deadline_ms: want an integer, got number", err.(*protocol.Error).Message)
}

func TestDecodeResult(t *testing.T) {
	r, err := protocol.DecodeResult[protocol.AcceptedResult](json.RawMessage(`{"accepted":true,"more":1}`))
	require.NoError(t, err)
	assert.True(t, r.Accepted)
	for _, raw := range []string{"", "null"} {
		r, err := protocol.DecodeResult[protocol.AcceptedResult](json.RawMessage(raw))
		require.NoError(t, err)
		assert.False(t, r.Accepted)
	}
	_, err = protocol.DecodeResult[protocol.AcceptedResult](json.RawMessage(`{"accepted":"yes"}`))
	require.Error(t, err)
	var e *protocol.Error
	assert.False(t, errors.As(err, &e), "the peer broke the contract; that is no answer to anyone")
}

// No sessions named and "none" are different answers to a register.
func TestRegisterResultSessions(t *testing.T) {
	none, err := protocol.DecodeResult[protocol.RegisterResult](json.RawMessage(`{"sessions":[]}`))
	require.NoError(t, err)
	require.NotNil(t, none.Sessions)
	unsaid, err := protocol.DecodeResult[protocol.RegisterResult](json.RawMessage(`{"sessions":null}`))
	require.NoError(t, err)
	require.Nil(t, unsaid.Sessions)
	raw, err := json.Marshal(none)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"sessions":[]`)
}

func TestBlobs(t *testing.T) {
	for _, b := range []protocol.Blob{
		&protocol.ProcessReadResult{}, &protocol.ProcessWriteParams{}, &protocol.ProcessOutputParams{}, &protocol.ToolProgressParams{},
	} {
		*b.Blob() = []byte("ok\n")
		raw, err := json.Marshal(b)
		require.NoError(t, err)
		assert.Contains(t, string(raw), `"data":"b2sK"`)
	}
}

func TestText(t *testing.T) {
	assert.Equal(t, protocol.ToolOutput{Content: []protocol.Content{{Type: "text", Text: "hi"}}}, protocol.Text("hi"))
}

func TestTime(t *testing.T) {
	moment := time.Date(2026, 3, 2, 10, 15, 0, 987654321, time.FixedZone("", 3600))
	for want, wire := range map[string]protocol.Time{
		`"2026-03-02T09:15:00.987654Z"`: protocol.At(moment),
		`"2026-03-02T09:15:00.000000Z"`: {Time: moment.Truncate(time.Second)},
		`null`:                          {},
	} {
		raw, err := json.Marshal(wire)
		require.NoError(t, err)
		assert.Equal(t, want, string(raw))
	}
	assert.Equal(t, time.UTC, protocol.Now().Location())
	assert.WithinDuration(t, time.Now(), protocol.Now().Time, time.Minute)

	raw, err := json.Marshal(protocol.HeartbeatResult{})
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "server_time", "an unset time is absent")

	for text, want := range map[string]time.Time{
		`"2026-03-02T09:15:00Z"`:           time.Date(2026, 3, 2, 9, 15, 0, 0, time.UTC),
		`"2026-03-02T09:15:00.123456789Z"`: time.Date(2026, 3, 2, 9, 15, 0, 123456789, time.UTC),
		`"2026-03-02T11:15:00.5+02:00"`:    time.Date(2026, 3, 2, 9, 15, 0, 500000000, time.UTC),
		`null`:                             {},
	} {
		var have protocol.Time
		require.NoError(t, json.Unmarshal([]byte(text), &have), text)
		assert.Equal(t, want, have.Time)
	}
	for _, text := range []string{`""`, `"now"`, `1`, `{}`, `"2026-03-02"`, `"2026-13-02T09:15:00Z"`, `"2026-03-02 09:15:00Z"`, `"9999-12-31T23:59:59-01:00"`} {
		assert.Error(t, json.Unmarshal([]byte(text), new(protocol.Time)), text)
	}
}

// FuzzDecodeParams: whatever comes, no method panics, and the error is one that
// may be sent as the answer.
func FuzzDecodeParams(f *testing.F) {
	for _, m := range methods() {
		for _, x := range readGolden(f, m.Name).exchanges() {
			f.Add([]byte(x.Request.Params))
		}
	}
	for _, s := range []string{``, `null`, `[]`, `{`, `{"session_id":{}}`, `{"data":"*"}`, `{"expires_at":"9999-12-31T23:59:59-01:00"}`, `{"lease":{"fencing_token":1e99}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range methods() {
			p, err := m.decode(raw)
			if err != nil {
				e, ok := err.(*protocol.Error)
				if !ok || e.Code != protocol.CodeInvalidParams || e.Data.Reason != "invalid_params" || e.Data.Retryable || len(e.Message) > 200 {
					t.Fatalf("%s: %#v", m.Name, err)
				}
				continue
			}
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatalf("%s: what was read cannot be written: %v", m.Name, err)
			}
			if _, err := m.decode(again); err != nil {
				t.Fatalf("%s: what was written cannot be read: %v", m.Name, err)
			}
		}
	})
}
