package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// contentTypes are the blocks that a result of a tool may have.
var contentTypes = [...]string{"text", "image", "audio", "resource", "resource_link"}

// callFault says what is wrong with the result of a tools/call; nil when nothing is.
func callFault(raw json.RawMessage) error {
	whole, err := object(raw)
	if err != nil {
		return fmt.Errorf("the result is %w", err)
	}
	if e, there := whole["isError"]; there && json.Unmarshal(e, new(bool)) != nil {
		return errors.New("isError is not true or false")
	}
	if m, there := whole["_meta"]; there && string(m) != "null" {
		if _, err := object(m); err != nil {
			return fmt.Errorf("_meta is %w", err)
		}
	}
	if s, there := whole["structuredContent"]; there && string(s) != "null" {
		if _, err := object(s); err != nil {
			return fmt.Errorf("structuredContent is %w", err)
		}
	}
	if c, there := whole["content"]; there && string(c) != "null" {
		var blocks []json.RawMessage
		if json.Unmarshal(c, &blocks) != nil {
			return fmt.Errorf("content is %s, not a list", kindOf(c))
		}
		for i, block := range blocks {
			if err := blockFault(block); err != nil {
				return fmt.Errorf("content %d: %w", i, err)
			}
		}
	}
	if err := json.Unmarshal(raw, new(mcp.CallToolResult)); err != nil {
		return plainly(err)
	}
	return nil
}

func blockFault(raw json.RawMessage) error {
	block, err := object(raw)
	if err != nil {
		return fmt.Errorf("it is %w", err)
	}
	var kind string
	if json.Unmarshal(block["type"], &kind) != nil {
		return errors.New("it has no type")
	}
	known := false
	for _, t := range contentTypes {
		known = known || t == kind
	}
	switch {
	case !known:
		return fmt.Errorf("its type %.40q is not known", kind)
	case kind == "text":
		return text(block, "text")
	case kind == "resource_link":
		return text(block, "uri")
	case kind == "resource":
		inner, err := object(block["resource"])
		if err != nil {
			return fmt.Errorf("its resource is %w", err)
		}
		if err := text(inner, "uri"); err != nil {
			return err
		}
		if _, there := inner["blob"]; there {
			return data(inner, "blob")
		}
		return text(inner, "text")
	}
	return data(block, "data")
}

func text(of map[string]json.RawMessage, member string) error {
	if v, there := of[member]; !there || kindOf(v) != "a text" {
		return fmt.Errorf("its %s is no text", member)
	}
	return nil
}

func data(of map[string]json.RawMessage, member string) error {
	var s string
	if json.Unmarshal(of[member], &s) != nil {
		return fmt.Errorf("its %s is no text", member)
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return fmt.Errorf("its %s is not base64", member)
	}
	return nil
}

// object is a JSON object, or an error that says what it is instead.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, fmt.Errorf("%s, not an object", kindOf(raw))
	}
	return m, nil
}

// kindOf names a JSON value for people.
func kindOf(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "nothing"
	}
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	}
	return "null"
}

// plainly is an error of decoding in words that are not those of Go.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s is a %s, which it must not be", wrong.Field, wrong.Value)
	}
	return errors.New("it does not have the form that MCP gives it")
}
