package capabilities

import (
	"context"

	"github.com/agent-executor/executor/protocol"
)

// Capability is something an executor can do. One value serves all sessions at
// once; what belongs to one session is kept under [Session.SetValue] or in a map
// that OnSessionStart and OnSessionEnd maintain.
//
// A capability that also implements io.Closer is closed once, after its last
// session has ended.
type Capability interface {
	// Name is the key under which the capability is advertised.
	Name() string
	// Install registers tools, methods and hooks. It is called once, before the
	// first connection, and starts no goroutine. What does not work on this machine
	// is left out rather than refused; an error is for a configuration that cannot
	// work at all. Nothing of a failed Install is registered.
	Install(r *Registrar) error
}

// Func is a capability of one tool, named like it. The schema of its input is
// inferred from In, see [AddTool].
func Func[In any](name, description string, h func(context.Context, *Call, In) (protocol.ToolOutput, error)) Capability {
	return &funcCapability[In]{tool: Tool{Name: name, Description: description}, handler: h}
}

type funcCapability[In any] struct {
	tool    Tool
	handler func(context.Context, *Call, In) (protocol.ToolOutput, error)
}

func (c *funcCapability[In]) Name() string { return c.tool.Name }

func (c *funcCapability[In]) Install(r *Registrar) error {
	AddTool(r, c.tool, c.handler)
	return nil
}
