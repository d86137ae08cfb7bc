package capabilities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/agent-executor/executor/protocol"
)

// Tool describes a tool that a model may call.
type Tool struct {
	// Name is 1 to 64 of A-Z a-z 0-9 _ and -, unique in the executor.
	Name        string
	Description string // for the model; required by the contract test
	// InputSchema is a JSON Schema 2020-12 of type object. nil: inferred from the
	// type of the input. A schema that is given is also what inputs are validated
	// against.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // of ToolOutput.Structured; nil = none
	Annotations  protocol.Annotations
	// Command is the program that the tool runs, with its first arguments, if it is one: what a policy sees in
	// front of the arguments of [Effect].
	Command []string
}

// ToolHandler runs one call whose input has been checked and decoded. It is the
// shape that the executor's Options.Wrap works on; the call says which tool it is
// for and with what input.
type ToolHandler func(context.Context, *Call) (protocol.ToolOutput, error)

// toolName is what the model providers accept as a name.
var toolName = shortName{`^[A-Za-z0-9_-]{1,64}$`, regexp.MustCompile(`^[A-Za-z0-9_-]+$`)}

// shortName is an expression for names of at most 64 bytes, and how it is shown. The length
// is looked at apart: a bound in an expression becomes a state for every character, which
// cost more at every start than most else.
type shortName struct {
	text string
	re   *regexp.Regexp
}

func (n shortName) MatchString(s string) bool { return len(s) <= 64 && n.re.MatchString(s) }
func (n shortName) String() string            { return n.text }

// AddTool registers a tool whose input is decoded into In, a struct with json
// tags. Members without omitempty or omitzero are required; a `jsonschema:"…"`
// tag is a member's description. An In that implements protocol.Checker is
// checked after decoding.
//
// The handler runs on a goroutine of its own, several at once also within one
// session. Its context ends with the call: canceled by the brain, deadline
// passed, session ended. It returns when the context is done.
//
// It panics on registration mistakes: a bad or taken name, a schema that is not
// valid, an input type that has no schema.
func AddTool[In any](r *Registrar, t Tool, h func(context.Context, *Call, In) (protocol.ToolOutput, error)) {
	if !toolName.MatchString(t.Name) {
		panic(fmt.Sprintf("capabilities: %s: tool name %q does not match %s", r.name, t.Name, toolName))
	}
	input, err := newInputType[In](t.InputSchema)
	if err != nil {
		panic(fmt.Sprintf("capabilities: %s: tool %s: %v", r.name, t.Name, err))
	}
	if err := checkOutputSchema(t.OutputSchema); err != nil {
		panic(fmt.Sprintf("capabilities: %s: tool %s: %v", r.name, t.Name, err))
	}
	r.addTool(&RegisteredTool{
		capability: r.name,
		info: protocol.ToolInfo{
			Name: t.Name, Description: t.Description, Annotations: t.Annotations,
			InputSchema: input.schema, OutputSchema: bytes.Clone(t.OutputSchema),
		},
		prepare: func(raw json.RawMessage) (ToolHandler, func() Effect, error) {
			in, err := input.decode(raw)
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context, c *Call) (protocol.ToolOutput, error) { return h(ctx, c, in) },
				func() Effect { return effectOfTool(t, in) }, nil
		},
	})
}

func checkOutputSchema(raw json.RawMessage) error {
	if raw == nil || isPlainSchema(raw) {
		return nil
	}
	if _, _, err := parseSchema(raw); err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	return nil
}

// RegisteredTool is a tool in a [Registry]. It is immutable.
type RegisteredTool struct {
	capability string
	info       protocol.ToolInfo
	prepare    func(json.RawMessage) (ToolHandler, func() Effect, error)
}

// Info is what is advertised. The schemas are not to be written to.
func (t *RegisteredTool) Info() protocol.ToolInfo { return t.info }

// Capability is the name of the capability that registered the tool.
func (t *RegisteredTool) Capability() string { return t.capability }

// Prepare checks and decodes an input, so that a call with a bad one is refused
// before it is accepted. The error is always a *protocol.Error with code
// invalid_params that names the member. The handler may be called once or more, and
// input must stay as it is for as long as that: a [LongText] refers to it.
//
// Checked in this order: the input is an object (absent and null stand for an
// empty one); it has no unknown member at any depth; no required member is
// missing; every type is the wanted one. null for an optional member is the same
// as leaving it out, 3.0 is an integer, and of members with the same name the
// last wins.
func (t *RegisteredTool) Prepare(input json.RawMessage) (ToolHandler, error) {
	h, _, err := t.prepare(input)
	return h, err
}

// PrepareEffect is Prepare, and says what the call is going to do.
func (t *RegisteredTool) PrepareEffect(input json.RawMessage) (ToolHandler, func() Effect, error) {
	return t.prepare(input)
}

// asInvalidParams makes sure that what leaves Prepare is a *protocol.Error.
func asInvalidParams(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e
	}
	return protocol.Errorf(protocol.CodeInvalidParams, "%v", err)
}
