package control

import (
	"time"

	"github.com/agent-executor/executor/executor"
)

// Status is the answer to GET /status.
type Status struct {
	PID      int           `json:"pid"`
	Version  string        `json:"version"`
	Started  time.Time     `json:"started"`
	StateDir string        `json:"state_dir"`
	Config   string        `json:"config,omitempty"`
	Systemd  bool          `json:"systemd,omitempty"`  // it runs as a service, which is best stopped as one
	Stopping bool          `json:"stopping,omitempty"` // it was told to stop now
	Ready    bool          `json:"ready"`              // registered with each brain that was not given up, and taking work
	Brains   []BrainStatus `json:"brains"`

	ApprovalsWaiting int    `json:"approvals_waiting"`          // for the local user
	AuditLost        int64  `json:"audit_lines_lost,omitempty"` // since the program has started
	AuditProblem     string `json:"audit_problem,omitempty"`    // why lines are lost just now
}

// BrainStatus is one brain in Status.
type BrainStatus struct {
	Name string `json:"name"`
	executor.Status
}

// Leaving is a line of the answer to POST /drain and POST /stop. The last one says that
// everything has ended; without it the program was killed.
type Leaving struct {
	Status   *Status `json:"status,omitempty"`
	Left     bool    `json:"left,omitempty"`
	Systemd  bool    `json:"systemd,omitempty"`
	ExitCode int     `json:"exit_code"`
	Error    string  `json:"error,omitempty"`
}

// DrainRequest is the body of POST /drain.
type DrainRequest struct {
	DeadlineMS int64 `json:"deadline_ms,omitempty"` // 0: the drain timeout
}
