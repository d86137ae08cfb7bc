package protocol

import "encoding/json"

// Sessions: assign, ready, stop, ended (spec section 5). session.event, its
// deltas and session.close belong to agents and stand in agent.go.
var (
	SessionAssign = Method[SessionAssignParams, SessionAssignResult]{
		Spec: Spec{Name: "session.assign", From: Brain, Repeat: "work_id + fencing_token"},
		Lane: func(p SessionAssignParams) string { return sessionLane(p.SessionID) }}
	SessionReady = Method[SessionReadyParams, AcceptedResult]{
		Spec: Spec{Name: "session.ready", From: Executor, Repeat: "session_id"},
		Lane: func(p SessionReadyParams) string { return sessionLane(p.SessionID) }}
	SessionStatus = Notification[SessionStatusParams]{Spec: Spec{
		Name: "session.status", From: Executor, Notify: true, Repeat: "the newest holds"}}
	// In the lane of session.assign: a stop never overtakes the assign it is for.
	SessionStop = Method[SessionStopParams, SessionStopResult]{
		Spec: Spec{Name: "session.stop", From: Brain, Repeat: "session_id"},
		Lane: func(p SessionStopParams) string { return sessionLane(p.SessionID) }}
	// In the lane of session.ready: the end of an assignment never overtakes the start of
	// the next one of the same session.
	SessionEnded = Method[SessionEndedParams, AcceptedResult]{
		Spec: Spec{Name: "session.ended", From: Executor, Repeat: "session_id"},
		Lane: func(p SessionEndedParams) string { return sessionLane(p.SessionID) }}
	SessionWake = Method[SessionWakeParams, AcceptedResult]{Spec: Spec{
		Name: "session.wake", From: Executor, Capability: "scripts", Repeat: "wake_id", Extension: true}}
)

func sessionLane(id string) string { return "session/" + id }

// InSession is implemented by the params of every method that belongs to a
// session.
type InSession interface{ InSession() string }

// AcceptedResult is the answer to everything that is only acknowledged.
type AcceptedResult struct {
	Accepted bool `json:"accepted"`
}

// Lease of a session. Of two assignments of one session the higher
// FencingToken wins.
type Lease struct {
	Token        string `json:"token"`
	FencingToken int64  `json:"fencing_token"`
}

type Resource struct {
	Type string          `json:"type"`
	Name string          `json:"name,omitempty"`
	URL  string          `json:"url,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

type SessionAssignParams struct {
	SessionID     string            `json:"session_id"`
	WorkID        string            `json:"work_id"`
	AgentID       string            `json:"agent_id,omitempty"`
	EnvironmentID string            `json:"environment_id,omitempty"`
	Lease         Lease             `json:"lease"`
	MCPServers    []MCPServer       `json:"mcp_servers,omitempty"`
	Resources     []Resource        `json:"resources,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	DeadlineMS    int64             `json:"deadline_ms,omitempty"` // for the preparation, from receipt; 0 = none
}

func (p SessionAssignParams) Check() error {
	if err := required("session_id", p.SessionID, "work_id", p.WorkID); err != nil {
		return err
	}
	return notNegative("deadline_ms", p.DeadlineMS)
}

type SessionAssignResult struct {
	Accepted  bool   `json:"accepted"`
	SessionID string `json:"session_id"`
}

type SessionReadyParams struct {
	SessionID  string              `json:"session_id"`
	WorkID     string              `json:"work_id"`
	LeaseToken string              `json:"lease_token"`
	MCP        map[string]MCPState `json:"mcp,omitempty"` // by server_key; extension
}

func (p SessionReadyParams) Check() error { return required("session_id", p.SessionID) }

// Values of SessionStatusParams.Status.
const (
	StatusStarting = "starting"
	StatusRunning  = "running"
	StatusIdle     = "idle"
	StatusStopping = "stopping"
	StatusError    = "error"
)

type SessionStatusParams struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Detail    string `json:"detail,omitempty"`
}

func (p SessionStatusParams) Check() error {
	return required("session_id", p.SessionID, "status", p.Status)
}

type SessionStopParams struct {
	SessionID  string `json:"session_id"`
	Reason     string `json:"reason,omitempty"`
	DeadlineMS int64  `json:"deadline_ms,omitempty"` // from receipt; 0 = the executor's grace
}

func (p SessionStopParams) Check() error {
	if err := required("session_id", p.SessionID); err != nil {
		return err
	}
	return notNegative("deadline_ms", p.DeadlineMS)
}

type SessionStopResult struct {
	Stopped bool `json:"stopped"`
}

type SessionEndedParams struct {
	SessionID string `json:"session_id"`
	Reason    string `json:"reason"`
}

func (p SessionEndedParams) Check() error { return required("session_id", p.SessionID) }

type SessionWakeParams struct {
	SessionID string          `json:"session_id"`
	WakeID    string          `json:"wake_id"`
	Source    string          `json:"source"`
	ScriptID  string          `json:"script_id,omitempty"`
	Line      int             `json:"line,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	ElapsedMS int64           `json:"elapsed_ms"`
	LogPath   string          `json:"log_path,omitempty"`
}

func (p SessionWakeParams) Check() error {
	return required("session_id", p.SessionID, "wake_id", p.WakeID)
}
