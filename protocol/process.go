package protocol

// Processes (spec section 7).
var (
	ProcessStart = Method[ProcessStartParams, ProcessState]{
		Spec: Spec{Name: "process.start", From: Brain, Capability: "process", Repeat: "process_id"}}
	ProcessRead = Method[ProcessReadParams, ProcessReadResult]{
		Spec: Spec{Name: "process.read", From: Brain, Capability: "process", Repeat: "read"}}
	ProcessWrite = Method[ProcessWriteParams, ProcessWriteResult]{
		Spec: Spec{Name: "process.write", From: Brain, Capability: "process", Repeat: "offset", Stream: true},
		Lane: func(p ProcessWriteParams) string { return "process/" + p.SessionID + "/" + p.ProcessID }}
	ProcessInterrupt = Method[ProcessSignalParams, ProcessState]{
		Spec: Spec{Name: "process.interrupt", From: Brain, Capability: "process", Repeat: "process_id"}}
	ProcessTerminate = Method[ProcessSignalParams, ProcessState]{
		Spec: Spec{Name: "process.terminate", From: Brain, Capability: "process", Repeat: "process_id"}}
	ProcessList = Method[ProcessListParams, ProcessListResult]{
		Spec: Spec{Name: "process.list", From: Brain, Capability: "process", Repeat: "read"}}
	ProcessStatus = Notification[ProcessStatusParams]{
		Spec: Spec{Name: "process.status", From: Executor, Notify: true, Capability: "process", Repeat: "the newest holds"}}
	ProcessResize = Method[ProcessResizeParams, AcceptedResult]{
		Spec: Spec{Name: "process.resize", From: Brain, Capability: "process.pty", Repeat: "the newest holds", Extension: true},
		Lane: func(p ProcessResizeParams) string { return "resize/" + p.SessionID + "/" + p.ProcessID }}
	ProcessSubscribe = Method[ProcessSubscribeParams, AcceptedResult]{
		Spec: Spec{Name: "process.subscribe", From: Brain, Capability: "process.push", Repeat: "the newest holds", Extension: true},
		Lane: func(p ProcessSubscribeParams) string {
			return "subscribe/" + p.SessionID + "/" + p.ProcessID + "/" + p.Stream
		}}
	ProcessOutput = Notification[ProcessOutputParams]{
		Spec: Spec{Name: "process.output", From: Executor, Notify: true, Capability: "process.push", Repeat: "cursor", Extension: true, Stream: true}}
	ProcessAck = Notification[ProcessAckParams]{
		Spec: Spec{Name: "process.ack", From: Brain, Notify: true, Capability: "process.push", Repeat: "cursor", Extension: true}}
)

// Values of ProcessState.State.
const (
	ProcessRunning = "running"
	ProcessExited  = "exited"
	ProcessFailed  = "failed"
	ProcessKilled  = "killed"
)

// PackageInstall asks for packages by name through a package manager of the
// machine.
type PackageInstall struct {
	Manager  string   `json:"manager"`
	Packages []string `json:"packages"`
}

// FileTransfer moves one file between the workspace and a URL. Direction is
// upload or download, as seen from the executor.
type FileTransfer struct {
	Direction string `json:"direction"`
	Path      string `json:"path"`
	URL       string `json:"url"`
	Token     string `json:"token,omitempty"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
}

type GitCredential struct {
	Host     string `json:"host"`
	Username string `json:"username,omitempty"`
	Token    string `json:"token"`
}

// Values of the mode members of ProcessStartParams; the zero value is the first.
const (
	IOModePipes    = "pipes"
	IOModePTY      = "pty"
	StdinClosed    = "closed"
	StdinOpen      = "open"
	StderrSeparate = "separate"
	StderrMerge    = "merge"
	OnFullDrop     = "drop"
	OnFullBlock    = "block"
)

// ProcessStartParams: exactly one of Argv, PackageInstall and FileTransfer.
type ProcessStartParams struct {
	SessionID      string            `json:"session_id"`
	ProcessID      string            `json:"process_id"`
	Argv           []string          `json:"argv,omitempty"`
	Cwd            string            `json:"cwd,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	IOMode         string            `json:"io_mode,omitempty"`
	Stdin          string            `json:"stdin,omitempty"`
	Stderr         string            `json:"stderr,omitempty"`
	TimeoutMS      int64             `json:"timeout_ms,omitempty"`
	WaitMS         int64             `json:"wait_ms,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	PackageInstall *PackageInstall   `json:"package_install,omitempty"`
	FileTransfer   *FileTransfer     `json:"file_transfer,omitempty"`
	GitCredentials []GitCredential   `json:"git_credentials,omitempty"`
	Cols           int               `json:"cols,omitempty"`
	Rows           int               `json:"rows,omitempty"`
	OnFull         string            `json:"on_full,omitempty"`
}

func (p ProcessStartParams) InSession() string { return p.SessionID }

func (p ProcessStartParams) Check() error {
	if err := required("session_id", p.SessionID, "process_id", p.ProcessID); err != nil {
		return err
	}
	n := 0
	if len(p.Argv) > 0 {
		n++
	}
	if p.PackageInstall != nil {
		n++
	}
	if p.FileTransfer != nil {
		n++
	}
	if n != 1 {
		return Errorf(CodeInvalidParams, "argv: exactly one of argv, package_install and file_transfer is needed, got %d", n)
	}
	if p.Cols != 0 || p.Rows != 0 {
		if err := checkWindow(p.Cols, p.Rows); err != nil {
			return err
		}
	}
	return firstOf(
		oneOf("io_mode", p.IOMode, IOModePipes, IOModePTY),
		oneOf("stdin", p.Stdin, StdinClosed, StdinOpen),
		oneOf("stderr", p.Stderr, StderrSeparate, StderrMerge),
		oneOf("on_full", p.OnFull, OnFullDrop, OnFullBlock),
		notNegative("timeout_ms", p.TimeoutMS),
		notNegative("wait_ms", p.WaitMS))
}

type ProcessCursors struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

type FileTransferState struct {
	BytesDone int64  `json:"bytes_done"`
	SHA256    string `json:"sha256,omitempty"`
}

type ProcessState struct {
	ProcessID    string             `json:"process_id"`
	Accepted     bool               `json:"accepted"`
	State        string             `json:"state"`
	PID          int                `json:"pid,omitempty"`
	StartedAt    Time               `json:"started_at,omitzero"`
	EndedAt      Time               `json:"ended_at,omitzero"`
	ExitCode     *int               `json:"exit_code,omitempty"`
	ExitSignal   string             `json:"exit_signal,omitempty"`
	Reason       string             `json:"reason,omitempty"`
	Stderr       string             `json:"stderr,omitempty"` // separate or merge
	Cursors      ProcessCursors     `json:"cursors"`
	FileTransfer *FileTransferState `json:"file_transfer,omitempty"`
}

type ProcessReadParams struct {
	SessionID string `json:"session_id"`
	ProcessID string `json:"process_id"`
	Stream    string `json:"stream,omitempty"` // stdout (default) or stderr
	Cursor    int64  `json:"cursor"`           // byte offset since the start of the stream
	MaxBytes  int    `json:"max_bytes,omitempty"`
	WaitMS    int64  `json:"wait_ms,omitempty"`
}

func (p ProcessReadParams) InSession() string { return p.SessionID }

func (p ProcessReadParams) Check() error {
	return firstOf(
		required("session_id", p.SessionID, "process_id", p.ProcessID),
		oneOf("stream", p.Stream, StreamStdout, StreamStderr),
		notNegative("cursor", p.Cursor),
		notNegative("max_bytes", int64(p.MaxBytes)),
		notNegative("wait_ms", p.WaitMS))
}

type ProcessReadResult struct {
	ProcessID      string             `json:"process_id"`
	Stream         string             `json:"stream"`
	Data           []byte             `json:"data,omitempty"`
	FromCursor     int64              `json:"from_cursor"`
	NextCursor     int64              `json:"next_cursor"`
	EarliestCursor int64              `json:"earliest_cursor"`
	Gap            bool               `json:"gap"`
	EOF            bool               `json:"eof"`
	Truncated      bool               `json:"truncated"`
	State          string             `json:"state"`
	ExitCode       *int               `json:"exit_code,omitempty"`
	ExitSignal     string             `json:"exit_signal,omitempty"`
	Reason         string             `json:"reason,omitempty"`
	EndedAt        Time               `json:"ended_at,omitzero"`
	FileTransfer   *FileTransferState `json:"file_transfer,omitempty"`
}

func (r *ProcessReadResult) Blob() *[]byte { return &r.Data }

type ProcessWriteParams struct {
	SessionID  string `json:"session_id"`
	ProcessID  string `json:"process_id"`
	Data       []byte `json:"data,omitempty"`
	CloseStdin bool   `json:"close_stdin,omitempty"`
	Offset     *int64 `json:"offset,omitempty"` // extension
}

func (p ProcessWriteParams) InSession() string { return p.SessionID }

func (p ProcessWriteParams) Check() error {
	if err := required("session_id", p.SessionID, "process_id", p.ProcessID); err != nil {
		return err
	}
	if p.Offset != nil {
		return notNegative("offset", *p.Offset)
	}
	return nil
}

func (p *ProcessWriteParams) Blob() *[]byte { return &p.Data }

type ProcessWriteResult struct {
	Accepted bool   `json:"accepted"`
	Offset   *int64 `json:"offset,omitempty"`
}

// ProcessSignalParams are those of process.interrupt and process.terminate.
type ProcessSignalParams struct {
	SessionID string `json:"session_id"`
	ProcessID string `json:"process_id"`
	GraceMS   *int64 `json:"grace_ms,omitempty"`
}

func (p ProcessSignalParams) InSession() string { return p.SessionID }

func (p ProcessSignalParams) Check() error {
	if err := required("session_id", p.SessionID, "process_id", p.ProcessID); err != nil {
		return err
	}
	if p.GraceMS != nil {
		return notNegative("grace_ms", *p.GraceMS)
	}
	return nil
}

type ProcessListParams struct {
	SessionID string `json:"session_id"`
}

func (p ProcessListParams) InSession() string { return p.SessionID }

func (p ProcessListParams) Check() error { return required("session_id", p.SessionID) }

type ProcessListResult struct {
	Processes []ProcessState `json:"processes"`
}

type ProcessStatusParams struct {
	SessionID  string `json:"session_id"`
	ProcessID  string `json:"process_id"`
	State      string `json:"state"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	ExitSignal string `json:"exit_signal,omitempty"`
	Reason     string `json:"reason,omitempty"`
	EndedAt    Time   `json:"ended_at,omitzero"`
	ObservedAt Time   `json:"observed_at,omitzero"`
}

func (p ProcessStatusParams) Check() error {
	return required("session_id", p.SessionID, "process_id", p.ProcessID, "state", p.State)
}

type ProcessResizeParams struct {
	SessionID string `json:"session_id"`
	ProcessID string `json:"process_id"`
	Cols      int    `json:"cols"`
	Rows      int    `json:"rows"`
}

func (p ProcessResizeParams) InSession() string { return p.SessionID }

func (p ProcessResizeParams) Check() error {
	if err := required("session_id", p.SessionID, "process_id", p.ProcessID); err != nil {
		return err
	}
	return checkWindow(p.Cols, p.Rows)
}

// checkWindow refuses sizes a terminal cannot have.
func checkWindow(cols, rows int) error {
	if cols < 1 || cols > 65535 {
		return Errorf(CodeInvalidParams, "cols: must be between 1 and 65535, got %d", cols)
	}
	if rows < 1 || rows > 65535 {
		return Errorf(CodeInvalidParams, "rows: must be between 1 and 65535, got %d", rows)
	}
	return nil
}

type ProcessSubscribeParams struct {
	SessionID   string `json:"session_id"`
	ProcessID   string `json:"process_id"`
	Stream      string `json:"stream,omitempty"`
	Cursor      int64  `json:"cursor"`
	WindowBytes int    `json:"window_bytes"` // 0 = stop
}

func (p ProcessSubscribeParams) InSession() string { return p.SessionID }

func (p ProcessSubscribeParams) Check() error {
	return firstOf(
		required("session_id", p.SessionID, "process_id", p.ProcessID),
		oneOf("stream", p.Stream, StreamStdout, StreamStderr),
		notNegative("cursor", p.Cursor),
		notNegative("window_bytes", int64(p.WindowBytes)))
}

// ProcessOutputParams: Cursor is the offset of the first byte of Data.
type ProcessOutputParams struct {
	SessionID string `json:"session_id"`
	ProcessID string `json:"process_id"`
	Stream    string `json:"stream"`
	Cursor    int64  `json:"cursor"`
	Data      []byte `json:"data,omitempty"`
	Gap       bool   `json:"gap,omitempty"`
	EOF       bool   `json:"eof,omitempty"`
}

func (p ProcessOutputParams) Check() error {
	return firstOf(
		required("session_id", p.SessionID, "process_id", p.ProcessID, "stream", p.Stream),
		notNegative("cursor", p.Cursor))
}

func (p *ProcessOutputParams) Blob() *[]byte { return &p.Data }

type ProcessAckParams struct {
	SessionID string `json:"session_id"`
	ProcessID string `json:"process_id"`
	Stream    string `json:"stream,omitempty"`
	Cursor    int64  `json:"cursor"` // every byte before it has been taken
}

func (p ProcessAckParams) InSession() string { return p.SessionID }

func (p ProcessAckParams) Check() error {
	return firstOf(
		required("session_id", p.SessionID, "process_id", p.ProcessID),
		oneOf("stream", p.Stream, StreamStdout, StreamStderr),
		notNegative("cursor", p.Cursor))
}
