package capabilities

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// inferSchema makes the input schema of a Go type as encoding/json will decode
// it, where jsonschema-go goes by the kind alone: []byte is base64 text, and a
// type that decodes itself is anything or, when it reads text, a string.
func inferSchema(t reflect.Type) (*jsonschema.Schema, error) {
	w := typeWalk{seen: map[reflect.Type]bool{}, schemas: map[reflect.Type]*jsonschema.Schema{}}
	if err := w.walk(t); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: w.schemas})
	if err != nil {
		return nil, err
	}
	dropNull(s)
	if s.Type != "object" {
		return nil, fmt.Errorf("input type %v is not a JSON object: use a struct, or give the tool an InputSchema", t)
	}
	return s, nil
}

// OutputSchema is the schema of a structured result, for Tool.OutputSchema: that of the
// struct Out as encoding/json writes it. Members without omitempty or omitzero are always
// there, others than these never. It panics when the type has no schema.
func OutputSchema[Out any]() json.RawMessage {
	s, err := inferSchema(reflect.TypeFor[Out]())
	if err != nil {
		panic(fmt.Sprintf("capabilities: output: %v", err))
	}
	return appendSchema(nil, s)
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawMessage      = reflect.TypeFor[json.RawMessage]()
	timeTime        = reflect.TypeFor[time.Time]()
	longText        = reflect.TypeFor[LongText]()
)

// typeWalk finds the types whose schema is not that of their kind, and those that
// no input can be decoded into.
type typeWalk struct {
	seen    map[reflect.Type]bool
	schemas map[reflect.Type]*jsonschema.Schema
}

func (w typeWalk) walk(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if w.seen[t] {
		return nil
	}
	w.seen[t] = true
	switch {
	case t == rawMessage:
		w.schemas[t] = &jsonschema.Schema{}
		return nil
	case t == timeTime:
		w.schemas[t] = &jsonschema.Schema{Type: "string", Format: "date-time"}
		return nil
	case t == longText:
		w.schemas[t] = &jsonschema.Schema{Type: "string"}
		return nil
	case reflect.PointerTo(t).Implements(jsonUnmarshaler):
		w.schemas[t] = &jsonschema.Schema{}
		return nil
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		w.schemas[t] = &jsonschema.Schema{Type: "string"}
		return nil
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			w.schemas[t] = &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
			return nil
		}
		return w.walk(t.Elem())
	case reflect.Array, reflect.Map:
		return w.walk(t.Elem())
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("input type: nothing can be decoded into interface %v", t)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if err := w.field(t, t.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w typeWalk) field(t reflect.Type, f reflect.StructField) error {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-" && options == "", !f.IsExported() && !f.Anonymous:
		return nil
	case f.Anonymous && name != "":
		return fmt.Errorf("input type: embedded field %v.%s has a name of its own; make it a plain field", t, f.Name)
	case slices.Contains(strings.Split(options, ","), "string"):
		return fmt.Errorf("input type: field %v.%s: the json option \"string\" has no schema", t, f.Name)
	}
	return w.walk(f.Type)
}

// dropNull removes null from the types: Go's nil is how an absent member is
// decoded, not something to offer to a model.
func dropNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		s.Types = slices.Delete(s.Types, i, i+1)
		if len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
	for _, p := range s.Properties {
		dropNull(p)
	}
	dropNull(s.Items)
	dropNull(s.AdditionalProperties)
}

// parseSchema reads a schema that was given and prepares it for validation.
func parseSchema(raw json.RawMessage) (*jsonschema.Schema, *jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, fmt.Errorf("not a JSON schema: %w", err)
	}
	if s.Type != "object" {
		return nil, nil, errors.New("the schema's type is not object")
	}
	if err := checkTypes(&s); err != nil {
		return nil, nil, err
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, fmt.Errorf("not a valid JSON schema: %w", err)
	}
	return &s, resolved, nil
}

// checkTypes finds misspelt types, which jsonschema-go takes as types that nothing
// has.
func checkTypes(s *jsonschema.Schema) error {
	if s == nil {
		return nil
	}
	for _, name := range append(s.Types, s.Type) {
		if _, ok := kinds[name]; !ok && name != "" && name != "null" {
			return fmt.Errorf("not a valid JSON schema: there is no type %q", name)
		}
	}
	children := slices.Concat([]*jsonschema.Schema{s.Items, s.AdditionalProperties, s.Not}, s.PrefixItems, s.AllOf, s.AnyOf, s.OneOf)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.Defs, s.Definitions} {
		children = slices.AppendSeq(children, maps.Values(m))
	}
	for _, child := range children {
		if err := checkTypes(child); err != nil {
			return err
		}
	}
	return nil
}

// kind is the one JSON type a node wants.
type kind uint8

const (
	kindAny kind = iota // not looked into
	kindObject
	kindArray
	kindString
	kindInteger
	kindNumber
	kindBoolean
)

var kinds = map[string]kind{
	"object": kindObject, "array": kindArray, "string": kindString,
	"integer": kindInteger, "number": kindNumber, "boolean": kindBoolean,
}

func (k kind) String() string {
	return [...]string{"anything", "an object", "an array", "a string", "an integer", "a number", "true or false"}[k]
}

// node is a schema made ready for the check of an input: what the check can say
// better or faster than a general validator. The keywords it leaves out are
// checked by jsonschema-go when the schema was given; an inferred one has no
// others.
type node struct {
	kind     kind
	nullable bool
	decoded  bool // into Go's own types: integers into int64 or, with a minimum of 0, uint64, text into string

	fields []field        // kindObject: properties, in order
	byName map[string]int // index into fields
	closed bool           // no other members
	rest   *node          // of the members that are none of fields

	items              *node // kindArray
	minItems, maxItems *int

	min, max *float64 // kindInteger, kindNumber
}

type field struct {
	name     string
	node     *node
	required bool
}

var anyNode = &node{}

// compile makes the node of a schema. inferred: it is of inferSchema.
func compile(s *jsonschema.Schema, inferred bool) *node {
	if s == nil {
		return anyNode
	}
	n := &node{decoded: inferred, min: s.Minimum, max: s.Maximum, minItems: s.MinItems, maxItems: s.MaxItems}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if i := slices.Index(types, "null"); i >= 0 {
		n.nullable = true
		types = slices.Delete(slices.Clone(types), i, i+1)
	}
	if len(types) != 1 {
		return &node{nullable: n.nullable || !inferred && len(s.Types) == 0}
	}
	n.kind = kinds[types[0]]
	switch n.kind {
	case kindArray:
		n.items = compile(s.Items, inferred)
	case kindObject:
		n.closed = isFalse(s.AdditionalProperties) && len(s.PatternProperties) == 0
		n.rest = anyNode
		if !n.closed && len(s.PatternProperties) == 0 {
			n.rest = compile(s.AdditionalProperties, inferred)
		}
		n.byName = make(map[string]int, len(s.Properties))
		for _, name := range propertyNames(s) {
			n.byName[name] = len(n.fields)
			n.fields = append(n.fields, field{
				name: name, node: compile(s.Properties[name], inferred), required: slices.Contains(s.Required, name),
			})
		}
	}
	return n
}

// propertyNames lists the properties in a stable order: the struct's, or sorted.
func propertyNames(s *jsonschema.Schema) []string {
	var sorted []string
	for name := range s.Properties {
		if !slices.Contains(s.PropertyOrder, name) {
			sorted = append(sorted, name)
		}
	}
	slices.Sort(sorted)
	ordered := slices.DeleteFunc(slices.Clone(s.PropertyOrder), func(name string) bool { return s.Properties[name] == nil })
	return append(ordered, sorted...)
}

// isFalse reports whether s is the schema that nothing fits.
func isFalse(s *jsonschema.Schema) bool {
	if s == nil || s.Not == nil || !reflect.ValueOf(s.Not).Elem().IsZero() {
		return false
	}
	rest := *s
	rest.Not = nil
	return isZero(rest)
}

// isZero does without a copy on the heap.
func isZero(s jsonschema.Schema) bool { return reflect.ValueOf(&s).Elem().IsZero() }
