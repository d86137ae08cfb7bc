package jsonwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
)

// Append writes v as JSON behind dst, which it returns unchanged beside an error.
// The JSON is that of a json.Encoder with SetEscapeHTML(false), without the
// newline. What no plan is made for (maps other than map[string]string,
// interfaces, floats, arrays, encoding.TextMarshaler, structs with embedded
// fields or `,string` options) goes through encoding/json, for just that value.
//
// A pointer is better than a struct: methods of its fields are called without
// copying them.
func Append(dst []byte, v any) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	rv := reflect.ValueOf(v)
	out, err := appendValue(dst, planOf(rv.Type()), rv, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendValue(dst []byte, p *plan, v reflect.Value, depth int) ([]byte, error) {
	switch p.enc {
	case text:
		return appendString(dst, v.String()), nil
	case integer:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case natural:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case boolean:
		return strconv.AppendBool(dst, v.Bool()), nil
	case object:
		return appendObject(dst, p, v, depth)
	case custom:
		return appendCustom(dst, p, v)
	case viaJSON:
		return appendViaJSON(dst, v)
	}
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	if depth++; depth > maxDepth { // a value that contains itself, most likely
		return dst, &json.UnsupportedValueError{Value: v, Str: "nested too deep"}
	}
	switch p.enc {
	case pointer:
		return appendValue(dst, p.elem, v.Elem(), depth)
	case blob:
		dst = append(dst, '"')
		dst = AppendBase64(dst, v.Bytes())
		return append(dst, '"'), nil
	case rawJSON:
		if out, ok := appendCompact(dst, v.Bytes()); ok {
			return out, nil
		}
		return appendViaJSON(dst, v) // which says what is wrong with it
	case stringMap:
		return appendStringMap(dst, v.Interface().(map[string]string)), nil
	}
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, p.elem, v.Index(i), depth); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, p *plan, v reflect.Value, depth int) ([]byte, error) {
	start := len(dst)
	for i := range p.fields {
		f := &p.fields[i]
		member := v.Field(f.index)
		if f.omitEmpty && isEmpty(f.plan, member) {
			continue
		}
		if f.omitZero {
			if f.isZero != nil && f.isZero(member) || f.isZero == nil && member.IsZero() {
				continue
			}
		}
		dst = append(dst, f.label...)
		var err error
		if dst, err = appendValue(dst, f.plan, member, depth); err != nil {
			return dst, err
		}
	}
	if len(dst) == start {
		return append(dst, "{}"...), nil
	}
	dst[start] = '{' // instead of the first member's comma
	return append(dst, '}'), nil
}

// isEmpty is what omitempty asks.
func isEmpty(p *plan, v reflect.Value) bool {
	switch p.typ.Kind() {
	case reflect.String, reflect.Slice, reflect.Map, reflect.Array:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Struct, reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return false
	}
	return v.IsZero()
}

func appendStringMap(dst []byte, m map[string]string) []byte {
	var few [16]string
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, key), ':')
		dst = appendString(dst, m[key])
	}
	return append(dst, '}')
}

// appendCustom asks the value itself and checks what it says.
func appendCustom(dst []byte, p *plan, v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr() // so that Interface makes no copy
	}
	raw, err := v.Interface().(json.Marshaler).MarshalJSON()
	if err != nil {
		return dst, &json.MarshalerError{Type: p.typ, Err: err}
	}
	if out, ok := appendCompact(dst, raw); ok {
		return out, nil
	}
	out, err := appendViaJSON(dst, reflect.ValueOf(json.RawMessage(raw)))
	if err != nil {
		return dst, &json.MarshalerError{Type: p.typ, Err: errors.Unwrap(err)}
	}
	return out, nil
}

// appendCompact writes the JSON value raw without white space; false when it is
// not valid, or nested too deep for the scanner.
func appendCompact(dst, raw []byte) ([]byte, bool) {
	i := SkipSpace(raw, 0)
	end := SkipValue(raw, i)
	if end < 0 || SkipSpace(raw, end) != len(raw) {
		return dst, false
	}
	start := i
	for i < end {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
		case ' ', '\t', '\n', '\r':
			dst = append(dst, raw[start:i]...)
			i = SkipSpace(raw, i)
			start = i
		default:
			i++
		}
	}
	return append(dst, raw[start:end]...), true
}

// encoder is a json.Encoder that is used again, since json.Marshal escapes HTML.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

func appendViaJSON(dst []byte, v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr() // methods of the pointer count for what can be addressed
	}
	e := encoders.Get().(*encoder)
	if err := e.json.Encode(v.Interface()); err != nil {
		return dst, err // an encoder keeps its error: not back into the pool
	}
	dst = append(dst, bytes.TrimSuffix(e.buf.Bytes(), []byte{'\n'})...)
	if e.buf.Cap() <= 64<<10 {
		e.buf.Reset()
		encoders.Put(e)
	}
	return dst, nil
}
