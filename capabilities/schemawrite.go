package capabilities

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// appendSchema writes a schema of inferSchema, which has these keywords alone, in the bytes
// that its own MarshalJSON would give. That one goes through encoding/json twice for each
// schema in it, which was a good part of what a start of the executor costs.
func appendSchema(b []byte, s *jsonschema.Schema) []byte {
	if isFalse(s) {
		return append(b, "false"...)
	}
	before := len(b)
	member := func(name string) {
		if len(b) == before {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = append(appendText(b, name), ':')
	}
	text := func(name, value string) {
		if value != "" {
			member(name)
			b = appendText(b, value)
		}
	}
	number := func(name string, value *float64) {
		if value != nil {
			member(name)
			b = strconv.AppendFloat(b, *value, 'f', -1, 64)
		}
	}
	length := func(name string, value *int) {
		if value != nil {
			member(name)
			b = strconv.AppendInt(b, int64(*value), 10)
		}
	}
	schema := func(name string, value *jsonschema.Schema) {
		if value != nil {
			member(name)
			b = appendSchema(b, value)
		}
	}
	text("type", s.Type)
	if s.Properties != nil {
		member("properties")
		b = append(b, '{')
		for i, name := range propertyNames(s) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, name), ':')
			b = appendSchema(b, s.Properties[name])
		}
		b = append(b, '}')
	}
	schema("items", s.Items)
	text("description", s.Description)
	number("minimum", s.Minimum)
	number("maximum", s.Maximum)
	length("minItems", s.MinItems)
	length("maxItems", s.MaxItems)
	if len(s.Required) > 0 {
		member("required")
		for i, name := range s.Required {
			b = append(b, "[,"[min(i, 1)])
			b = appendText(b, name)
		}
		b = append(b, ']')
	}
	schema("additionalProperties", s.AdditionalProperties)
	text("contentEncoding", s.ContentEncoding)
	text("format", s.Format)
	if len(b) == before { // anything
		return append(b, "true"...)
	}
	return append(b, '}')
}

// appendText writes a string as encoding/json does.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, _ := json.Marshal(text) // a string always can be
			return append(b, raw...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// isPlainSchema reports whether raw is the schema of an object and has only the keywords that
// appendSchema writes, with values they can have: nothing in it can be wrong then. Others
// may be right too; it takes more to know.
func isPlainSchema(raw json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	p := plainReader{d}
	if d.More() && p.schema(true) {
		_, err := d.Token()
		return err == io.EOF
	}
	return false
}

type plainReader struct{ d *json.Decoder }

// schema reads one.
func (p plainReader) schema(object bool) bool {
	kind, ok := "", true
	switch first := p.token(); first {
	case true, false:
		return !object
	case json.Delim('{'):
	default:
		return false
	}
	for p.d.More() && ok {
		switch name, _ := p.token().(string); name {
		case "type":
			kind, _ = p.token().(string)
			_, ok = kinds[kind]
		case "properties":
			ok = p.token() == json.Delim('{')
			for ok && p.d.More() {
				_, ok = p.token().(string)
				ok = ok && p.schema(false)
			}
			ok = ok && p.token() == json.Delim('}')
		case "items", "additionalProperties":
			ok = p.schema(false)
		case "description", "format", "contentEncoding":
			_, ok = p.token().(string)
		case "required":
			ok = p.token() == json.Delim('[')
			for ok && p.d.More() {
				_, ok = p.token().(string)
			}
			ok = ok && p.token() == json.Delim(']')
		default:
			return false
		}
	}
	return ok && p.token() == json.Delim('}') && (!object || kind == "object")
}

func (p plainReader) token() json.Token {
	t, err := p.d.Token()
	if err != nil {
		return err // it is nothing that is wanted anywhere
	}
	return t
}
