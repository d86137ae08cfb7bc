package jsonwire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// kind is how a value of some type is written or read.
type kind uint8

const (
	viaJSON   kind = iota // through encoding/json
	custom                // by its own MarshalJSON or UnmarshalJSON
	rawJSON               // json.RawMessage
	text                  // a string
	integer               // of any size
	natural               // an integer without a sign
	boolean               // true or false
	blob                  // []byte, as base64
	stringMap             // map[string]string
	list                  // any other slice
	pointer
	object // a struct
)

// plan says how values of one type are written and read. It is made once per
// type and only read after that.
type plan struct {
	typ      reflect.Type
	enc, dec kind
	elem     *plan          // of a list or pointer
	fields   []field        // of an object
	byName   map[string]int // index into fields
}

// field is a member of an object.
type field struct {
	name      []byte
	label     string // `,"name":`
	index     int    // in the Go struct
	plan      *plan
	omitEmpty bool
	omitZero  bool
	isZero    func(reflect.Value) bool // by the type's own IsZero; nil when it has none
}

var plans sync.Map // of reflect.Type to *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	made := map[reflect.Type]*plan{}
	p := makePlan(t, made)
	// Only now is every plan complete, those of types that contain themselves too.
	// Two goroutines may have made the same ones; either will do.
	for t, p := range made {
		plans.Store(t, p)
	}
	return p
}

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawMessageType      = reflect.TypeFor[json.RawMessage]()
	numberType          = reflect.TypeFor[json.Number]()
	stringMapType       = reflect.TypeFor[map[string]string]()
	uint8Type           = reflect.TypeFor[uint8]()
)

func makePlan(t reflect.Type, made map[reflect.Type]*plan) *plan {
	if p := made[t]; p != nil {
		return p
	}
	p := &plan{typ: t}
	made[t] = p
	if t == rawMessageType {
		p.enc, p.dec = rawJSON, rawJSON
		return p
	}
	k := viaJSON
	switch t.Kind() {
	case reflect.Bool:
		k = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k = integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		k = natural
	case reflect.String:
		if t != numberType {
			k = text
		}
	case reflect.Map:
		if t == stringMapType {
			k = stringMap
		}
	case reflect.Slice:
		switch {
		case t.Elem() == uint8Type:
			k = blob
		case t.Elem().Kind() != reflect.Uint8:
			k = list
		}
		// An array of small integers may stand for a blob too.
		p.elem = makePlan(t.Elem(), made)
	case reflect.Pointer:
		// Its element's methods count where the pointer is not nil.
		p.enc, p.dec, p.elem = pointer, pointer, makePlan(t.Elem(), made)
		return p
	case reflect.Struct:
		if p.planFields(made) {
			k = object
		}
	}
	p.enc, p.dec = k, k
	switch ptr := reflect.PointerTo(t); {
	case t.Kind() == reflect.Interface:
	case t.Implements(marshalerType):
		p.enc = custom
	case ptr.Implements(marshalerType), ptr.Implements(textMarshalerType):
		p.enc = viaJSON
	}
	switch ptr := reflect.PointerTo(t); {
	case ptr.Implements(unmarshalerType) && t.Name() != "":
		p.dec = custom
	case ptr.Implements(unmarshalerType), ptr.Implements(textUnmarshalerType):
		p.dec = viaJSON
	}
	return p
}

// planFields fills the fields of a struct; false when they have something only
// encoding/json knows all the rules of.
func (p *plan) planFields(made map[reflect.Type]*plan) bool {
	p.byName = map[string]int{}
	for sf := range p.typ.Fields() {
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = sf.Name
		}
		if _, twice := p.byName[name]; twice || sf.Anonymous || !plainName(name) {
			return false
		}
		f := field{name: []byte(name), label: `,"` + name + `":`, index: sf.Index[0]}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "string":
				return false
			case "omitempty":
				f.omitEmpty = true
			case "omitzero":
				f.omitZero = true
				f.isZero = isZeroMethod(sf.Type)
			}
		}
		f.plan = makePlan(sf.Type, made)
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields, f)
	}
	return true
}

// plainName: no escape is ever needed, and encoding/json takes it from a tag.
func plainName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

type isZeroer interface{ IsZero() bool }

// isZeroMethod returns a function that asks t's own IsZero; nil when there is
// none.
func isZeroMethod(t reflect.Type) func(reflect.Value) bool {
	zeroer := reflect.TypeFor[isZeroer]()
	switch {
	case t.Implements(zeroer) && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface):
		return func(v reflect.Value) bool {
			return v.IsNil() || v.Kind() == reflect.Interface && v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() ||
				v.Interface().(isZeroer).IsZero()
		}
	case reflect.PointerTo(t).Implements(zeroer):
		return func(v reflect.Value) bool {
			if !v.CanAddr() {
				if t.Implements(zeroer) {
					return v.Interface().(isZeroer).IsZero()
				}
				box := reflect.New(t).Elem()
				box.Set(v)
				v = box
			}
			return v.Addr().Interface().(isZeroer).IsZero() // through the address: without a copy
		}
	}
	return nil
}

// fieldOf returns the index of the field that a member with this raw name goes
// to, or -1. next is where it probably is: peers mostly send members in order.
func (p *plan) fieldOf(raw []byte, next int) int {
	for i := next; i < len(p.fields) && i < next+3; i++ { // two may have been omitted
		if string(raw) == string(p.fields[i].name) {
			return i
		}
	}
	if i, ok := p.byName[string(raw)]; ok {
		return i
	}
	return p.oddFieldOf(raw)
}

// oddFieldOf is fieldOf for names with escapes or in another case.
func (p *plan) oddFieldOf(raw []byte) int {
	name := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		name = AppendUnquoted(nil, raw)
		if i, ok := p.byName[string(name)]; ok {
			return i
		}
	}
	for i := range p.fields {
		if bytes.EqualFold(name, p.fields[i].name) {
			return i
		}
	}
	return -1
}
