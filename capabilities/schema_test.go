package capabilities

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func TestInferSchema(t *testing.T) {
	type input struct {
		Path  string            `json:"path" jsonschema:"the file"`
		Lines *[]int            `json:"lines,omitempty"`
		Data  []byte            `json:"data,omitempty"`
		Env   map[string]string `json:"env,omitempty"`
		Raw   json.RawMessage   `json:"raw,omitempty"`
	}
	s, err := inferSchema(reflect.TypeFor[input]())
	require.NoError(t, err)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","required":["path"],"additionalProperties":false,"properties":{
		"path":{"type":"string","description":"the file"},
		"lines":{"type":"array","items":{"type":"integer"}},
		"data":{"type":"string","contentEncoding":"base64"},
		"env":{"type":"object","additionalProperties":{"type":"string"}},
		"raw":true}}`, string(raw))
	require.Contains(t, string(raw), `"properties":{"path":`, "in the order of the struct")
}

func TestUnusableInputTypes(t *testing.T) {
	type named struct {
		A string `json:"a"`
	}
	type cycle struct {
		Next *cycle `json:"next,omitempty"`
	}
	tests := []struct {
		name string
		typ  reflect.Type
		want string
	}{
		{"string", reflect.TypeFor[string](), "not a JSON object"},
		{"slice", reflect.TypeFor[[]string](), "not a JSON object"},
		{"any", reflect.TypeFor[any](), "not a JSON object"},
		{"decodes itself", reflect.TypeFor[json.RawMessage](), "not a JSON object"},
		{"function", reflect.TypeFor[struct{ F func() }](), "unsupported"},
		{"channel", reflect.TypeFor[struct{ C chan int }](), "unsupported"},
		{"interface", reflect.TypeFor[struct{ S fmt.Stringer }](), "nothing can be decoded into interface fmt.Stringer"},
		{"cycle", reflect.TypeFor[cycle](), "cycle"},
		{"option string", reflect.TypeFor[struct {
			N int `json:"n,string"`
		}](), `option "string"`},
		{"named embedded", reflect.TypeFor[struct {
			named `json:"x"`
		}](), "a name of its own"},
		{"bad tag", reflect.TypeFor[struct {
			N int `json:"n" jsonschema:"required=true"`
		}](), "WORD="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := inferSchema(tt.typ)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestParseSchemaRefuses(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{`, "not a JSON schema"},
		{`true`, "not object"},
		{`{"type":"array"}`, "not object"},
		{`{"type":"object","properties":{"a":{"type":"text"}}}`, "not a valid JSON schema"},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "not a valid JSON schema"},
		{`{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}`, "not a valid JSON schema"},
		{`{"type":"object","properties":{"a":{"type":"string","default":1}}}`, "not a valid JSON schema"},
	} {
		_, _, err := parseSchema(json.RawMessage(tt.schema))
		require.ErrorContains(t, err, tt.want, tt.schema)
	}
}

func TestNearest(t *testing.T) {
	fields := []field{{name: "command"}, {name: "timeout_ms"}, {name: "cwd"}, {name: "file_path"}, {name: "run_in_background"}}
	for name, want := range map[string]string{
		"comand": "command", "commnad": "command", "COMMAND": "command", "cmd": "cwd", "timeoutMs": "timeout_ms",
		"timeout": "timeout_ms", "path": "file_path", "background": "run_in_background", "zzz": "", "": "", "x": "", "_": "",
	} {
		require.Equal(t, want, nearest(name, fields), name)
	}
}

// The advertised schemas are those that inputs are checked against.
func TestToolInfo(t *testing.T) {
	given := json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"}}}`)
	r := NewRegistry(nil)
	require.NoError(t, r.Install(testCapability{name: "x", install: func(reg *Registrar) error {
		h := func(context.Context, *Call, map[string]any) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{}, nil
		}
		AddTool(reg, Tool{Name: "given", Description: "d", InputSchema: given, OutputSchema: given,
			Annotations: protocol.Annotations{ReadOnly: true}}, h)
		return nil
	}}))
	tool, ok := r.Tool("given")
	require.True(t, ok)
	require.Equal(t, "x", tool.Capability())
	require.Equal(t, protocol.ToolInfo{Name: "given", Description: "d", InputSchema: given, OutputSchema: given,
		Annotations: protocol.Annotations{ReadOnly: true}}, tool.Info())
}

func TestOutputSchema(t *testing.T) {
	type part struct {
		Path string `json:"path"`
	}
	got := OutputSchema[struct {
		Parts []part `json:"parts"`
		More  *part  `json:"more,omitempty"`
		Count int    `json:"count"`
	}]()
	object := `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`
	require.JSONEq(t, `{"type":"object","properties":{"parts":{"type":"array","items":`+object+`},"more":`+object+
		`,"count":{"type":"integer"}},"required":["parts","count"],"additionalProperties":false}`, string(got))
	require.Panics(t, func() { OutputSchema[int]() })
}
