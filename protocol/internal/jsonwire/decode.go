package jsonwire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
)

// Unmarshal decodes the JSON value in data into v, a pointer that is not nil, as
// json.Unmarshal does: members nobody knows are ignored, of duplicates the last
// wins, null leaves alone what cannot be nil, names match exactly or else in any
// case. It differs in that it ends at the first *TypeError, that it names the
// place of that error completely, and that values nested deeper than 1000 are no
// JSON.
//
// With valid the caller has already checked all of data with SkipValue or
// ForEachMember, and it is not checked again; data that was not checked may then
// make Unmarshal panic.
//
// Nothing in v refers to data afterwards. Memory that a []byte in v has is used again.
func Unmarshal(data []byte, v any, valid bool) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return &json.InvalidUnmarshalError{Type: reflect.TypeOf(v)}
	}
	start := SkipSpace(data, 0)
	if !valid {
		if end := SkipValue(data, start); end < 0 || SkipSpace(data, end) != len(data) {
			return syntaxError(data)
		}
	}
	d := decoder{data}
	if _, err := d.value(planOf(rv.Type().Elem()), rv.Elem(), start); err != nil {
		return err
	}
	return nil
}

// decoder reads values out of data, which is valid JSON.
type decoder struct{ data []byte }

// value reads the value at data[i] into v and returns the index after it.
func (d *decoder) value(p *plan, v reflect.Value, i int) (int, *TypeError) {
	c := d.data[i]
	if c == 'n' && p.dec > rawJSON { // the others decide for themselves
		if p.dec >= blob && p.dec != object {
			v.SetZero()
		}
		return i + len("null"), nil
	}
	switch p.dec {
	case text:
		if c == '"' {
			end, plain := stringEnd(d.data, i)
			v.SetString(unquote(d.data[i+1:end-1], plain))
			return end, nil
		}
	case integer:
		end := d.numberEnd(i)
		if n, ok := parseInt(d.data[i:end]); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return end, nil
		}
	case natural:
		end := d.numberEnd(i)
		if n, ok := parseUint(d.data[i:end]); ok && !v.OverflowUint(n) {
			v.SetUint(n)
			return end, nil
		}
	case boolean:
		switch c {
		case 't':
			v.SetBool(true)
			return i + len("true"), nil
		case 'f':
			v.SetBool(false)
			return i + len("false"), nil
		}
	case blob:
		if c == '"' {
			return d.blob(p, v, i)
		}
		if c == '[' {
			return d.list(p, v, i)
		}
	case list:
		if c == '[' {
			return d.list(p, v, i)
		}
	case stringMap:
		if c == '{' {
			return d.stringMap(v, i)
		}
	case object:
		if c == '{' {
			return d.object(p, v, i)
		}
	case pointer:
		if v.IsNil() {
			v.Set(reflect.New(p.elem.typ))
		}
		return d.value(p.elem, v.Elem(), i)
	case rawJSON:
		end := SkipValue(d.data, i)
		v.SetBytes(append(v.Bytes()[:0], d.data[i:end]...))
		return end, nil
	case custom:
		end := d.valueEnd(i)
		if err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.data[i:end]); err != nil {
			return i, &TypeError{Want: wantOf(p.typ), Got: gotAt(d.data, i), Err: err}
		}
		return end, nil
	case viaJSON:
		end := SkipValue(d.data, i)
		if err := json.Unmarshal(d.data[i:end], v.Addr().Interface()); err != nil {
			return i, fromJSON(err, p.typ, d.data, i)
		}
		return end, nil
	}
	return i, &TypeError{Want: wantOf(p.typ), Got: gotAt(d.data, i)}
}

// valueEnd returns the index after the value at data[i].
func (d *decoder) valueEnd(i int) int {
	if d.data[i] == '"' {
		return quotedEnd(d.data, i+1)
	}
	return SkipValue(d.data, i)
}

func (d *decoder) object(p *plan, v reflect.Value, i int) (int, *TypeError) {
	i = SkipSpace(d.data, i+1)
	if d.data[i] == '}' {
		return i + 1, nil
	}
	for next := 0; ; {
		end, _ := stringEnd(d.data, i)
		n := p.fieldOf(d.data[i+1:end-1], next)
		i = SkipSpace(d.data, end) // to the colon
		i = SkipSpace(d.data, i+1)
		if n < 0 {
			i = SkipValue(d.data, i)
		} else {
			f := &p.fields[n]
			next = n + 1
			var err *TypeError
			if i, err = d.value(f.plan, v.Field(f.index), i); err != nil {
				return i, err.in(string(f.name))
			}
		}
		i = SkipSpace(d.data, i)
		if d.data[i] == '}' {
			return i + 1, nil
		}
		i = SkipSpace(d.data, i+1)
	}
}

// list reads an array. As in encoding/json, what the slice had is decoded over.
func (d *decoder) list(p *plan, v reflect.Value, i int) (int, *TypeError) {
	i = SkipSpace(d.data, i+1)
	if d.data[i] == ']' {
		v.Set(reflect.MakeSlice(p.typ, 0, 0))
		return i + 1, nil
	}
	for n := 0; ; n++ {
		if n >= v.Cap() {
			v.Grow(1)
		}
		if n >= v.Len() {
			v.SetLen(n + 1)
		}
		var err *TypeError
		if i, err = d.value(p.elem, v.Index(n), i); err != nil {
			return i, err.in(strconv.Itoa(n))
		}
		i = SkipSpace(d.data, i)
		if d.data[i] == ']' {
			v.SetLen(n + 1)
			return i + 1, nil
		}
		i = SkipSpace(d.data, i+1)
	}
}

func (d *decoder) stringMap(v reflect.Value, i int) (int, *TypeError) {
	m := v.Addr().Interface().(*map[string]string)
	if *m == nil {
		*m = map[string]string{}
	}
	i = SkipSpace(d.data, i+1)
	if d.data[i] == '}' {
		return i + 1, nil
	}
	for {
		end, plain := stringEnd(d.data, i)
		key := unquote(d.data[i+1:end-1], plain)
		i = SkipSpace(d.data, end)
		i = SkipSpace(d.data, i+1)
		switch d.data[i] {
		case '"':
			end, plain := stringEnd(d.data, i)
			(*m)[key] = unquote(d.data[i+1:end-1], plain)
			i = end
		case 'n':
			(*m)[key] = ""
			i += len("null")
		default:
			return i, (&TypeError{Want: "a string", Got: gotAt(d.data, i)}).in(key)
		}
		i = SkipSpace(d.data, i)
		if d.data[i] == '}' {
			return i + 1, nil
		}
		i = SkipSpace(d.data, i+1)
	}
}

func (d *decoder) blob(p *plan, v reflect.Value, i int) (int, *TypeError) {
	// It is long, as a rule, and has no escapes.
	end := i + 1 + bytes.IndexByte(d.data[i+1:], '"') + 1
	raw := d.data[i+1 : end-1]
	if bytes.IndexByte(raw, '\\') >= 0 { // some write "\/" for every slash
		end, _ = stringEnd(d.data, i)
		raw = d.data[i+1 : end-1]
		raw = AppendUnquoted(make([]byte, 0, len(raw)), raw)
	}
	b, err := decodeBase64(v.Bytes(), raw)
	if err != nil {
		return i, &TypeError{Want: wantOf(p.typ), Got: "string", Err: err}
	}
	v.SetBytes(b)
	return end, nil
}

// numberEnd returns the index after the number at data[i]; i when there is none.
func (d *decoder) numberEnd(i int) int {
	if c := d.data[i]; c != '-' && (c < '0' || c > '9') {
		return i
	}
	return skipNumber(d.data, i)
}

func parseInt(b []byte) (int64, bool) {
	if len(b) > 18 { // may be too large
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	digits := bytes.TrimPrefix(b, []byte{'-'})
	n, ok := parseUint(digits)
	if len(digits) < len(b) {
		return -int64(n), ok
	}
	return int64(n), ok
}

func parseUint(b []byte) (n uint64, ok bool) {
	if len(b) > 18 {
		n, err := strconv.ParseUint(string(b), 10, 64)
		return n, err == nil
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false // a sign, a fraction or an exponent
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(b) > 0
}
