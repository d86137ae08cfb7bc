package protocol

// The executor's own methods: registration, lease, drain (spec section 2).
var (
	ExecutorRegister = Method[RegisterParams, RegisterResult]{Spec: Spec{
		Name: "executor.register", From: Executor, Repeat: "the newest connection wins"}}
	ExecutorHeartbeat = Method[HeartbeatParams, HeartbeatResult]{Spec: Spec{
		Name: "executor.heartbeat", From: Executor, Repeat: "renews"}}
	ExecutorTokenRefresh = Method[TokenRefreshParams, TokenRefreshResult]{Spec: Spec{
		Name: "executor.token_refresh", From: Executor, Repeat: "token"}}
	ExecutorCapabilitiesUpdate = Notification[CapabilitiesUpdateParams]{Spec: Spec{
		Name: "executor.capabilities_update", From: Executor, Notify: true, Repeat: "full replacement", Stream: true}}
	ExecutorDrain = Method[DrainParams, DrainResult]{Spec: Spec{
		Name: "executor.drain", From: Brain, Repeat: "a drain goes on"}}
	ExecutorClose = Notification[CloseParams]{Spec: Spec{
		Name: "executor.close", From: EitherEnd, Notify: true, Repeat: "closing twice is closing"}}
)

// ExecutorInfo says what program and machine this is.
type ExecutorInfo struct {
	Name    string `json:"name"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Version string `json:"version"`
}

// Resume is sent by an executor that was connected before.
type Resume struct {
	ExecutorID       string   `json:"executor_id"`
	LastConnectionID string   `json:"last_connection_id,omitempty"`
	ActiveSessions   []string `json:"active_sessions"`
}

type RegisterParams struct {
	Protocol      string       `json:"protocol"`
	EnvironmentID string       `json:"environment_id,omitempty"`
	Executor      ExecutorInfo `json:"executor"`
	Capabilities  Capabilities `json:"capabilities"`
	Resume        *Resume      `json:"resume,omitempty"`
}

func (p RegisterParams) Check() error { return required("protocol", p.Protocol) }

type RegisterResult struct {
	ConnectionID         string `json:"connection_id"`
	ExecutorID           string `json:"executor_id"`
	Protocol             string `json:"protocol"`
	HeartbeatIntervalMS  int64  `json:"heartbeat_interval_ms"`
	LeaseTTLMS           int64  `json:"lease_ttl_ms"`
	ServerTime           Time   `json:"server_time,omitzero"`
	Drain                bool   `json:"drain"`
	Limits               Limits `json:"limits"`
	MaxControlFrameBytes int    `json:"max_control_frame_bytes"`
	MaxMCPFrameBytes     int    `json:"max_mcp_frame_bytes"`
	// Sessions lists what the brain still holds for this executor. nil: the brain
	// does not say, and reconciles with session.stop.
	Sessions     *[]string `json:"sessions,omitempty"`
	BinaryFrames bool      `json:"binary_frames,omitempty"`
	MessageParts bool      `json:"message_parts,omitempty"`
	// ChannelResume says that the brain goes on with a channel where its last connection
	// ended.
	ChannelResume bool `json:"channel_resume,omitempty"`
}

// Load is what the machine, or the cgroup the executor runs in, is busy with.
type Load struct {
	CPUPercent    float64 `json:"cpu_percent"`
	MemoryPercent float64 `json:"memory_percent"`
}

type HeartbeatParams struct {
	ConnectionID   string   `json:"connection_id"`
	ActiveSessions []string `json:"active_sessions"`
	Load           *Load    `json:"load,omitempty"`
}

func (p HeartbeatParams) Check() error { return required("connection_id", p.ConnectionID) }

type HeartbeatResult struct {
	LeaseTTLMS int64 `json:"lease_ttl_ms"`
	ServerTime Time  `json:"server_time,omitzero"`
	Drain      bool  `json:"drain"`
}

type TokenRefreshParams struct {
	Token string `json:"token"`
}

func (p TokenRefreshParams) Check() error { return required("token", p.Token) }

type TokenRefreshResult struct {
	ExpiresAt Time `json:"expires_at,omitzero"`
}

type CapabilitiesUpdateParams struct {
	Capabilities Capabilities `json:"capabilities"`
}

// Check refuses an update that would silently take everything away; an empty
// object says that on purpose.
func (p CapabilitiesUpdateParams) Check() error {
	if p.Capabilities == nil {
		return Errorf(CodeInvalidParams, "capabilities: required, but missing")
	}
	return nil
}

type DrainParams struct {
	Reason     string `json:"reason,omitempty"`
	DeadlineMS int64  `json:"deadline_ms,omitempty"` // from receipt; 0 = the executor's own
}

func (p DrainParams) Check() error { return notNegative("deadline_ms", p.DeadlineMS) }

type DrainResult struct {
	Accepted       bool     `json:"accepted"`
	ActiveSessions []string `json:"active_sessions"`
}

type CloseParams struct {
	Reason string `json:"reason,omitempty"`
}

// TokenExchangeRequest is the body of the POST that turns an environment key
// into a short-lived token (spec section 1.4).
type TokenExchangeRequest struct {
	EnvironmentID string       `json:"environment_id"`
	Executor      ExecutorInfo `json:"executor"`
}

type TokenExchangeResponse struct {
	Token        string   `json:"token"`
	WSURL        string   `json:"ws_url"`
	ExecutorID   string   `json:"executor_id,omitempty"`
	ExpiresIn    int64    `json:"expires_in"` // seconds
	ChannelScope []string `json:"channel_scope,omitempty"`
}
