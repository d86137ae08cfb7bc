package protocol

import "encoding/json"

// Agents on the executor: turns, events, interactions (spec section 10).
var (
	SessionClose = Method[SessionCloseParams, SessionCloseResult]{Spec: Spec{
		Name: "session.close", From: Brain, Capability: "agent", Repeat: "session_id"}}
	SessionEvent = Method[SessionEventParams, SessionEventResult]{Spec: Spec{
		Name: "session.event", From: Executor, Capability: "agent", Repeat: "event_id"}}
	SessionEventDelta = Notification[SessionEventDeltaParams]{Spec: Spec{
		Name: "session.event_delta", From: Executor, Notify: true, Capability: "agent", Repeat: "best effort", Stream: true}}
	TurnStart = Method[TurnStartParams, TurnStartResult]{
		Spec: Spec{Name: "turn.start", From: Brain, Capability: "agent", Repeat: "turn_id"},
		Lane: func(p TurnStartParams) string { return turnLane(p.SessionID) }}
	TurnInput = Method[TurnInputParams, AcceptedResult]{
		Spec: Spec{Name: "turn.input", From: Brain, Capability: "agent", Repeat: "input_id"},
		Lane: func(p TurnInputParams) string { return turnLane(p.SessionID) }}
	TurnCancel = Method[TurnCancelParams, TurnCancelResult]{
		Spec: Spec{Name: "turn.cancel", From: Brain, Capability: "agent", Repeat: "turn_id"},
		Lane: func(p TurnCancelParams) string { return turnLane(p.SessionID) }}
	InteractionRequest = Method[InteractionRequestParams, InteractionRequestResult]{Spec: Spec{
		Name: "interaction.request", From: Executor, Capability: "agent", Repeat: "interaction_id"}}
	InteractionResponse = Method[InteractionResponseParams, AcceptedResult]{Spec: Spec{
		Name: "interaction.response", From: Brain, Capability: "agent", Repeat: "interaction_id"}}
	InteractionCancel = Method[InteractionCancelParams, AcceptedResult]{Spec: Spec{
		Name: "interaction.cancel", From: Executor, Capability: "agent", Repeat: "interaction_id"}}
)

func turnLane(session string) string { return "turn/" + session }

type SessionCloseParams struct {
	SessionID string `json:"session_id"`
	Reason    string `json:"reason,omitempty"`
}

func (p SessionCloseParams) InSession() string { return p.SessionID }

func (p SessionCloseParams) Check() error { return required("session_id", p.SessionID) }

type SessionCloseResult struct {
	Closed bool `json:"closed"`
}

// Values of the `type` member of an event.
const (
	EventAgentMessage       = "agent.message"
	EventAgentThinking      = "agent.thinking"
	EventAgentToolUse       = "agent.tool_use"
	EventAgentToolResult    = "agent.tool_result"
	EventAgentMCPToolUse    = "agent.mcp_tool_use"
	EventAgentMCPToolResult = "agent.mcp_tool_result"
	EventSessionRunning     = "session.status_running"
	EventSessionIdle        = "session.status_idle"
	EventSessionError       = "session.error"
)

// SessionEventParams: Sequence rises by one per session, from 1.
type SessionEventParams struct {
	SessionID string          `json:"session_id"`
	TurnID    string          `json:"turn_id,omitempty"`
	EventID   string          `json:"event_id"`
	Sequence  int64           `json:"sequence"`
	Event     json.RawMessage `json:"event"`
}

func (p SessionEventParams) Check() error {
	return required("session_id", p.SessionID, "event_id", p.EventID)
}

type SessionEventResult struct {
	Accepted      bool   `json:"accepted"`
	EventID       string `json:"event_id"`
	AckedSequence int64  `json:"acked_sequence"` // the highest contiguous one
}

type SessionEventDeltaParams struct {
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	Index     int    `json:"index"`
	Text      string `json:"text"`
}

func (p SessionEventDeltaParams) Check() error {
	return required("session_id", p.SessionID, "event_id", p.EventID)
}

type TurnConfig struct {
	Cwd            string `json:"cwd,omitempty"`
	Model          string `json:"model,omitempty"`
	PermissionMode string `json:"permission_mode,omitempty"`
	System         string `json:"system,omitempty"`
	ThinkingLevel  string `json:"thinking_level,omitempty"`
}

type TurnStartParams struct {
	SessionID          string            `json:"session_id"`
	TurnID             string            `json:"turn_id"`
	InputID            string            `json:"input_id"`
	Input              []Content         `json:"input"`
	Config             *TurnConfig       `json:"config,omitempty"`
	ExecutorSessionRef string            `json:"executor_session_ref,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	DeadlineMS         int64             `json:"deadline_ms,omitempty"`
}

func (p TurnStartParams) InSession() string { return p.SessionID }

func (p TurnStartParams) Check() error {
	return required("session_id", p.SessionID, "turn_id", p.TurnID)
}

type TurnStartResult struct {
	Accepted           bool       `json:"accepted"`
	TurnID             string     `json:"turn_id"`
	ExecutorSessionRef string     `json:"executor_session_ref,omitempty"`
	Effective          TurnConfig `json:"effective"`
	Resumed            bool       `json:"resumed"`
}

type TurnInputParams struct {
	SessionID string    `json:"session_id"`
	TurnID    string    `json:"turn_id"`
	InputID   string    `json:"input_id"`
	Input     []Content `json:"input"`
}

func (p TurnInputParams) InSession() string { return p.SessionID }

func (p TurnInputParams) Check() error {
	return required("session_id", p.SessionID, "turn_id", p.TurnID, "input_id", p.InputID)
}

type TurnCancelParams struct {
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
	Reason    string `json:"reason,omitempty"`
}

func (p TurnCancelParams) InSession() string { return p.SessionID }

func (p TurnCancelParams) Check() error {
	return required("session_id", p.SessionID, "turn_id", p.TurnID)
}

type TurnCancelResult struct {
	Canceled bool `json:"canceled"`
}

// Values of the members of interactions.
const (
	InteractionPermission = "permission"
	InteractionQuestion   = "question"
	InteractionAllow      = "allow"
	InteractionDeny       = "deny"
	InteractionAnswered   = "answered"
	InteractionCanceled   = "canceled"
	InteractionExpired    = "expired"
	ScopeOnce             = "once"
	ScopeSession          = "session"
)

type QuestionOption struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

type Question struct {
	Prompt        string           `json:"prompt"`
	Options       []QuestionOption `json:"options,omitempty"`
	MultiSelect   bool             `json:"multi_select,omitempty"`
	AllowFreeText bool             `json:"allow_free_text,omitempty"`
}

type InteractionRequestParams struct {
	SessionID     string          `json:"session_id"`
	TurnID        string          `json:"turn_id,omitempty"`
	InteractionID string          `json:"interaction_id"`
	Kind          string          `json:"kind"`
	ToolName      string          `json:"tool_name,omitempty"`
	ToolInput     json.RawMessage `json:"tool_input,omitempty"`
	ToolUseID     string          `json:"tool_use_id,omitempty"`
	Question      *Question       `json:"question,omitempty"`
	Scopes        []string        `json:"scopes,omitempty"`
	ExpiresAt     Time            `json:"expires_at,omitzero"`
}

func (p InteractionRequestParams) Check() error {
	return required("session_id", p.SessionID, "interaction_id", p.InteractionID, "kind", p.Kind)
}

type InteractionRequestResult struct {
	Accepted              bool   `json:"accepted"`
	PlatformInteractionID string `json:"platform_interaction_id,omitempty"`
}

type Answer struct {
	OptionIDs []string `json:"option_ids,omitempty"`
	Text      string   `json:"text,omitempty"`
}

type Responder struct {
	ActorID string `json:"actor_id"`
	Surface string `json:"surface,omitempty"`
}

type InteractionResponseParams struct {
	SessionID     string     `json:"session_id"`
	InteractionID string     `json:"interaction_id"`
	Outcome       string     `json:"outcome"`
	Scope         string     `json:"scope,omitempty"`
	Answers       []Answer   `json:"answers,omitempty"`
	DenyMessage   string     `json:"deny_message,omitempty"`
	Responder     *Responder `json:"responder,omitempty"`
}

func (p InteractionResponseParams) InSession() string { return p.SessionID }

func (p InteractionResponseParams) Check() error {
	return required("session_id", p.SessionID, "interaction_id", p.InteractionID, "outcome", p.Outcome)
}

// InteractionCancelParams: Reason is expired, resolved_locally, tool_canceled or
// turn_canceled.
type InteractionCancelParams struct {
	SessionID     string `json:"session_id"`
	InteractionID string `json:"interaction_id"`
	Reason        string `json:"reason"`
}

func (p InteractionCancelParams) Check() error {
	return required("session_id", p.SessionID, "interaction_id", p.InteractionID)
}
