package capabilities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/agent-executor/executor/protocol"
	"github.com/google/jsonschema-go/jsonschema"
)

// inputType decodes the inputs of one tool. It is made at registration, so that a
// call costs one pass of inputCheck and one of encoding/json.
type inputType[In any] struct {
	schema    json.RawMessage
	root      *node
	validator *jsonschema.Resolved // nil for an inferred schema
	check     bool                 // *In is a protocol.Checker and In is not
}

func newInputType[In any](given json.RawMessage) (*inputType[In], error) {
	t := &inputType[In]{}
	var zero In
	if _, ok := any(zero).(protocol.Checker); !ok {
		_, t.check = any(&zero).(protocol.Checker)
	}
	if given != nil {
		s, resolved, err := parseSchema(given)
		if err != nil {
			return nil, fmt.Errorf("input schema: %w", err)
		}
		t.schema, t.validator, t.root = bytes.Clone(given), resolved, compile(s, false)
		return t, nil
	}
	s, err := inferSchema(reflect.TypeFor[In]())
	if err != nil {
		return nil, err
	}
	t.schema, t.root = appendSchema(nil, s), compile(s, true)
	return t, nil
}

var emptyObject = json.RawMessage("{}")

// decode checks and decodes; see RegisteredTool.Prepare.
func (t *inputType[In]) decode(raw json.RawMessage) (In, error) {
	var zero In
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = emptyObject
	}
	raw, err := checkInput(t.root, raw)
	if err != nil {
		return zero, err
	}
	if t.validator != nil {
		if err := validate(t.validator, raw); err != nil {
			return zero, err
		}
	}
	in, err := protocol.DecodeParams[In](raw, nil)
	if err != nil {
		return zero, inputError(raw, err)
	}
	if t.check {
		if err := any(&in).(protocol.Checker).Check(); err != nil {
			return zero, asInvalidParams(err)
		}
	}
	return in, nil
}

func validate(schema *jsonschema.Resolved, raw json.RawMessage) error {
	v, err := protocol.DecodeParams[any](raw, nil)
	if err != nil {
		return inputError(raw, err)
	}
	if err := schema.Validate(v); err != nil {
		return protocol.Errorf(protocol.CodeInvalidParams, "input: %v", err)
	}
	return nil
}

// inputError words an error of decoding for an input; protocol.DecodeParams speaks
// of params.
func inputError(raw json.RawMessage, err error) error {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(raw, new(json.RawMessage)), &syntax) {
		return invalid("input: not valid JSON at byte %d", syntax.Offset)
	}
	return asInvalidParams(err)
}
