//go:build unix

package shell

import "github.com/agent-executor/executor/capabilities"

// Effect implements capabilities.Effecter. A task in the background gets what the shell has exported too.
func (in runShellInput) Effect() capabilities.Effect {
	return capabilities.Effect{Script: in.Command, Persistent: true}
}
