package capabilities

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type embedded struct {
	Inner string `json:"inner" jsonschema:"with \"quotes\", a <tag> & a \\ and é"`
}

// A schema is written as its own MarshalJSON writes it, byte for byte.
func TestAppendSchema(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct{}](),
		reflect.TypeFor[struct {
			Hidden string `json:"-"`
		}](),
		reflect.TypeFor[struct {
			embedded
			A    int8              `json:"a"`
			B    uint16            `json:"b,omitempty"`
			C    int64             `json:"c,omitzero"`
			D    uint              `json:"d"`
			E    float32           `json:"e" jsonschema:"a number"`
			F    bool              `json:"f"`
			G    [3]string         `json:"g"`
			H    *[]embedded       `json:"h,omitempty" jsonschema:"some"`
			I    map[string]*int32 `json:"i"`
			J    json.RawMessage   `json:"j"`
			K    any               `json:"k" jsonschema:"whatever"`
			L    time.Time         `json:"l"`
			M    []byte            `json:"m,omitempty"`
			N    [][]string        `json:"n"`
			O    *time.Time        `json:"o"`
			P    struct{}          `json:"p"`
			Name string
		}](),
	} {
		s, err := inferSchema(typ)
		require.NoError(t, err)
		want, err := json.Marshal(s)
		require.NoError(t, err)
		got := appendSchema(nil, s)
		require.Equal(t, string(want), string(got))
	}
	s, err := inferSchema(reflect.TypeFor[struct {
		R *json.RawMessage `json:"r"`
	}]())
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","properties":{"r":true},"required":["r"],"additionalProperties":false}`, string(appendSchema(nil, s)))
}

func TestIsPlainSchema(t *testing.T) {
	plain := OutputSchema[struct {
		A []embedded        `json:"a" jsonschema:"some"`
		B map[string]string `json:"b,omitempty"`
		C *time.Time        `json:"c,omitempty"`
		D []byte            `json:"d"`
		E any               `json:"e"`
	}]()
	require.True(t, isPlainSchema(plain), "%s", plain)
	for _, other := range []string{
		``, `{`, `true`, `null`, `[]`, `{}`, `{"type":"array"}`, `{"type":"object"} {}`, `{"Type":"object"}`, `{"type":["object"]}`,
		`{"type":"object","type":"string"}`, `{"type":"object","required":"a"}`, `{"type":"object","required":[1]}`, `{"type":"object","properties":[]}`,
		`{"type":"object","properties":{"a":{"type":"text"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`,
		`{"type":"object","additionalProperties":{"pattern":"("}}`, `{"type":"object","properties":{"a":`, `{"type":"object","items":1}`,
	} {
		require.False(t, isPlainSchema(json.RawMessage(other)), other)
	}
}

// Whatever is taken for plain would have passed the check in full.
func TestPlainSchemasAreValid(t *testing.T) {
	words := rapid.SampledFrom([]string{"type", "properties", "items", "additionalProperties", "required", "description", "format", "contentEncoding",
		"Type", "default", "$ref", "$id", "minimum", "a", "object", "string", "array", ""})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		simple := []*rapid.Generator[any]{words.AsAny(), rapid.Bool().AsAny(), rapid.SliceOfN(words, 0, 3).AsAny()}
		if depth == 0 {
			return rapid.OneOf(simple...)
		}
		object := rapid.Custom(func(t *rapid.T) any {
			m := rapid.MapOfN(words, value(depth-1), 0, 5).Draw(t, "members")
			if rapid.Bool().Draw(t, "typed") {
				m["type"] = "object"
			}
			return m
		})
		return rapid.OneOf(append(simple, object, object, object)...)
	}
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value(3).Draw(t, "schema"))
		require.NoError(t, err)
		if !isPlainSchema(raw) {
			return
		}
		plain++
		_, _, err = parseSchema(raw)
		require.NoError(t, err, "%s", raw)
	})
	require.Positive(t, plain)
}
