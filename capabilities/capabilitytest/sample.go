package capabilitytest

import (
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// sampleObject makes an input that fits the schema as far as types go: the
// required members only, with the least that fits each.
func sampleObject(s *jsonschema.Schema) map[string]any {
	object := map[string]any{}
	for _, name := range s.Required {
		object[name] = sample(s.Properties[name])
	}
	return object
}

func sample(s *jsonschema.Schema) any {
	switch {
	case s == nil:
		return "x"
	case s.Const != nil:
		return *s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return json.RawMessage(s.Default)
	}
	types := append(slices.Clone(s.Types), s.Type)
	switch types[0] {
	case "boolean":
		return false
	case "integer", "number":
		if s.Minimum != nil && *s.Minimum > 1 {
			return *s.Minimum
		}
		return 1
	case "null":
		return nil
	case "array":
		items := []any{}
		for s.MinItems != nil && len(items) < *s.MinItems {
			items = append(items, sample(s.Items))
		}
		return items
	case "object":
		return sampleObject(s)
	}
	if s.ContentEncoding == "base64" {
		return "eA=="
	}
	return "x"
}
