package git

import "github.com/agent-executor/executor/capabilities"

// Effect implements capabilities.Effecter. What only reads is known here: the arguments are taken apart by the
// list of what is allowed, and nothing that the repository names is run.
func (in input) Effect() capabilities.Effect {
	c, ok := commands()[in.Subcommand]
	return capabilities.Effect{Argv: append([]string{"git", in.Subcommand}, in.Args...), ReadOnly: ok && !c.writes}
}
