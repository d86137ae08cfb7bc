package executor

import "github.com/agent-executor/executor/protocol"

// loadNow is how busy this machine is, for a heartbeat; nil when the system does not
// say.
func (e *Executor) loadNow() *protocol.Load {
	if e.load == nil { // which only a test leaves out
		return nil
	}
	l, ok := e.load.Read()
	if !ok {
		return nil
	}
	return &l
}
