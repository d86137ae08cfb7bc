package executor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Changes are what can be changed of an executor that runs; zero fields stay as they are.
type Changes struct {
	// Workspace is where sessions that begin from now on work; those that are there keep
	// theirs until they end.
	Workspace *Workspace
	// MaxSessions is a limit for new ones; of those that are there none is ended.
	MaxSessions int
	// DrainTimeout is for the next drain.
	DrainTimeout time.Duration
}

// Reconfigure changes options while Run goes on. The brain is told when what is advertised
// has changed (executor.capabilities_update, at least once). After an error nothing has
// changed.
func (e *Executor) Reconfigure(c Changes) error {
	if err := e.CheckChanges(c); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.MaxSessions > 0 {
		e.opts.MaxSessions = c.MaxSessions
	}
	if c.DrainTimeout > 0 {
		e.opts.DrainTimeout = c.DrainTimeout
	}
	if c.Workspace == nil || c.Workspace.PerSession == e.opts.Workspace.PerSession && slices.Equal(c.Workspace.Roots, e.opts.Workspace.Roots) {
		return nil
	}
	before := e.capabilities()
	e.opts.Workspace = Workspace{Roots: slices.Clone(c.Workspace.Roots), PerSession: c.Workspace.PerSession}
	e.rerooted = true
	after := e.capabilities()
	if n := len(e.sessions); n > 0 {
		e.log.Info("sessions keep the roots they have begun with until they end", zap.Int("sessions", n))
	}
	if !sameCapabilities(before, after) {
		e.log.Info("the brain is told of changed capabilities")
		e.notices.put(&notice{spec: protocol.ExecutorCapabilitiesUpdate.Spec, params: protocol.CapabilitiesUpdateParams{Capabilities: after}})
	}
	return nil
}

// CheckChanges is Reconfigure without changing anything: its error, if it has one.
func (e *Executor) CheckChanges(c Changes) error {
	if w := c.Workspace; w != nil {
		if err := w.check(); err != nil {
			return err
		}
		if len(w.Roots) == 0 {
			return errors.New("workspace: the list of roots is empty")
		}
		// Each opens, so that it is not the next session that finds out.
		opened, err := capabilities.OpenWorkspace(w.Roots[0].Path, w.Roots)
		if err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
		_ = opened.Close()
	}
	if c.MaxSessions < 0 || c.DrainTimeout < 0 {
		return errors.New("max sessions and drain timeout: want 0, for no change, or more")
	}
	return nil
}

// check is what New and Reconfigure refuse.
func (w *Workspace) check() error {
	if w.PerSession && len(w.Roots) > 0 && w.Roots[0].ReadOnly {
		return fmt.Errorf("workspace: the first root %q is read-only, so sessions cannot have directories of their own in it", w.Roots[0].Path)
	}
	return nil
}

func sameCapabilities(a, b protocol.Capabilities) bool {
	if len(a) != len(b) {
		return false
	}
	for name, details := range a {
		if !bytes.Equal(details, b[name]) {
			return false
		}
	}
	return true
}

// reroot puts the roots of now into what the capability for files advertised when it was
// installed. e.mu is held.
func (e *Executor) reroot(c protocol.Capabilities) {
	if !e.rerooted || !c.Has(protocol.CapabilityFiles) {
		return
	}
	var details protocol.FilesDetails
	if ok, err := c.Get(protocol.CapabilityFiles, &details); !ok || err != nil {
		return
	}
	details.ReadRoots, details.WriteRoots = []string{}, []string{}
	for _, root := range e.opts.Workspace.Roots {
		details.ReadRoots = append(details.ReadRoots, root.Path)
		if !root.ReadOnly {
			details.WriteRoots = append(details.WriteRoots, root.Path)
		}
	}
	_ = c.Set(protocol.CapabilityFiles, details) // strings
}
