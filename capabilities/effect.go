package capabilities

import (
	"github.com/agent-executor/executor/protocol"
)

// Effect is what a call or a request is going to do, as far as its input says: what a policy decides by
// and what the local user is shown. Everything in it is as the brain has sent it. An Effect is a value of its
// reader's own; its slices and maps are not to be written to.
type Effect struct {
	// ReadOnly: it changes nothing and starts nothing, whatever the rest of the input is.
	ReadOnly bool
	// Follows: it belongs to something that was decided on when it began: input, the size of a window, its
	// end. It starts nothing by itself.
	Follows bool

	// Script is a text for bash, or Argv a program with its arguments. At most one of them is there.
	Script string
	Argv   []string
	// Dir is where that runs, as it was named ("" is the workspace), and Env what is added to its environment.
	Dir string
	Env map[string]string
	// Persistent: the shell is one in which earlier scripts may have given every name another meaning.
	Persistent bool
	// Interactive: the program gets input after it has begun.
	Interactive bool

	// Paths are the files and directories that are read or changed, as they were named. Tree: also all that is
	// below them.
	Paths []string
	Tree  bool

	// Bytes is how much input for a program this is.
	Bytes int
}

// Runs reports whether a program or a script is run.
func (e Effect) Runs() bool { return e.Script != "" || len(e.Argv) > 0 }

// Effecter is implemented by the inputs of tools, and by the params of methods, that can say what they are going
// to do. For a tool whose input is none, nothing is known but its annotations.
type Effecter interface{ Effect() Effect }

// effectOfTool is what a decoded input says, and the tool's annotations.
func effectOfTool(t Tool, in any) Effect {
	var e Effect
	if x, ok := in.(Effecter); ok {
		e = x.Effect()
	}
	if len(t.Command) > 0 {
		e.Argv = append(append([]string{}, t.Command...), e.Argv...)
	}
	e.ReadOnly = e.ReadOnly || t.Annotations.ReadOnly
	return e
}

// effectOfMethod is what decoded params say. The protocol's own types are known here, since that package has no
// behaviour.
func effectOfMethod(spec protocol.Spec, params any) (id string, e Effect) {
	switch p := params.(type) {
	case protocol.ProcessStartParams:
		e = Effect{Argv: p.Argv, Dir: p.Cwd, Env: p.Env, Interactive: p.Stdin == protocol.StdinOpen || p.IOMode == protocol.IOModePTY}
		if p.FileTransfer != nil {
			e.Paths = []string{p.FileTransfer.Path}
		}
		return p.ProcessID, e
	case protocol.ProcessWriteParams:
		return p.ProcessID, Effect{Follows: true, Bytes: len(p.Data)}
	case protocol.ProcessSignalParams:
		return p.ProcessID, Effect{Follows: true}
	case protocol.ProcessResizeParams:
		return p.ProcessID, Effect{Follows: true}
	case protocol.ProcessSubscribeParams, protocol.ProcessAckParams:
		return "", Effect{ReadOnly: true} // who reads what, and how far
	case protocol.TerminalOpenParams:
		argv := p.Argv
		if len(argv) == 0 {
			argv = []string{p.Shell}
		}
		return p.TerminalID, Effect{Argv: argv, Dir: p.Cwd, Env: p.Env, Interactive: true}
	case protocol.TerminalAttachParams:
		return p.TerminalID, Effect{Follows: true}
	case protocol.TerminalCloseParams:
		return p.TerminalID, Effect{Follows: true}
	case Effecter:
		e = p.Effect()
	}
	e.ReadOnly = e.ReadOnly || spec.Repeat == "read"
	return "", e
}
