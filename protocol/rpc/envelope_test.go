package rpc

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// Every malformed frame gets the code the contract gives it (cases X1).
func TestParseMalformed(t *testing.T) {
	cases := map[string]protocol.Code{
		``:                        protocol.CodeParseError,
		`{`:                       protocol.CodeParseError,
		`{"jsonrpc":"2.0","id":1`: protocol.CodeParseError,
		`nope`:                    protocol.CodeParseError,
		`{"jsonrpc":"2.0","method":"a","id":"1","params":{"a":tru}}`: protocol.CodeParseError,
		"{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\",\"id\":\"1\"}":    protocol.CodeParseError,
		strings.Repeat("[", 100000):                                  protocol.CodeParseError,
		`{"jsonrpc":"2.0"} x`:                                        protocol.CodeParseError,
		"\x00\x00":                                                   protocol.CodeParseError,
		"\x00\xff\xff\xff{}":                                         protocol.CodeParseError,
		`[]`:                                                         protocol.CodeInvalidRequest,
		`[{"jsonrpc":"2.0","method":"a","id":"1"}]`:                  protocol.CodeInvalidRequest,
		`null`:                                   protocol.CodeInvalidRequest,
		`5`:                                      protocol.CodeInvalidRequest,
		`"x"`:                                    protocol.CodeInvalidRequest,
		`{}`:                                     protocol.CodeInvalidRequest,
		`{"method":"a","id":"1"}`:                protocol.CodeInvalidRequest,
		`{"jsonrpc":"1.0","method":"a"}`:         protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":5,"id":"1"}`:  protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"","id":"1"}`: protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"a","id":{}}`: protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"a","id":1.5}`:                                 protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"a","id":1e3}`:                                 protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"a","id":true}`:                                protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","method":"a","id":null}`:                                protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":"1"}`:                                              protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":"1","result":{},"error":{"code":1,"message":"x"}}`: protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","result":{}}`:                                           protocol.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":[],"result":{}}`:                                   protocol.CodeInvalidRequest,
	}
	for frame, code := range cases {
		_, err := parseMessage([]byte(frame))
		if err == nil || err.Code != code {
			t.Errorf("%.60q: got %v, want %v", frame, err, code)
		}
	}
}

func TestParseWellFormed(t *testing.T) {
	for frame, want := range map[string]message{
		` { "jsonrpc" : "2.0" , "id" : -1 , "method" : "a" , "params" : {} } `: {id: []byte("-1"), method: "a", params: []byte("{}")},
		`{"jsonrpc":"2.0","id":18446744073709551616,"method":"a"}`:             {id: []byte("18446744073709551616"), method: "a"},
		`{"jsonrpc":"2.0","id":"","method":"a"}`:                               {id: []byte(`""`), method: "a"},
		`{"jsonrpc":"2.0","\u006dethod":"\u0061"}`:                             {method: "a"},
		`{"jsonrpc":"2.0","method":"a","params":null,"extra":[1]}`:             {method: "a", params: []byte("null")},
		`{"jsonrpc":"2.0","id":"1","result":null}`:                             {id: []byte(`"1"`), result: []byte("null")},
		`{"jsonrpc":"2.0","id":"1","result":{},"error":null}`:                  {id: []byte(`"1"`), result: []byte("{}")},
		`{"jsonrpc":"2.0","id":null,"error":{"code":1}}`:                       {id: []byte("null"), err: []byte(`{"code":1}`)},
		`{"jsonrpc":"2.0","method":"a","method":"b"}`:                          {method: "b"},
	} {
		got, err := parseMessage([]byte(frame))
		require.Nil(t, err, frame)
		require.Equal(t, want, got, frame)
	}
}

// What goes out is what sourcegraph/jsonrpc2 reads, and the other way round.
func TestEnvelopeAgreesWithJSONRPC2(t *testing.T) {
	f := getBuffer()
	id := newID(7)
	require.NoError(t, writeRequest(&f, &id, "tool.call", protocol.ToolCallParams{SessionID: "s", ToolCallID: "c", Tool: "<t>"}, false))
	var req jsonrpc2.Request
	require.NoError(t, json.Unmarshal(f.b, &req))
	require.Equal(t, id, req.ID)
	require.Equal(t, "tool.call", req.Method)
	var p protocol.ToolCallParams
	require.NoError(t, json.Unmarshal(*req.Params, &p))
	require.Equal(t, "<t>", p.Tool)

	raw, err := json.Marshal(&req)
	require.NoError(t, err)
	m, bad := parseMessage(raw)
	require.Nil(t, bad)
	n, ok := ownID(m.id)
	require.True(t, ok)
	require.EqualValues(t, 7, n)

	f.b = f.b[:0]
	writeError(&f, []byte(`-1`), protocol.Errorf(protocol.CodeExecutorBusy, "busy"))
	m, bad = parseMessage(f.b)
	require.Nil(t, bad)
	require.Equal(t, "-1", string(m.id))
	var e *protocol.Error
	require.ErrorAs(t, decodeError(m.err), &e)
	require.Equal(t, protocol.CodeExecutorBusy, e.Code)
	require.Equal(t, "executor_busy", e.Reason())
	require.True(t, e.Data.Retryable)
	for _, no := range []string{`"bad"`, `7`, `[]`, `{"code":"x"}`} {
		require.Equal(t, errNoError, decodeError([]byte(no)))
	}
}

// The data member goes as base64 in a text message and as raw bytes in a binary one;
// both are read back the same.
func TestData(t *testing.T) {
	data := make([]byte, 100<<10)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	for _, binary := range []bool{false, true} {
		for _, n := range []int{0, 1, 3, len(data)} {
			p := protocol.ProcessOutputParams{SessionID: "s", ProcessID: "p", Stream: "stdout", Cursor: 5, Data: data[:n]}
			f := getBuffer()
			require.NoError(t, writeRequest(&f, nil, "process.output", &p, binary))
			require.Len(t, p.Data, n, "the caller's value is left as it was")
			require.Equal(t, binary && n > 0, isBinary(f.b))
			m, bad := parseMessage(f.b)
			require.Nil(t, bad)
			got, err := protocol.DecodeParams[protocol.ProcessOutputParams](m.params, m.data)
			require.NoError(t, err)
			require.Equal(t, n, len(got.Data))
			require.Equal(t, string(data[:n]), string(got.Data))
			require.EqualValues(t, 5, got.Cursor)
		}
	}
}

// A value that cannot be encoded leaves no half frame behind.
func TestUnencodable(t *testing.T) {
	f := getBuffer()
	require.Error(t, writeResponse(&f, []byte(`"1"`), map[string]any{"f": func() {}}, false))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":"1","method":"a","params":{"x":[1,2,{"y":null}]}}`,
		`{"jsonrpc":"2.0","id":-1,"result":{}}`, "\x00\x00\x00\x02{}data", `[1]`, `{"a":"\ud800"}`, "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, bad := parseMessage(frame)
		if bad != nil || isBinary(frame) {
			return
		}
		if !json.Valid(frame) {
			t.Fatalf("taken, but not valid JSON: %q", frame)
		}
		if m.method == "" && m.id == nil {
			t.Fatalf("neither request nor answer: %q", frame)
		}
	})
}
