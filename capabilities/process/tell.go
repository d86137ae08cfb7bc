package process

import (
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// tell has the brain know that a process has ended, also when there is no connection just now.
func (t *table) tell(ch *child) {
	s := ch.snapshot()
	capabilities.Tell(t.session, protocol.ProcessStatus, protocol.ProcessStatusParams{
		SessionID: t.session.ID(), ProcessID: ch.id, State: s.State,
		ExitCode: s.ExitCode, ExitSignal: s.ExitSignal, Reason: s.Reason, EndedAt: s.EndedAt,
		ObservedAt: protocol.At(time.Now()),
	})
}
