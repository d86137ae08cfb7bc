package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
			return p, invalidJSON("params", err)
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

// invalidJSON turns an error of encoding/json into invalid_params. It looks at
// the error's type, never at its text.
func invalidJSON(where string, err error) *Error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		field := wrongType.Field
		if field == "" {
			field = where
		}
		return Errorf(CodeInvalidParams, "%s: want %s, got %s", field, jsonTypeName(wrongType), wrongType.Value)
	case errors.As(err, &syntax):
		return Errorf(CodeInvalidParams, "%s: not valid JSON at byte %d", where, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(CodeInvalidParams, "%s: the JSON ends too early", where)
	default:
		return Errorf(CodeInvalidParams, "%s: %v", where, err)
	}
}

func jsonTypeName(e *json.UnmarshalTypeError) string {
	if e.Type == nil {
		return "another type"
	}
	switch k := e.Type.Kind().String(); {
	case strings.HasPrefix(k, "int"):
		return "an integer"
	case strings.HasPrefix(k, "uint"):
		return "an integer that is not negative"
	case strings.HasPrefix(k, "float"):
		return "a number"
	case k == "bool":
		return "true or false"
	case k == "slice" && e.Type.Elem().Kind().String() == "uint8":
		return "a base64 string"
	case k == "slice", k == "array":
		return "an array"
	case k == "map", k == "struct":
		return "an object"
	default:
		return "a " + k
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
