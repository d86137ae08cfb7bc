package capabilities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Registry holds the installed capabilities for the host. Install is called
// before anything else and not concurrently; all other methods may be called
// concurrently after that. Close ends it.
type Registry struct {
	logger    *zap.Logger
	names     map[string]bool
	details   protocol.Capabilities
	tools     map[string]*RegisteredTool
	methods   []RegisteredMethod
	hooks     []sessionHook
	closers   []namedCloser
	closeOnce func() error
}

type namedCloser struct {
	name string
	io.Closer
}

// NewRegistry makes an empty registry. logger may be nil.
func NewRegistry(logger *zap.Logger) *Registry {
	if logger == nil {
		logger = zap.NewNop()
	}
	r := &Registry{
		logger:  logger,
		names:   map[string]bool{},
		details: protocol.Capabilities{},
		tools:   map[string]*RegisteredTool{},
	}
	r.closeOnce = sync.OnceValue(r.close)
	return r
}

// capabilityName has no dot: a dotted name asks for one of the details.
var capabilityName = toolName

// Install installs one capability. The error is the one of its own Install;
// nothing of it is registered then. Registration mistakes panic: a bad or taken
// name of a capability or tool, a method that is taken or not from the brain, an
// input type without a schema.
func (r *Registry) Install(c Capability) error {
	name := c.Name()
	switch {
	case !capabilityName.MatchString(name):
		panic(fmt.Sprintf("capabilities: capability name %q does not match %s", name, capabilityName))
	case name == protocol.CapabilityTools, name == protocol.CapabilityBinaryFrames, name == protocol.CapabilityMessageParts:
		panic(fmt.Sprintf("capabilities: %s is advertised by the executor itself", name))
	case r.names[name]:
		panic(fmt.Sprintf("capabilities: capability %s is registered twice", name))
	}
	reg := &Registrar{name: name, logger: r.logger.Named(name), registry: r, details: protocol.Capabilities{}}
	err := c.Install(reg)
	reg.sealed = true
	if err != nil {
		return fmt.Errorf("install capability %s: %w", name, err)
	}

	r.names[name] = true
	maps.Copy(r.details, reg.details)
	for _, t := range reg.tools {
		r.tools[t.info.Name] = t
	}
	r.methods = append(r.methods, reg.methods...)
	r.hooks = append(r.hooks, reg.sessions...)
	if closer, ok := c.(io.Closer); ok {
		r.closers = append(r.closers, namedCloser{name, closer})
	}
	return nil
}

// Capabilities returns what is advertised, with the list of tools sorted by name.
// The result is the caller's own.
func (r *Registry) Capabilities() protocol.Capabilities {
	all := make(protocol.Capabilities, len(r.details)+1)
	for name, details := range r.details {
		all[name] = bytes.Clone(details)
	}
	if len(r.tools) == 0 {
		return all
	}
	infos := make([]protocol.ToolInfo, 0, len(r.tools))
	for _, name := range r.ToolNames() {
		infos = append(infos, r.tools[name].info)
	}
	raw, err := json.Marshal(infos)
	if err != nil {
		panic(fmt.Sprintf("capabilities: marshal tools: %v", err)) // the schemas were valid JSON at registration
	}
	all[protocol.CapabilityTools] = raw
	return all
}

// Tool returns the tool of that name.
func (r *Registry) Tool(name string) (*RegisteredTool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// ToolNames returns the names of all tools, sorted.
func (r *Registry) ToolNames() []string { return slices.Sorted(maps.Keys(r.tools)) }

// Methods returns all methods and notifications in the order of registration.
func (r *Registry) Methods() []RegisteredMethod { return slices.Clone(r.methods) }

// StartSession calls the start hooks in order. When one fails, the end hooks
// registered before it are called, in reverse, and its error is returned.
func (r *Registry) StartSession(ctx context.Context, s *Session) error {
	for i, h := range r.hooks {
		if h.start == nil {
			continue
		}
		if err := h.start(ctx, s); err != nil {
			endSession(r.hooks[:i], s)
			return err
		}
	}
	return nil
}

// EndSession calls the end hooks, last registered first. The host has cancelled
// the session's context and waited for its calls before.
func (r *Registry) EndSession(s *Session) {
	defer s.removeSpills()
	endSession(r.hooks, s)
}

func endSession(hooks []sessionHook, s *Session) {
	for _, h := range hooks {
		if h.end != nil {
			defer h.end(s) // deferred, so that a panic of one does not skip the others
		}
	}
}

// Close closes the capabilities that are closers, last installed first, after the
// last session has ended. Only the first call does something; all return its
// error.
func (r *Registry) Close() error { return r.closeOnce() }

func (r *Registry) close() error {
	var errs []error
	for _, c := range slices.Backward(r.closers) {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close capability %s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}
