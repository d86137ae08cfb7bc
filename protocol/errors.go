package protocol

import (
	"errors"
	"fmt"
)

// Code is a JSON-RPC error code (spec section 11).
type Code int

const (
	CodeParseError            Code = -32700
	CodeInvalidRequest        Code = -32600
	CodeMethodNotFound        Code = -32601
	CodeInvalidParams         Code = -32602
	CodeInternalError         Code = -32603
	CodeUnauthorized          Code = -32001
	CodeForbidden             Code = -32002
	CodeNotFound              Code = -32003
	CodeConflict              Code = -32004
	CodeSessionNotActive      Code = -32005
	CodeLeaseExpired          Code = -32006
	CodeExecutorBusy          Code = -32007
	CodeCapabilityUnavailable Code = -32008
	CodeResourceUnavailable   Code = -32009
	CodePayloadTooLarge       Code = -32010
	CodeTimeout               Code = -32011
	CodeCanceled              Code = -32012
	CodeMCPUnavailable        Code = -32013
	CodeUnsupportedProtocol   Code = -32014
)

// codes gives each code its name, which is the reason when there is no better
// one, and whether the same request may succeed later.
var codes = map[Code]struct {
	name      string
	retryable bool
}{
	CodeParseError:            {"parse_error", false},
	CodeInvalidRequest:        {"invalid_request", false},
	CodeMethodNotFound:        {"method_not_found", false},
	CodeInvalidParams:         {"invalid_params", false},
	CodeInternalError:         {"internal_error", false},
	CodeUnauthorized:          {"unauthorized", false},
	CodeForbidden:             {"forbidden", false},
	CodeNotFound:              {"not_found", false},
	CodeConflict:              {"conflict", false},
	CodeSessionNotActive:      {"session_not_active", false},
	CodeLeaseExpired:          {"lease_expired", true},
	CodeExecutorBusy:          {"executor_busy", true},
	CodeCapabilityUnavailable: {"capability_unavailable", false},
	CodeResourceUnavailable:   {"resource_unavailable", true},
	CodePayloadTooLarge:       {"payload_too_large", false},
	CodeTimeout:               {"timeout", true},
	CodeCanceled:              {"canceled", false},
	CodeMCPUnavailable:        {"mcp_unavailable", false},
	CodeUnsupportedProtocol:   {"unsupported_protocol", false},
}

// String returns the code's name, "invalid_params" for example.
func (c Code) String() string {
	if e, ok := codes[c]; ok {
		return e.name
	}
	return fmt.Sprintf("code_%d", int(c))
}

// Retryable reports whether an error of this code may go away by itself.
func (c Code) Retryable() bool { return codes[c].retryable }

// Codes lists every code of the protocol, in the order of the spec.
func Codes() []Code {
	return []Code{
		CodeParseError, CodeInvalidRequest, CodeMethodNotFound, CodeInvalidParams, CodeInternalError,
		CodeUnauthorized, CodeForbidden, CodeNotFound, CodeConflict, CodeSessionNotActive, CodeLeaseExpired,
		CodeExecutorBusy, CodeCapabilityUnavailable, CodeResourceUnavailable, CodePayloadTooLarge, CodeTimeout,
		CodeCanceled, CodeMCPUnavailable, CodeUnsupportedProtocol,
	}
}

// Reasons beyond the names of the codes. A reason is a stable word; peers decide
// by it and by Retryable, never by a message.
const (
	ReasonLocalConfirmationDenied  = "local_confirmation_denied"
	ReasonLocalConfirmationExpired = "local_confirmation_expired"
	ReasonConfirmationPending      = "confirmation_pending"
	ReasonProcessIDSpecMismatch    = "process_id_spec_mismatch"
	ReasonSessionRejected          = "session_rejected"
	ReasonSpawnFailed              = "spawn_failed"
	ReasonWorkspaceBoundary        = "workspace_boundary"
	ReasonWorkspaceReadOnly        = "workspace_read_only"
	ReasonWorkspaceUnavailable     = "workspace_unavailable"
	ReasonOutcomeUnknown           = "outcome_unknown"
	ReasonStaleFile                = "stale_file"
	ReasonAmbiguousMatch           = "ambiguous_match"
	ReasonNoMatch                  = "no_match"
	ReasonExecutorRestarted        = "executor_restarted"
	ReasonDraining                 = "draining"
)

// Error is the only error that crosses the wire: the error of an RPC answer and,
// in a tool.result, what went wrong after the acceptance. It is immutable once
// made; the With methods return changed copies.
type Error struct {
	Code    Code
	Message string
	Data    ErrorData
}

// ErrorData is the `data` member of an error. Reason is always set on errors
// made by this package.
type ErrorData struct {
	Reason           string `json:"reason,omitempty"`
	Detail           string `json:"detail,omitempty"`
	Capability       string `json:"capability,omitempty"`
	Retryable        bool   `json:"retryable"`
	ExpectedSequence int64  `json:"expected_sequence,omitempty"`
	TerminalCode     string `json:"terminal_code,omitempty"`
}

// Errorf makes an error whose reason is the code's name and which is retryable
// as the code is.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{
		Code:    code,
		Message: fmt.Sprintf(format, args...),
		Data:    ErrorData{Reason: code.String(), Retryable: code.Retryable()},
	}
}

// WithReason returns a copy with another reason.
func (e *Error) WithReason(reason string) *Error {
	c := *e
	c.Data.Reason = reason
	return &c
}

// WithDetail returns a copy with a detail, free text for people.
func (e *Error) WithDetail(detail string) *Error {
	c := *e
	c.Data.Detail = detail
	return &c
}

// WithRetryable returns a copy that is retryable or not.
func (e *Error) WithRetryable(retryable bool) *Error {
	c := *e
	c.Data.Retryable = retryable
	return &c
}

// WithCapability returns a copy that names the missing capability.
func (e *Error) WithCapability(name string) *Error {
	c := *e
	c.Data.Capability = name
	return &c
}

func (e *Error) Error() string {
	if e.Data.Reason != "" && e.Data.Reason != e.Code.String() {
		return fmt.Sprintf("%s (%s): %s", e.Code, e.Data.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Is matches by code and, when the target has a reason of its own, by reason, so
// that errors.Is(err, protocol.ErrNotFound) holds for every not_found.
func (e *Error) Is(target error) bool {
	var t *Error
	if !errors.As(target, &t) || t.Code != e.Code {
		return false
	}
	return t.Data.Reason == "" || t.Data.Reason == t.Code.String() || t.Data.Reason == e.Data.Reason
}

// Reason returns the reason of an *Error, or "" for any other error.
func (e *Error) Reason() string {
	if e.Data.Reason != "" {
		return e.Data.Reason
	}
	return e.Code.String()
}

// Sentinels for errors.Is, one for each code that callers decide by.
var (
	ErrInvalidParams         = Errorf(CodeInvalidParams, "invalid params")
	ErrMethodNotFound        = Errorf(CodeMethodNotFound, "method not found")
	ErrUnauthorized          = Errorf(CodeUnauthorized, "unauthorized")
	ErrForbidden             = Errorf(CodeForbidden, "forbidden")
	ErrNotFound              = Errorf(CodeNotFound, "not found")
	ErrConflict              = Errorf(CodeConflict, "conflict")
	ErrSessionNotActive      = Errorf(CodeSessionNotActive, "session not active")
	ErrLeaseExpired          = Errorf(CodeLeaseExpired, "lease expired")
	ErrExecutorBusy          = Errorf(CodeExecutorBusy, "executor busy")
	ErrCapabilityUnavailable = Errorf(CodeCapabilityUnavailable, "capability unavailable")
	ErrResourceUnavailable   = Errorf(CodeResourceUnavailable, "resource unavailable")
	ErrPayloadTooLarge       = Errorf(CodePayloadTooLarge, "payload too large")
	ErrTimeout               = Errorf(CodeTimeout, "timeout")
	ErrCanceled              = Errorf(CodeCanceled, "canceled")
	ErrMCPUnavailable        = Errorf(CodeMCPUnavailable, "MCP server unavailable")
	ErrUnsupportedProtocol   = Errorf(CodeUnsupportedProtocol, "unsupported protocol")
)

// Close codes of a connection (spec section 11).
const (
	CloseNormal              = 1000
	CloseGoingAway           = 1001
	CloseProtocolError       = 1002
	ClosePolicy              = 1008
	CloseTooBig              = 1009
	CloseInternal            = 1011
	CloseServiceRestart      = 1012
	CloseUnauthorized        = 4001
	CloseUnsupportedProtocol = 4002
	CloseRegistrationRefused = 4003
	CloseReplaced            = 4004
	CloseLeaseExpired        = 4005
	CloseMCPServerExited     = 4010
	CloseTerminalEnded       = 4011
)
