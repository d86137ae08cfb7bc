package capabilities

import (
	"encoding/json"
	"fmt"

	"github.com/agent-executor/executor/protocol"
	"github.com/google/jsonschema-go/jsonschema"
)

// inputType decodes the inputs of one tool.
type inputType[In any] struct {
	schema json.RawMessage
}

func newInputType[In any](explicit json.RawMessage) (*inputType[In], error) {
	if explicit != nil {
		_, _, err := parseSchema(explicit)
		return &inputType[In]{schema: explicit}, err
	}
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(s)
	return &inputType[In]{schema: raw}, err
}

func (t *inputType[In]) decode(raw json.RawMessage) (In, error) {
	in, err := protocol.DecodeParams[In](raw)
	if err != nil {
		return in, asInvalidParams(err)
	}
	return in, nil
}

func parseSchema(raw json.RawMessage) (*jsonschema.Schema, *jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: %w", err)
	}
	return &s, resolved, nil
}
