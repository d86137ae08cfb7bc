package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// tool is one tool as clients see it.
type tool struct {
	shown *mcp.Tool
	raw   []byte // shown, as it goes to clients
	plain string // its name when it is the only one of that name
	x     *brain.Executor
	name  string // on the executor

	handle mcp.ToolHandler // of another server's tool; nil: it is the executor's
}

// anyObject is the schema of a tool that says nothing about its input.
const anyObject = `{"type":"object"}`

// describe makes a tool of what an executor says about one. The schemas are passed on as
// they are.
func describe(x *brain.Executor, info protocol.ToolInfo, name, where string) (*tool, error) {
	a := info.Annotations
	shown := &mcp.Tool{Name: name, Description: info.Description, InputSchema: json.RawMessage(anyObject),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: a.ReadOnly, IdempotentHint: a.Idempotent, DestructiveHint: &a.Destructive, OpenWorldHint: &a.OpenWorld}}
	if where != "" {
		shown.Description = "On " + where + ": " + shown.Description
	}
	if len(bytes.TrimSpace(info.InputSchema)) > 0 {
		if err := objectSchema(info.InputSchema); err != nil {
			return nil, fmt.Errorf("input_schema: %w", err)
		}
		shown.InputSchema = info.InputSchema
	}
	// Before protocol version 2026-07-28 a structured result is an object, and clients
	// refuse the whole list for another schema.
	if len(bytes.TrimSpace(info.OutputSchema)) > 0 && objectSchema(info.OutputSchema) == nil {
		shown.OutputSchema = info.OutputSchema
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	return &tool{shown: shown, raw: raw, x: x, name: info.Name}, nil
}

// objectSchema checks that a schema is one of an object, which all clients expect.
func objectSchema(raw json.RawMessage) error {
	var s struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	if s.Type != "object" {
		return errors.New(`its type is not "object"`)
	}
	return nil
}

// add adds a tool to a server. What the library refuses with a panic is an error: it
// comes from an executor.
func add(s *mcp.Server, t *mcp.Tool, h mcp.ToolHandler) error {
	return safely(func() { s.AddTool(t, h) })
}
