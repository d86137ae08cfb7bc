package gateway

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// emptyTexts sees to it that an empty text goes to clients as one: the library leaves
// out what is empty, and contents with neither text nor blob are none.
func emptyTexts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		switch r := result.(type) {
		case *mcp.ReadResourceResult:
			for _, one := range r.Contents {
				if isEmpty(one) {
					return &readResult{r}, nil
				}
			}
		case *mcp.CallToolResult:
			fillEmpty(r.Content...)
		case *mcp.GetPromptResult:
			for _, m := range r.Messages {
				if m != nil {
					fillEmpty(m.Content)
				}
			}
		}
		return result, nil
	}
}

func isEmpty(one *mcp.ResourceContents) bool {
	return one != nil && one.Text == "" && len(one.Blob) == 0
}

// fillEmpty gives embedded resources that are empty an empty blob, which is not left out.
func fillEmpty(content ...mcp.Content) {
	for _, one := range content {
		if e, ok := one.(*mcp.EmbeddedResource); ok && isEmpty(e.Resource) {
			e.Resource.Blob = []byte{}
		}
	}
}

// readResult is a result with contents that are empty.
type readResult struct{ *mcp.ReadResourceResult }

// MarshalJSON says text where the library says nothing.
func (r *readResult) MarshalJSON() ([]byte, error) {
	raw, err := r.ReadResourceResult.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var whole map[string]json.RawMessage
	var contents []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["contents"], &contents); err != nil {
		return nil, err
	}
	for _, one := range contents {
		if one["text"] == nil && (one["blob"] == nil || bytes.Equal(one["blob"], []byte(`""`))) {
			delete(one, "blob")
			one["text"] = json.RawMessage(`""`)
		}
	}
	if whole["contents"], err = json.Marshal(contents); err != nil {
		return nil, err
	}
	return json.Marshal(whole)
}
