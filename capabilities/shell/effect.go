package shell

import "github.com/agent-executor/executor/capabilities"

// Effect implements capabilities.Effecter.
func (in bashInput) Effect() capabilities.Effect {
	return capabilities.Effect{Script: in.Command, Dir: in.Cwd, Env: in.Env}
}

// Effect implements capabilities.Effecter: what is printed is taken, as output of a process is.
func (in taskOutputInput) Effect() capabilities.Effect { return capabilities.Effect{ReadOnly: true} }

// Effect implements capabilities.Effecter: a task was decided on when it began, so it may be ended.
func (in taskInput) Effect() capabilities.Effect { return capabilities.Effect{Follows: true} }
