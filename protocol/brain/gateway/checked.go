package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// checked is the transport to a server whose answers are looked at first: what does not
// have the form that MCP gives it costs one tool, or one call, and not the server.
type checked struct {
	mcp.Transport
	key string
	log *zap.Logger
}

func (c *checked) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := c.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &checkedConn{Connection: conn, of: c, asked: map[jsonrpc.ID]string{}}, nil
}

type checkedConn struct {
	mcp.Connection
	of *checked

	mu    sync.Mutex
	asked map[jsonrpc.ID]string // methods of requests without an answer
}

func (c *checkedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok {
		c.mu.Lock()
		switch {
		case r.IsCall():
			c.asked[r.ID] = r.Method
		case r.Method == "notifications/cancelled":
			delete(c.asked, cancelled(r.Params)) // it may never be answered
		}
		c.mu.Unlock()
	}
	return c.Connection.Write(ctx, m)
}

// cancelled is the id of the request that a notification takes back.
func cancelled(params json.RawMessage) jsonrpc.ID {
	var p struct {
		ID any `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p)
	id, _ := jsonrpc.MakeID(p.ID)
	return id
}

func (c *checkedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		c.mu.Lock()
		method := c.asked[r.ID]
		delete(c.asked, r.ID)
		c.mu.Unlock()
		if r.Error == nil {
			return c.of.check(method, r), nil
		}
	}
	return m, err
}

// check is the answer to a request, or what is told instead of it.
func (c *checked) check(method string, r *jsonrpc.Response) *jsonrpc.Response {
	var fault error
	switch method {
	case "tools/list":
		r.Result, fault = c.list(r.Result, "tools", mendTool)
	case "prompts/list":
		r.Result, fault = c.list(r.Result, "prompts", decodes[mcp.Prompt])
	case "resources/list":
		r.Result, fault = c.list(r.Result, "resources", decodes[mcp.Resource])
	case "prompts/get":
		_, fault = decodes[mcp.GetPromptResult](r.Result)
	case "resources/read":
		_, fault = decodes[mcp.ReadResourceResult](r.Result)
	case "tools/call":
		if fault = callFault(r.Result); fault != nil {
			c.log.Warn("answer of a server is malformed", zap.String("method", method), zap.Error(fault))
			said := &mcp.CallToolResult{IsError: true, Meta: mcp.Meta{metaReason: protocol.CodeInternalError.String()},
				Content: []mcp.Content{&mcp.TextContent{Text: c.malformed(fault)}}}
			if raw, err := json.Marshal(said); err == nil {
				r.Result = raw
			}
			return r
		}
	default:
		return r
	}
	if fault != nil {
		c.log.Warn("answer of a server is malformed", zap.String("method", method), zap.Error(fault))
		return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: c.malformed(fault)}}
	}
	return r
}

func (c *checked) malformed(fault error) string {
	return fmt.Sprintf("server %s gave a malformed answer: %v", c.key, fault)
}

// list is a list without what is malformed in it.
func (c *checked) list(raw json.RawMessage, member string, mend func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	whole, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("the result is %w", err)
	}
	var items []json.RawMessage
	if json.Unmarshal(whole[member], &items) != nil {
		return nil, fmt.Errorf("its %s are no list", member)
	}
	good := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		mended, err := mend(item)
		if mended != nil {
			good = append(good, mended)
		}
		if err != nil {
			what := "left out"
			if mended != nil {
				what = "mended"
			}
			c.log.Warn("what a server has is malformed", zap.String("list", member), zap.ByteString("name", name(item)), zap.String("and", what), zap.Error(err))
		}
	}
	if whole[member], err = json.Marshal(good); err != nil {
		return nil, err
	}
	var cursor string
	if json.Unmarshal(whole["nextCursor"], &cursor) != nil {
		delete(whole, "nextCursor")
	}
	return json.Marshal(whole)
}

// name is that of an item of a list, for a log; at most 100 bytes.
func name(item json.RawMessage) []byte {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(item, &m)
	return m["name"][:min(len(m["name"]), 100)]
}

// decodes is raw itself, or what is wrong with it as a T.
func decodes[T any](raw json.RawMessage) (json.RawMessage, error) {
	if _, err := object(raw); err != nil {
		return nil, fmt.Errorf("it is %w", err)
	}
	if err := json.Unmarshal(raw, new(T)); err != nil {
		return nil, plainly(err)
	}
	return raw, nil
}

// mendTool is a tool as all clients take it.
func mendTool(raw json.RawMessage) (json.RawMessage, error) {
	if _, err := decodes[mcp.Tool](raw); err != nil {
		return nil, err
	}
	whole, err := object(raw)
	if err != nil {
		return nil, err
	}
	var called string
	if json.Unmarshal(whole["name"], &called) != nil || called == "" {
		return nil, errors.New("it has no name")
	}
	input, fault := mendSchema(whole["inputSchema"])
	if input == nil {
		input = json.RawMessage(anyObject)
	}
	whole["inputSchema"] = input
	if out, there := whole["outputSchema"]; there {
		if objectSchema(out) != nil { // it may be one of what is no object, in newer versions
			delete(whole, "outputSchema")
		} else {
			mended, err := mendSchema(out)
			whole["outputSchema"], fault = mended, errors.Join(fault, err)
		}
	}
	mended, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	return mended, fault
}

// mendSchema is a schema of an object without what clients refuse, and what that was;
// nil when it is none.
func mendSchema(raw json.RawMessage) (json.RawMessage, error) {
	schema, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("a schema is %w", err)
	}
	var kind string
	if t, there := schema["type"]; there && (json.Unmarshal(t, &kind) != nil || kind != "object") {
		return nil, errors.New(`a schema's type is not "object"`)
	}
	schema["type"] = json.RawMessage(`"object"`)
	var fault error
	if properties, there := schema["properties"]; there {
		each, err := object(properties)
		if err != nil {
			delete(schema, "properties")
			fault = fmt.Errorf("properties of a schema are %w", err)
		} else {
			for name, one := range each {
				if _, err := object(one); err == nil {
					continue
				}
				each[name] = json.RawMessage(`{}`)
				if string(one) == "false" {
					each[name] = json.RawMessage(`{"not":{}}`)
				}
				if string(one) != "true" && string(one) != "false" {
					fault = errors.New("a property of a schema is no schema")
				}
			}
			if schema["properties"], err = json.Marshal(each); err != nil {
				return nil, err
			}
		}
	}
	var required []*string
	if r, there := schema["required"]; there && (json.Unmarshal(r, &required) != nil || required == nil || hasNil(required)) {
		delete(schema, "required")
		fault = errors.Join(fault, errors.New("required of a schema is no list of names"))
	}
	mended, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	return mended, fault
}

func hasNil(list []*string) bool {
	for _, s := range list {
		if s == nil {
			return true
		}
	}
	return false
}
