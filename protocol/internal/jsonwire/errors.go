package jsonwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// TypeError says that a value is of the wrong type for its place.
type TypeError struct {
	Field string // "lease.fencing_token", "mcp_servers.0.transport"; "" is the whole value
	Want  string // "a string", "an integer", "an object": JSON's words, none of Go's
	Got   string // "string", "number 3.5", "object", "array", "bool", "null"
	Err   error  // what the type's own UnmarshalJSON, or base64, had against it; nil for a wrong kind
}

func (e *TypeError) Error() string {
	field := e.Field
	if field == "" {
		field = "value"
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: want %s: %v", field, e.Want, e.Err)
	}
	return fmt.Sprintf("%s: want %s, got %s", field, e.Want, e.Got)
}

func (e *TypeError) Unwrap() error { return e.Err }

// in adds the member or index that the error's place is below.
func (e *TypeError) in(name string) *TypeError {
	if e.Field != "" {
		name += "." + e.Field
	}
	e.Field = name
	return e
}

// SyntaxError says that data is not valid JSON.
type SyntaxError struct {
	Offset int // how many bytes were read before it was clear
	msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not valid JSON at byte %d: %s", e.Offset, e.msg)
}

// syntaxError finds out what is wrong with data. The scanner is quick and does
// not say; encoding/json does.
func syntaxError(data []byte) error {
	var syntax *json.SyntaxError
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); errors.As(err, &syntax) {
		return &SyntaxError{Offset: int(syntax.Offset), msg: strings.TrimPrefix(syntax.Error(), "json: ")}
	}
	depth := 0
	for i := 0; ; i++ {
		switch data[i] {
		case '"':
			i = skipString(data, i) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return &SyntaxError{Offset: i + 1, msg: fmt.Sprintf("nested deeper than %d", maxDepth)}
			}
		case '}', ']':
			depth--
		}
	}
}

// wantOf says in JSON's words what decodes into t.
func wantOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch ptr := reflect.PointerTo(t); {
	case ptr.Implements(unmarshalerType):
		return "another value"
	case ptr.Implements(textUnmarshalerType):
		return "a string"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "an integer that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "another value"
}

// maxGot bounds how much of a peer's number an error repeats.
const maxGot = 32

// gotAt says what the value at data[i] is.
func gotAt(data []byte, i int) string {
	switch data[i] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return shorten("number " + string(data[i:skipNumber(data, i)]))
}

func shorten(got string) string {
	if len(got) > maxGot {
		return got[:maxGot] + "…"
	}
	return got
}

// fromJSON turns an error of encoding/json about the value at data[i] into one of
// this package.
func fromJSON(err error, t reflect.Type, data []byte, i int) *TypeError {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Type != nil {
		return &TypeError{Field: wrong.Field, Want: wantOf(wrong.Type), Got: shorten(wrong.Value)}
	}
	if t.Kind() == reflect.Struct {
		if e := blame(t, data[i:SkipValue(data, i)]); e != nil {
			return e
		}
	}
	return &TypeError{Want: wantOf(t), Got: gotAt(data, i), Err: err}
}

// blame finds the member that does not decode, when encoding/json refused a struct
// without saying which.
func blame(t reflect.Type, data []byte) *TypeError {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		member, given := members[name]
		if !given || f.Anonymous || !f.IsExported() {
			continue
		}
		var wrong *TypeError
		if errors.As(Unmarshal(member, reflect.New(f.Type).Interface(), true), &wrong) {
			return wrong.in(name)
		}
	}
	return nil
}
