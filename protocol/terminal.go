package protocol

// Terminals: PTYs that outlive their viewers and belong to the machine (spec
// section 9).
var (
	TerminalOpen = Method[TerminalOpenParams, TerminalOpenResult]{
		Spec: Spec{Name: "terminal.open", From: Brain, Capability: "terminal", Repeat: "terminal_id"},
		Lane: func(p TerminalOpenParams) string { return "terminal/" + p.TerminalID }}
	TerminalAttach = Method[TerminalAttachParams, TerminalAttachResult]{
		Spec: Spec{Name: "terminal.attach", From: Brain, Capability: "terminal", Repeat: "stream_id"},
		Lane: func(p TerminalAttachParams) string { return "terminal/" + p.TerminalID }}
	TerminalClose = Method[TerminalCloseParams, TerminalCloseResult]{
		Spec: Spec{Name: "terminal.close", From: Brain, Capability: "terminal", Repeat: "terminal_id"},
		Lane: func(p TerminalCloseParams) string { return "terminal/" + p.TerminalID }}
)

// Values of TerminalOpenParams.Kind.
const (
	TerminalShell   = "shell"
	TerminalCommand = "command"
)

type TerminalOpenParams struct {
	TerminalID string            `json:"terminal_id"`
	Kind       string            `json:"kind,omitempty"`
	Shell      string            `json:"shell,omitempty"`
	Argv       []string          `json:"argv,omitempty"`
	Cwd        string            `json:"cwd,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Cols       int               `json:"cols"`
	Rows       int               `json:"rows"`
}

func (p TerminalOpenParams) Check() error {
	if err := required("terminal_id", p.TerminalID); err != nil {
		return err
	}
	if err := oneOf("kind", p.Kind, TerminalShell, TerminalCommand); err != nil {
		return err
	}
	return checkWindow(p.Cols, p.Rows)
}

type TerminalOpenResult struct {
	TerminalID  string `json:"terminal_id"`
	PID         int    `json:"pid"`
	Cols        int    `json:"cols"`
	Rows        int    `json:"rows"`
	Epoch       int64  `json:"epoch"`
	EarliestSeq int64  `json:"earliest_seq"`
	LatestSeq   int64  `json:"latest_seq"`
	CreatedAt   Time   `json:"created_at,omitzero"`
}

// TerminalHost is where a viewer waits. URL is dialled as it is.
type TerminalHost struct {
	URL    string `json:"url"`
	Ticket string `json:"ticket"`
}

type TerminalAttachParams struct {
	TerminalID string        `json:"terminal_id"`
	StreamID   string        `json:"stream_id"`
	Host       *TerminalHost `json:"host,omitempty"`
	Epoch      int64         `json:"epoch"`
	FromSeq    int64         `json:"from_seq"`
	AckSeq     int64         `json:"ack_seq"`
	CanWrite   bool          `json:"can_write"`
}

func (p TerminalAttachParams) Check() error {
	return required("terminal_id", p.TerminalID, "stream_id", p.StreamID)
}

type TerminalAttachResult struct {
	Accepted    bool  `json:"accepted"`
	WriterEpoch int64 `json:"writer_epoch"`
}

type TerminalCloseParams struct {
	TerminalID string `json:"terminal_id"`
	Reason     string `json:"reason,omitempty"`
}

func (p TerminalCloseParams) Check() error { return required("terminal_id", p.TerminalID) }

type TerminalCloseResult struct {
	Closed   bool `json:"closed"`
	ExitCode *int `json:"exit_code,omitempty"`
}

// Kinds of text messages on a terminal's channel.
const (
	TerminalInput  = "input"
	TerminalAck    = "ack"
	TerminalResize = "resize"
	TerminalExit   = "exit"
	TerminalError  = "error"
)

// TerminalMessage is a text message on a terminal's channel; Type says which
// members count.
type TerminalMessage struct {
	Type       string `json:"type"`
	Data       []byte `json:"data,omitempty"`
	Seq        int64  `json:"seq,omitempty"`
	Cols       int    `json:"cols,omitempty"`
	Rows       int    `json:"rows,omitempty"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	ExitSignal string `json:"exit_signal,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
}
