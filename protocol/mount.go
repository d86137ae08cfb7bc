package protocol

// Mounts of remote views into a session's workspace.
var (
	FSMount = Method[FSMountParams, FSMountResult]{
		Spec: Spec{Name: "fs.mount", From: Brain, Capability: "fs", Repeat: "session_id"},
		Lane: func(p FSMountParams) string { return "fs/" + p.SessionID }}
	FSUnmount = Method[FSUnmountParams, FSUnmountResult]{
		Spec: Spec{Name: "fs.unmount", From: Brain, Capability: "fs", Repeat: "session_id"},
		Lane: func(p FSUnmountParams) string { return "fs/" + p.SessionID }}
)

type Mount struct {
	View     string            `json:"view"`
	Path     string            `json:"path"`
	Token    string            `json:"token,omitempty"`
	ReadOnly bool              `json:"readonly,omitempty"`
	Options  map[string]string `json:"options,omitempty"`
}

type FSMountParams struct {
	SessionID  string  `json:"session_id"`
	ServiceURL string  `json:"service_url"`
	Mounts     []Mount `json:"mounts"`
}

func (p FSMountParams) InSession() string { return p.SessionID }

func (p FSMountParams) Check() error {
	return required("session_id", p.SessionID, "service_url", p.ServiceURL)
}

// Values of the State of FSMountResult and FSUnmountResult.
const (
	MountMounted   = "mounted"
	MountUnmounted = "unmounted"
	MountFailed    = "failed"
)

type FSMountResult struct {
	State     string `json:"state"`
	ErrorCode string `json:"error_code,omitempty"`
	Error     string `json:"error,omitempty"`
}

type FSUnmountParams struct {
	SessionID string `json:"session_id"`
	Flush     bool   `json:"flush,omitempty"`
}

func (p FSUnmountParams) InSession() string { return p.SessionID }

func (p FSUnmountParams) Check() error { return required("session_id", p.SessionID) }

type FSUnmountResult struct {
	State        string `json:"state"`
	PendingBytes int64  `json:"pending_bytes"`
	ErrorCode    string `json:"error_code,omitempty"`
	Error        string `json:"error,omitempty"`
}
