package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
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

// DecodeParams reads params into P, puts data, the raw part of a binary message, in
// place without a copy, and checks them. The error is always an *Error with code
// invalid_params that names the member. Unknown members are ignored; absent params
// are read as an empty object.
func DecodeParams[P any](raw json.RawMessage, data []byte) (P, error) {
	var p P
	if len(raw) > 0 && string(raw) != "null" {
		if err := jsonwire.Unmarshal(raw, &p, false); err != nil {
			return p, invalidParams(err)
		}
	}
	if data != nil {
		blob, ok := any(&p).(Blob)
		if !ok {
			return p, Errorf(CodeInvalidParams, "data: the method takes no binary message")
		}
		*blob.Blob() = data
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
	if err := jsonwire.Unmarshal(raw, &r, false); err != nil {
		return r, fmt.Errorf("decode result: %w", err)
	}
	return r, nil
}

// invalidParams turns an error of decoding into invalid_params that names the
// member, without a name of this implementation.
func invalidParams(err error) *Error {
	var syntax *jsonwire.SyntaxError
	if errors.As(err, &syntax) {
		return Errorf(CodeInvalidParams, "params: not valid JSON at byte %d", syntax.Offset)
	}
	var wrong *jsonwire.TypeError
	if !errors.As(err, &wrong) {
		return Errorf(CodeInvalidParams, "params: not what the method takes")
	}
	field := wrong.Field
	if field == "" {
		field = "params"
	}
	switch {
	case errors.Is(wrong.Err, errTime):
		return Errorf(CodeInvalidParams, "%s: want a time as in RFC 3339", field)
	case wrong.Err != nil:
		return Errorf(CodeInvalidParams, "%s: want %s", field, wrong.Want)
	}
	kind, _, _ := strings.Cut(wrong.Got, " ") // "number 1.5": the number may be long
	return Errorf(CodeInvalidParams, "%s: want %s, got %s", field, wrong.Want, kind)
}

// maxID is the longest id: ids are repeated in many messages, and kept.
const maxID = 1024

// required returns invalid_params for the first of the name, value pairs whose
// value is empty, or is an id that is too long.
func required(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		if value == "" {
			return Errorf(CodeInvalidParams, "%s: required, but missing or empty", name)
		}
		if len(value) > maxID && strings.HasSuffix(name, "_id") {
			return Errorf(CodeInvalidParams, "%s: is %d bytes long, more than %d", name, len(value), maxID)
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
