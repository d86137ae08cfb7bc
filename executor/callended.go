package executor

import (
	"time"

	"github.com/agent-executor/executor/protocol"
)

// CallEnded is a call that has ended, for Options.OnCall. Tool is the name of a tool that
// is registered, Outcome one of the protocol's three.
type CallEnded struct {
	Tool     string
	Outcome  string
	Duration time.Duration
	Bytes    int // of the result's content
}

func (c *call) tellEnded(r protocol.ToolResultParams) {
	tell := c.s.e.opts.OnCall
	if tell == nil {
		return
	}
	bytes := len(r.Structured)
	for _, part := range r.Content {
		bytes += len(part.Text) + len(part.Data)
	}
	tell(CallEnded{Tool: c.params.Tool, Outcome: r.Outcome, Duration: time.Since(c.started), Bytes: bytes})
}
