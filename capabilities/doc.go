// Package capabilities is what a capability of the executor is and what it sees:
// the tools and methods it registers, the session and the call it works in, the
// workspace it works on. It knows nothing of connections; whatever crosses the
// wire goes through a [Peer] that the host, package executor, provides.
//
// The smallest use is a tool of one function:
//
//	type input struct {
//		Name string `json:"name" jsonschema:"whom to greet"`
//	}
//
//	func greet(ctx context.Context, call *capabilities.Call, in input) (protocol.ToolOutput, error) {
//		return protocol.Text("Hi " + in.Name), nil
//	}
//
//	ex.Register(capabilities.Func("greet", "Say hi.", greet))
//
// A capability with more than one tool, with methods of the protocol or with
// something to keep for each session implements [Capability]:
//
//	func (c *Counter) Name() string { return "counter" }
//
//	func (c *Counter) Install(r *capabilities.Registrar) error {
//		r.Advertise(details{Enabled: true})
//		r.OnSessionStart(c.start)
//		r.OnSessionEnd(c.end)
//		capabilities.AddTool(r, capabilities.Tool{Name: "count", Description: "Count up."}, c.count)
//		capabilities.Handle(r, counterRead, c.read)
//		return nil
//	}
//
// The parts: [Registrar] is what Install sees, [Registry] what the host drives.
// [Session] and [Call] are the two lifetimes a handler works in; a handler's
// context ends with its call. [Workspace] is the part of the file system a session
// may touch. Package capabilitytest runs a capability in a test and holds the
// contract that every capability passes.
//
// Errors: a handler returns a *protocol.Error where the other end should decide
// by its code and reason. Any other error of a tool becomes a failed result that
// the model can read; any other error of a method becomes internal_error, with
// its text in the log only. Panics of handlers are recovered by the host. All
// user code is called with no lock held.
package capabilities
