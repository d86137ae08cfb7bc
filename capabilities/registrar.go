package capabilities

import (
	"context"
	"fmt"
	"slices"

	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Registrar is what a capability sees while it is installed. It is used by
// Install only, on its goroutine; its methods panic afterwards.
type Registrar struct {
	name     string
	logger   *zap.Logger
	registry *Registry

	// What is registered stays here until Install has returned without an error.
	sealed   bool
	details  protocol.Capabilities
	tools    []*RegisteredTool
	methods  []RegisteredMethod
	sessions []sessionHook
}

// sessionHook is one registered hook; the other one is nil.
type sessionHook struct {
	start func(context.Context, *Session) error
	end   func(*Session)
}

// Advertise puts the capability with its details into the capabilities object.
// Without it only the tools are advertised. details marshals to JSON.
func (r *Registrar) Advertise(details any) {
	r.open("Advertise")
	if len(r.details) > 0 {
		panic(fmt.Sprintf("capabilities: %s: advertised twice", r.name))
	}
	if err := r.details.Set(r.name, details); err != nil {
		panic(fmt.Sprintf("capabilities: %s: details: %v", r.name, err))
	}
}

// OnSessionStart registers a hook that is called before a session is ready. Its
// context ends when the preparation is given up; what is to live longer takes the
// session's own. An error refuses the session.
//
// Hooks are called in the order of their registration, those of ends in the
// reverse. When one fails, the ends registered before it are called and those
// after it are not: register an end right after its start, and let a start that
// fails clean up after itself.
func (r *Registrar) OnSessionStart(f func(context.Context, *Session) error) {
	r.open("OnSessionStart")
	r.sessions = append(r.sessions, sessionHook{start: f})
}

// OnSessionEnd registers a hook that is called when the session's calls have
// returned and its context is done. It returns when everything that belongs to
// the session has ended.
func (r *Registrar) OnSessionEnd(f func(*Session)) {
	r.open("OnSessionEnd")
	r.sessions = append(r.sessions, sessionHook{end: f})
}

// Logger returns the capability's own logger. It is never nil, may be kept and
// used concurrently. Never log params, inputs, environments or tokens.
func (r *Registrar) Logger() *zap.Logger { return r.logger }

// open panics when Install is over.
func (r *Registrar) open(what string) {
	if r.sealed {
		panic(fmt.Sprintf("capabilities: %s: %s after Install has returned", r.name, what))
	}
}

// ToolTaken says whether there is a tool of that name, and which capability has registered it: for names that
// the user chose. [AddTool] panics for one that is taken.
func (r *Registrar) ToolTaken(name string) (by string, taken bool) {
	if t, ok := r.registry.tools[name]; ok {
		return t.capability, true
	}
	return "", false
}

func (r *Registrar) addTool(t *RegisteredTool) {
	r.open("AddTool")
	if other, taken := r.registry.tools[t.info.Name]; taken {
		panic(fmt.Sprintf("capabilities: %s: tool %s is registered already, by %s", r.name, t.info.Name, other.capability))
	}
	for _, other := range r.tools {
		if other.info.Name == t.info.Name {
			panic(fmt.Sprintf("capabilities: %s: tool %s is registered twice", r.name, t.info.Name))
		}
	}
	r.tools = append(r.tools, t)
}

func (r *Registrar) addMethod(m RegisteredMethod) {
	r.open("Handle")
	checkMethod(r.name, m.Spec)
	m.Capability = r.name
	for _, other := range slices.Concat(r.registry.methods, r.methods) {
		if other.Spec.Name == m.Spec.Name {
			panic(fmt.Sprintf("capabilities: %s: method %s is registered already, by %s", r.name, m.Spec.Name, other.Capability))
		}
	}
	r.methods = append(r.methods, m)
}
