package protocol

import "encoding/json"

// Tool calls (spec section 6).
var (
	// Call and cancel of one id share a lane, so that a cancel never overtakes the
	// call it is for.
	ToolCall = Method[ToolCallParams, AcceptedResult]{
		Spec: Spec{Name: "tool.call", From: Brain, Repeat: "tool_call_id"},
		Lane: func(p ToolCallParams) string { return toolLane(p.SessionID, p.ToolCallID) }}
	ToolCancel = Method[ToolCancelParams, ToolCancelResult]{
		Spec: Spec{Name: "tool.cancel", From: Brain, Repeat: "tool_call_id"},
		Lane: func(p ToolCancelParams) string { return toolLane(p.SessionID, p.ToolCallID) }}
	ToolProgress = Notification[ToolProgressParams]{Spec: Spec{
		Name: "tool.progress", From: Executor, Notify: true, Repeat: "best effort", Stream: true}}
	ToolResult = Method[ToolResultParams, AcceptedResult]{
		Spec: Spec{Name: "tool.result", From: Executor, Repeat: "tool_call_id"},
		Lane: func(ToolResultParams) string { return "results" }}
)

func toolLane(session, call string) string { return "tool/" + session + "/" + call }

// Values of Permission.Mode.
const (
	PermissionAlwaysAllow = "always_allow"
	PermissionAlwaysAsk   = "always_ask"
)

type Permission struct {
	Mode string `json:"mode"`
}

type ToolCallParams struct {
	SessionID  string          `json:"session_id"`
	ToolCallID string          `json:"tool_call_id"`
	Tool       string          `json:"tool"`
	Input      json.RawMessage `json:"input,omitempty"` // an object; absent = {}
	Permission *Permission     `json:"permission,omitempty"`
	DeadlineMS int64           `json:"deadline_ms,omitempty"` // from receipt; 0 = none
}

func (p ToolCallParams) Check() error {
	if err := required("session_id", p.SessionID, "tool_call_id", p.ToolCallID, "tool", p.Tool); err != nil {
		return err
	}
	if p.Permission != nil {
		if err := oneOf("permission.mode", p.Permission.Mode, PermissionAlwaysAllow, PermissionAlwaysAsk); err != nil {
			return err
		}
	}
	return notNegative("deadline_ms", p.DeadlineMS)
}

func (p ToolCallParams) InSession() string { return p.SessionID }

type ToolCancelParams struct {
	SessionID  string `json:"session_id"`
	ToolCallID string `json:"tool_call_id"`
	Reason     string `json:"reason,omitempty"`
}

func (p ToolCancelParams) Check() error {
	return required("session_id", p.SessionID, "tool_call_id", p.ToolCallID)
}

func (p ToolCancelParams) InSession() string { return p.SessionID }

// ToolCancelResult: Canceled is false when the call had already ended.
type ToolCancelResult struct {
	Canceled bool `json:"canceled"`
}

// Values of ToolProgressParams.Stream.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

type ToolProgressParams struct {
	SessionID  string `json:"session_id"`
	ToolCallID string `json:"tool_call_id"`
	Message    string `json:"message,omitempty"`
	Stream     string `json:"stream,omitempty"` // with Data; extension
	Data       []byte `json:"data,omitempty"`
}

func (p ToolProgressParams) Check() error {
	return required("session_id", p.SessionID, "tool_call_id", p.ToolCallID)
}

func (p *ToolProgressParams) Blob() *[]byte { return &p.Data }

// Values of ToolResultParams.Outcome.
const (
	OutcomeSucceeded = "succeeded"
	OutcomeFailed    = "failed"
	OutcomeCanceled  = "canceled"
)

// ToolError is what went wrong after the acceptance, with the code and reason an
// RPC error would have had.
type ToolError struct {
	Code      Code   `json:"code"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Kinds of content blocks.
const (
	ContentText     = "text"
	ContentImage    = "image"
	ContentResource = "resource"
	ContentArtifact = "artifact"
)

// Content is one block of a result or of an input. Text is valid UTF-8 without
// U+0000.
type Content struct {
	Type       string `json:"type"`
	Text       string `json:"text,omitempty"`
	Data       []byte `json:"data,omitempty"`
	MIMEType   string `json:"mime_type,omitempty"`
	URL        string `json:"url,omitempty"`
	ArtifactID string `json:"artifact_id,omitempty"`
	Name       string `json:"name,omitempty"`
	SizeBytes  int64  `json:"size_bytes,omitempty"`
}

type Artifact struct {
	ArtifactID string `json:"artifact_id"`
	Name       string `json:"name,omitempty"`
	MIMEType   string `json:"mime_type,omitempty"`
	SizeBytes  int64  `json:"size_bytes,omitempty"`
	SHA256     string `json:"sha256,omitempty"`
}

// Mutation is one path that a call changed. Op is create, modify, delete, move,
// mkdir or chmod. Of very many directories made one inside the other, the innermost
// stands for some.
type Mutation struct {
	Op     string `json:"op"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

type ToolResultParams struct {
	SessionID  string          `json:"session_id"`
	ToolCallID string          `json:"tool_call_id"`
	Outcome    string          `json:"outcome"`
	IsError    bool            `json:"is_error"`
	Content    []Content       `json:"content"`
	Artifacts  []Artifact      `json:"artifacts,omitempty"`
	DurationMS int64           `json:"duration_ms"`
	Error      *ToolError      `json:"error,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"` // an object; extension
	Mutations  []Mutation      `json:"mutations,omitempty"`
}

func (p ToolResultParams) Check() error {
	return required("session_id", p.SessionID, "tool_call_id", p.ToolCallID, "outcome", p.Outcome)
}

func (p ToolResultParams) InSession() string { return p.SessionID }

// ToolOutput is what a tool's handler returns. A handler that fails returns an
// error beside it; the output is kept then, so that the model sees what was
// there so far.
type ToolOutput struct {
	Content    []Content
	IsError    bool // it did what was asked, and the answer is an error (exit code 1)
	Structured any  // marshals to a JSON object; nil = none
	Artifacts  []Artifact
	Mutations  []Mutation
}

// Text makes an output of one text block.
func Text(s string) ToolOutput { return ToolOutput{Content: []Content{{Type: ContentText, Text: s}}} }

// Annotations are hints about a tool, as in MCP.
type Annotations struct {
	ReadOnly    bool `json:"read_only"`
	Destructive bool `json:"destructive"`
	Idempotent  bool `json:"idempotent"`
	OpenWorld   bool `json:"open_world"`
}

// ToolInfo is one advertised tool. The schemas are JSON Schema 2020-12.
type ToolInfo struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  Annotations     `json:"annotations"`
}
