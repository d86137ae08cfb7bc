package capabilities

import (
	"context"
	"encoding/json"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

type position struct {
	Line   int `json:"line"`
	Column int `json:"column,omitempty"`
}

type sampleEdit struct {
	OldText string    `json:"old_text"`
	NewText string    `json:"new_text,omitempty"`
	At      *position `json:"at,omitempty"`
}

type common struct {
	Label string `json:"label,omitempty"`
}

// sample has one member of every kind that a tool's input is made of.
type sample struct {
	common
	Command   string                `json:"command" jsonschema:"what to run"`
	TimeoutMS int64                 `json:"timeout_ms,omitempty"`
	Limit     *int                  `json:"limit,omitempty"`
	Ratio     float64               `json:"ratio,omitempty"`
	Small     int8                  `json:"small,omitempty"`
	Count     uint                  `json:"count,omitempty"`
	Big       uint64                `json:"big,omitempty"`
	Force     bool                  `json:"force,omitempty"`
	Edits     []sampleEdit          `json:"edits,omitempty"`
	Env       map[string]string     `json:"env,omitempty"`
	ByName    map[string]sampleEdit `json:"by_name,omitempty"`
	Pair      *[2]int               `json:"pair,omitempty"`
	Data      []byte                `json:"data,omitempty"`
	Raw       json.RawMessage       `json:"raw,omitempty"`
	Any       any                   `json:"any,omitempty"`
	Since     time.Time             `json:"since,omitzero"`
	Addr      netip.Addr            `json:"addr,omitzero"`
}

// prepared decodes an input as a call does.
func prepared[In any](t *testing.T, schema, input string) (In, error) {
	t.Helper()
	var given json.RawMessage
	if schema != "" {
		given = json.RawMessage(schema)
	}
	typ, err := newInputType[In](given)
	require.NoError(t, err)
	before := strings.Clone(input)
	raw := json.RawMessage(input)
	in, err := typ.decode(raw)
	require.Equal(t, before, string(raw), "the input was changed")
	if err != nil {
		var e *protocol.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, protocol.CodeInvalidParams, e.Code)
		require.Same(t, e, err, "the error itself is the protocol.Error")
	}
	return in, err
}

func TestInputRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	tests := []struct{ name, input, want string }{
		{"an array", `[]`, "input: want an object, got an array"},
		{"a string", `"x"`, "input: want an object, got a string"},
		{"a number", `7`, "input: want an object, got the number 7"},
		{"a literal", `true`, "input: want an object, got true"},
		{"not JSON", `{"command":`, "input: not valid JSON at byte 11"},
		{"not JSON at all", `rm -rf`, "input: not valid JSON at byte 1"},
		{"a comma too many", `{"command":"a",}`, "input: not valid JSON at byte 16"},
		{"a bad literal in a member that would be dropped", `{"command":"a","limit":nil}`, "input: not valid JSON at byte 25"},
		{"a bad number that would be rewritten", `{"command":"a","limit":03.0}`, "input: not valid JSON at byte 25"},

		{"unknown, near", `{"comand":"a"}`, `comand: unknown member; did you mean "command"?`},
		{"unknown, other case", `{"Command":"a"}`, `Command: unknown member; did you mean "command"?`},
		{"unknown, camel case", `{"command":"a","timeoutMs":1}`, `timeoutMs: unknown member; did you mean "timeout_ms"?`},
		{"unknown, part", `{"command":"a","timeout":1}`, `timeout: unknown member; did you mean "timeout_ms"?`},
		{"unknown, letters swapped", `{"command":"a","limti":1}`, `limti: unknown member; did you mean "limit"?`},
		{"unknown in an array", `{"command":"a","edits":[{"old_text":"x"},{"old_txt":"y"}]}`,
			`edits[1].old_txt: unknown member; did you mean "old_text"?`},
		{"unknown in a map", `{"command":"a","by_name":{"a b":{"zzz":1}}}`,
			`by_name."a b".zzz: unknown member; known are old_text, new_text, at`},
		{"unknown, deep", `{"command":"a","edits":[{"old_text":"x","at":{"line":1,"colum":2}}]}`,
			`edits[0].at.colum: unknown member; did you mean "column"?`},
		{"unknown, escaped", `{"c\u006fmmandd":"a"}`, `commandd: unknown member; did you mean "command"?`},
		{"unknown, hostile", `{"a\u0000\n` + strings.Repeat("x", 500) + `":1}`, `"a�\n` + strings.Repeat("x", 60)},
		{"unknown goes before missing and wrong", `{"edits":1,"timeout_ms":"1","cmmand":"a"}`, `cmmand: unknown member; did you mean "command"?`},
		{"unknown and deep", `{"x":` + deep + `}`, "x: unknown member; known are "},

		{"missing", `{}`, "command: required, but missing"},
		{"missing in an array", `{"command":"a","edits":[{}]}`, "edits[0].old_text: required, but missing"},
		{"missing goes before wrong", `{"timeout_ms":"1"}`, "command: required, but missing"},
		{"null for a required one", `{"command":null}`, "command: want a string, got null"},

		{"string", `{"command":1}`, "command: want a string, got the number 1"},
		{"integer", `{"command":"a","timeout_ms":"1"}`, "timeout_ms: want an integer, got a string"},
		{"integer with a fraction", `{"command":"a","timeout_ms":3.5}`, "timeout_ms: want an integer, got 3.5"},
		{"integer too big", `{"command":"a","timeout_ms":9223372036854775808}`,
			"timeout_ms: want an integer of 64 bits, got 9223372036854775808"},
		{"integer too small", `{"command":"a","timeout_ms":-9223372036854775809}`,
			"timeout_ms: want an integer of 64 bits, got -9223372036854775809"},
		{"integer enormous", `{"command":"a","timeout_ms":1e999999999}`, "timeout_ms: want an integer, got 1e999999999"},
		{"integer not exact", `{"command":"a","timeout_ms":9007199254740994.5}`, "timeout_ms: want an integer, got 9007199254740994.5"},
		{"unsigned too big", `{"command":"a","big":18446744073709551616}`,
			"big: want an integer of 64 bits, got 18446744073709551616"},
		{"unsigned below zero", `{"command":"a","count":-1}`, "count: want at least 0, got -1"},
		{"eight bits", `{"command":"a","small":128}`, "small: want at most 127, got 128"},
		{"number", `{"command":"a","ratio":{}}`, "ratio: want a number, got an object"},
		{"number too big", `{"command":"a","ratio":1e999}`, "ratio: "},
		{"boolean", `{"command":"a","force":"true"}`, "force: want true or false, got a string"},
		{"array", `{"command":"a","edits":{}}`, "edits: want an array, got an object"},
		{"object", `{"command":"a","edits":["x"]}`, "edits[0]: want an object, got a string"},
		{"null in an array", `{"command":"a","edits":[null]}`, "edits[0]: want an object, got null"},
		{"map value", `{"command":"a","env":{"A":1}}`, "env.A: want a string, got the number 1"},
		{"null in a map", `{"command":"a","env":{"A":null}}`, "env.A: want a string, got null"},
		{"items", `{"command":"a","pair":[1]}`, "pair: want at least 2 items, got 1"},
		{"more items", `{"command":"a","pair":[1,2,3]}`, "pair: want at most 2 items, got 3"},
		{"base64", `{"command":"a","data":"%"}`, "data: want a base64 string"},
		{"time", `{"command":"a","since":"yesterday"}`, "since: want"},
		{"text", `{"command":"a","addr":"1.2.3"}`, "addr: want"},
		{"half a character", `{"command":"a\ud800b"}`, `command: has \ud800, which is half of a surrogate pair and no character: write the character itself, or both halves, as \ud83d\ude00`},
		{"the second half", `{"command":"a","edits":[{"old_text":"x"},{"old_text":"y","new_text":"\\\uDFFFb"}]}`, `edits[1].new_text: has \uDFFF`},
		{"the halves in the wrong order", `{"command":"\ude00\ud83d"}`, `command: has \ude00`},
		{"twice the first half", `{"command":"\ud83d\ud83d\ude00"}`, `command: has \ud83d`},
		{"half a character and another one", `{"command":"\uD83D\u0041"}`, `command: has \uD83D`},
		{"half a character and text", `{"command":"\ud83dude00"}`, `command: has \ud83d`},
		{"half a character at the end", `{"command":"\ud83d\"}"}`, `command: has \ud83d`},
		{"a byte as Python names it", `{"command":"caf\udce9"}`, `; a name with the byte 0xe9, which is not UTF-8, is written $'…\xe9…'`},
		{"half a character in a map", `{"command":"a","env":{"A":"\udc00"}}`, `env.A: has \udc00`},
		{"half a character in a name of a map", `{"command":"a","env":{"A\udc00":""}}`, `has \udc00`},
		{"no JSON", `{"command":"\ud8zz"}`, `input: not valid JSON at byte 17`},
		{"too deep for anything", `{"command":"a","any":` + deep + `}`, "input: not valid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := prepared[sample](t, "", tt.input)
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func TestInputTaken(t *testing.T) {
	three := 3
	tests := []struct {
		name, input string
		want        sample
	}{
		{"one", `{"command":"a"}`, sample{Command: "a"}},
		{"white space", " {\n\"command\" :\t\"a\" } ", sample{Command: "a"}},
		{"escapes", `{"c\u006fmmand":"\u0041\"\\"}`, sample{Command: `A"\`}},
		{"whole characters", `{"command":"\ud83d\ude00 \uD83D\uDE00\u00e9\\ud800 \\\\udc00 \ud7ff\ue000"}`, sample{Command: "😀 😀é\\ud800 \\\\udc00 \ud7ff\ue000"}},
		{"what is passed on", `{"command":"a","raw":"\ud800"}`, sample{Command: "a", Raw: json.RawMessage(`"\ud800"`)}},
		{"embedded", `{"command":"a","label":"l"}`, sample{Command: "a", common: common{Label: "l"}}},
		{"3.0 is an integer", `{"command":"a","limit":3.0,"timeout_ms":1.2e3,"small":-2.0}`,
			sample{Command: "a", Limit: &three, TimeoutMS: 1200, Small: -2}},
		{"3.0 deep inside", `{"command":"a","edits":[{"old_text":"x","at":{"line":3.0}}]}`,
			sample{Command: "a", Edits: []sampleEdit{{OldText: "x", At: &position{Line: 3}}}}},
		{"limits", `{"command":"a","timeout_ms":-9223372036854775808,"big":18446744073709551615}`,
			sample{Command: "a", TimeoutMS: math.MinInt64, Big: math.MaxUint64}},
		{"null is absent", `{"timeout_ms":null,"command":"a","limit":null,"raw":null,"any":null,"edits":null,"env":null,"since":null}`,
			sample{Command: "a"}},
		{"null is absent, all around", `{"label":null,"limit":null,"command":"a" , "raw" : null , "any":null }`, sample{Command: "a"}},
		{"null in raw and any", `{"command":"a","any":[null]}`, sample{Command: "a", Any: []any{nil}}},
		{"the last wins", `{"command":"a","limit":1,"command":"b","limit":3}`, sample{Command: "b", Limit: &three}},
		{"the last wins over an object", `{"command":"a","edits":[{"old_text":"x","new_text":"y"}],"edits":[{"old_text":"z"}]}`,
			sample{Command: "a", Edits: []sampleEdit{{OldText: "z"}}}},
		{"the last wins with another spelling", `{"command":"a","comm\u0061nd":"b"}`, sample{Command: "b"}},
		{"the last wins over an edit inside", `{"command":"a","edits":[{"old_text":"x","at":{"line":3.0}}],"edits":[],"limit":3.0}`,
			sample{Command: "a", Edits: []sampleEdit{}, Limit: &three}},
		{"null wins", `{"command":"a","limit":1,"limit":null}`, sample{Command: "a"}},
		{"members of no schema", `{"command":"a","raw":{"x":1.0},"env":{"A":"1","A":"2"}}`,
			sample{Command: "a", Raw: json.RawMessage(`{"x":1.0}`), Env: map[string]string{"A": "2"}}},
		{"bytes, time, text", `{"command":"a","data":"aGk=","since":"2026-01-02T03:04:05Z","addr":"::1"}`,
			sample{Command: "a", Data: []byte("hi"), Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Addr: netip.IPv6Loopback()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := prepared[sample](t, "", tt.input)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestInputAbsentIsEmpty(t *testing.T) {
	type optional struct {
		A string `json:"a,omitempty"`
	}
	for _, input := range []string{"", "null", "{}", " null "} {
		got, err := prepared[optional](t, "", input)
		require.NoError(t, err, input)
		require.Zero(t, got)
	}
	_, err := prepared[struct{}](t, "", `{"a":1}`)
	require.ErrorContains(t, err, "a: unknown member; there are none")
	_, err = prepared[optional](t, "", `{"zzz":1}`)
	require.ErrorContains(t, err, "zzz: unknown member; the only one is a")
}

// A long input of equal names is linear work.
func TestInputManyDuplicates(t *testing.T) {
	input := `{"command":"a"` + strings.Repeat(`,"limit":1,"force":true`, 50_000) + `}`
	start := time.Now()
	_, err := prepared[sample](t, "", input)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 30*time.Second) // were each looked for among the others, minutes
}

type checkedByValue struct {
	Path string `json:"path,omitempty"`
}

func (c checkedByValue) Check() error {
	if c.Path == "" {
		return protocol.Errorf(protocol.CodeInvalidParams, "path: must not be empty")
	}
	return nil
}

type checkedByPointer struct {
	Path string `json:"path,omitempty"`
}

func (c *checkedByPointer) Check() error {
	if c.Path == "" {
		return context.Canceled
	}
	c.Path += "!"
	return nil
}

func TestInputChecker(t *testing.T) {
	_, err := prepared[checkedByValue](t, "", `{}`)
	require.EqualError(t, err, "invalid_params: path: must not be empty")
	_, err = prepared[checkedByPointer](t, "", `{}`)
	require.EqualError(t, err, "invalid_params: context canceled")
	got, err := prepared[checkedByPointer](t, "", `{"path":"a"}`)
	require.NoError(t, err)
	require.Equal(t, "a!", got.Path)
}

func TestInputGivenSchema(t *testing.T) {
	const schema = `{"type":"object","additionalProperties":false,"required":["mode"],"properties":{
		"mode":{"enum":["fast","slow"]},
		"size":{"type":"integer","maximum":10,"multipleOf":2},
		"name":{"type":["string","null"],"pattern":"^[a-z]*$"},
		"item":{"$ref":"#/$defs/item"}},
		"$defs":{"item":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}}}`
	type input = map[string]any
	tests := []struct{ name, input, want string }{
		{"unknown", `{"mode":"fast","siz":1}`, `siz: unknown member; did you mean "size"?`},
		{"missing", `{}`, "mode: required, but missing"},
		{"wrong type", `{"mode":"fast","size":"2"}`, "size: want an integer, got a string"},
		{"too big", `{"mode":"fast","size":12}`, "size: want at most 10, got 12"},
		{"enum", `{"mode":"medium"}`, "mode"},
		{"multiple", `{"mode":"fast","size":3}`, "size"},
		{"pattern", `{"mode":"fast","name":"A"}`, "name"},
		{"reference", `{"mode":"fast","item":{}}`, "id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := prepared[input](t, schema, tt.input)
			require.ErrorContains(t, err, tt.want)
		})
	}
	got, err := prepared[input](t, schema, `{"mode":"fast","size":null,"name":null,"item":{"id":"1","more":2}}`)
	require.NoError(t, err)
	require.Equal(t, input{"mode": "fast", "name": nil, "item": map[string]any{"id": "1", "more": 2.0}}, got)

	// The schema decides what is required, not the type.
	_, err = prepared[sample](t, `{"type":"object","properties":{"command":{"type":"string"}}}`, `{}`)
	require.NoError(t, err)
}

func FuzzInput(f *testing.F) {
	for _, s := range []string{`{"command":"a","limit":3.0,"edits":[{"old_text":"x"}]}`, `{"limit":null,"limit":1}`, `[}`, `{"a`, `{"raw":{]}`} {
		f.Add([]byte(s))
	}
	typ, err := newInputType[sample](nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := typ.decode(data)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalidParams)
			return
		}
		if len(data) > 0 { // what is taken is valid, and what comes out is taken again
			require.True(t, json.Valid(data))
			again, err := json.Marshal(in)
			require.NoError(t, err)
			second, err := typ.decode(again)
			require.NoError(t, err, string(again))
			_ = second
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	type empty struct{}
	type small struct {
		Path  string `json:"path"`
		Limit int    `json:"limit,omitempty"`
	}
	r := NewRegistry(nil)
	require.NoError(b, r.Install(Func("empty", "d", func(context.Context, *Call, empty) (protocol.ToolOutput, error) { return protocol.ToolOutput{}, nil })))
	require.NoError(b, r.Install(Func("small", "d", func(context.Context, *Call, small) (protocol.ToolOutput, error) { return protocol.ToolOutput{}, nil })))
	require.NoError(b, r.Install(Func("sample", "d", func(context.Context, *Call, sample) (protocol.ToolOutput, error) { return protocol.ToolOutput{}, nil })))
	for _, bm := range []struct{ name, tool, input string }{
		{"empty", "empty", `{}`},
		{"small", "small", `{"path":"src/main.go","limit":100}`},
		{"edits", "sample", `{"command":"x","edits":[{"old_text":"a","new_text":"b","at":{"line":3}},{"old_text":"c"}],"env":{"A":"1"}}`},
		{"rewritten", "small", `{"path":"src/main.go","limit":100.0}`},
		{"1MB", "small", `{"path":"` + strings.Repeat(`some text\n`, 100_000) + `"}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			tool, _ := r.Tool(bm.tool)
			input := json.RawMessage(bm.input)
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, err := tool.Prepare(input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is all that a call of a tool that does nothing costs here.
func BenchmarkCall(b *testing.B) {
	r := NewRegistry(nil)
	require.NoError(b, r.Install(Func("nothing", "d", func(context.Context, *Call, struct{}) (protocol.ToolOutput, error) {
		return protocol.ToolOutput{}, nil
	})))
	s := NewSession(b.Context(), SessionConfig{})
	input := json.RawMessage(`{}`)
	b.ReportAllocs()
	for b.Loop() {
		tool, _ := r.Tool("nothing")
		run, err := tool.Prepare(input)
		if err != nil {
			b.Fatal(err)
		}
		call := NewCall(CallConfig{Session: s, ID: "id", Tool: tool, Input: input})
		if _, err := run(b.Context(), call); err != nil {
			b.Fatal(err)
		}
		_ = call.Close()
	}
}
