package exec

import "github.com/agent-executor/executor/capabilities"

// Effect implements capabilities.Effecter; the tool's command stands in front of it.
func (in input) Effect() capabilities.Effect { return capabilities.Effect{Argv: in.Args} }
