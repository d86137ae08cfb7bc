package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// End is one end of the protocol, as the sender of a message.
type End string

const (
	Executor  End = "executor"
	Brain     End = "brain"
	EitherEnd End = "both"
)

// Spec describes one method (spec section 4).
type Spec struct {
	Name       string // "process.read"
	From       End    // who sends it
	Notify     bool   // a notification: no id, no answer
	Capability string // must be advertised by the executor, may be dotted; "" = core
	Repeat     string // why a repeat is harmless: a member of params, or a short reason
	Extension  bool   // never needed by a peer that does not know it
	Stream     bool   // its messages are one stream: a small one never overtakes a large one
}

// Method is a request with the types of its params and result. Methods are
// package variables, made once and only read. Anyone may declare further ones
// under a prefix of their own.
type Method[P, R any] struct {
	Spec
	// Lane orders requests: those with the same non-empty lane on one connection
	// are handled one after another, in order of arrival. nil: all concurrently.
	Lane func(P) string
}

// Notification is a message without an answer. The notifications of one method
// on one connection are handled one after another, in order of arrival.
type Notification[P any] struct{ Spec }

// Checker is implemented by params that have required members. Check returns an
// invalid_params error that names the member.
type Checker interface{ Check() error }

// Blob is implemented by (pointers to) params and results whose `data` member
// may travel as raw bytes in a binary message (spec section 1.7) and as base64
// in a text message.
type Blob interface{ Blob() *[]byte }

// DecodeParams reads params into P and checks them. The error is always an
// *Error with code invalid_params that names the member. Unknown members are
// ignored; absent params are read as an empty object.
func DecodeParams[P any](raw json.RawMessage) (P, error) {
	var p P
	if len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &p); err != nil {
			return p, invalidParams(reflect.TypeFor[P](), raw, err)
		}
	}
	if c, ok := any(p).(Checker); ok {
		if err := c.Check(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// DecodeResult reads a result into R; the error is a plain one, since it says
// that the peer broke the contract.
func DecodeResult[R any](raw json.RawMessage) (R, error) {
	var r R
	if len(raw) == 0 || string(raw) == "null" {
		return r, nil
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("decode result: %w", err)
	}
	return r, nil
}

// invalidParams turns an error of encoding/json into invalid_params that names
// the member. It looks at the error's type, never at its text, so that no name
// of this implementation crosses the wire.
func invalidParams(t reflect.Type, raw json.RawMessage, err error) *Error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return Errorf(CodeInvalidParams, "params: not valid JSON at byte %d", syntax.Offset)
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		kind, _, _ := strings.Cut(wrongType.Value, " ") // "number 1.5": the number may be long
		return Errorf(CodeInvalidParams, "%s: want %s, got %s", orParams(wrongType.Field), jsonTypeName(wrongType.Type), kind)
	}
	// A string that is no base64 or no time: the error does not say where.
	field, leaf := culprit(t, raw)
	return Errorf(CodeInvalidParams, "%s: want %s", orParams(field), jsonTypeName(leaf))
}

func orParams(field string) string {
	if field == "" {
		return "params"
	}
	return field
}

// culprit finds the first member below raw that does not decode into its type.
func culprit(t reflect.Type, raw json.RawMessage) (path string, leaf reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	bad := func(t reflect.Type, raw json.RawMessage) bool {
		return json.Unmarshal(raw, reflect.New(t).Interface()) != nil
	}
	switch {
	case t == reflect.TypeFor[Time]():
	case t.Kind() == reflect.Struct:
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if member, ok := members[name]; ok && bad(field.Type, member) {
				sub, leaf := culprit(field.Type, member)
				return strings.TrimSuffix(name+"."+sub, "."), leaf
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items)
		for _, item := range items {
			if bad(t.Elem(), item) {
				return culprit(t.Elem(), item)
			}
		}
	}
	return "", t
}

// jsonTypeName says in JSON's words what decodes into t.
func jsonTypeName(t reflect.Type) string {
	switch {
	case t == nil:
		return "another type"
	case t == reflect.TypeFor[Time]():
		return "a time as in RFC 3339"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "another type"
	}
}

// required returns invalid_params for the first of the name, value pairs whose
// value is empty.
func required(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return Errorf(CodeInvalidParams, "%s: required, but missing or empty", pairs[i])
		}
	}
	return nil
}

// notNegative returns invalid_params for a duration or size below zero.
func notNegative(name string, v int64) error {
	if v < 0 {
		return Errorf(CodeInvalidParams, "%s: must not be negative, got %d", name, v)
	}
	return nil
}

// oneOf returns invalid_params for a word that is neither empty nor known.
func oneOf(name, word string, known ...string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return Errorf(CodeInvalidParams, "%s: must be %s", name, strings.Join(known, " or "))
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Specs lists every method of the protocol in the order of the spec's table.
// The slice is the caller's own.
func Specs() []Spec {
	return []Spec{
		ExecutorRegister.Spec, ExecutorHeartbeat.Spec, ExecutorTokenRefresh.Spec, ExecutorCapabilitiesUpdate.Spec,
		ExecutorDrain.Spec, ExecutorClose.Spec,
		SessionAssign.Spec, SessionReady.Spec, SessionStatus.Spec, SessionStop.Spec, SessionEnded.Spec, SessionClose.Spec,
		SessionEvent.Spec, SessionEventDelta.Spec, SessionWake.Spec,
		ToolCall.Spec, ToolCancel.Spec, ToolProgress.Spec, ToolResult.Spec,
		ProcessStart.Spec, ProcessRead.Spec, ProcessWrite.Spec, ProcessInterrupt.Spec, ProcessTerminate.Spec,
		ProcessList.Spec, ProcessStatus.Spec, ProcessResize.Spec, ProcessSubscribe.Spec, ProcessOutput.Spec, ProcessAck.Spec,
		TerminalOpen.Spec, TerminalAttach.Spec, TerminalClose.Spec,
		TurnStart.Spec, TurnInput.Spec, TurnCancel.Spec,
		InteractionRequest.Spec, InteractionResponse.Spec, InteractionCancel.Spec,
		SkillInstall.Spec, WorkspaceBackup.Spec, FSMount.Spec, FSUnmount.Spec,
	}
}

// CanonicalName maps the other accepted spellings of a method to its name.
func CanonicalName(name string) string {
	switch name {
	case "executor.token.refresh":
		return ExecutorTokenRefresh.Name
	case "executor.capabilities.update":
		return ExecutorCapabilitiesUpdate.Name
	case "session.event.delta":
		return SessionEventDelta.Name
	}
	return name
}
