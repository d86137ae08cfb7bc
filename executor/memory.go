package executor

import (
	"strconv"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/internal/outbox"
	"github.com/agent-executor/executor/protocol"
)

// memory is what the capabilities of one assignment have noted, in the journal of
// calls: so it is damaged, missing and on a full disk together with those, and the
// session does not come back without it.
type memory struct {
	box   *outbox.Box
	scope string
}

// memoryOf is nil where no session comes back.
func (e *Executor) memoryOf(p protocol.SessionAssignParams) capabilities.Memory {
	if e.opts.StateDir == "" {
		return nil
	}
	return memory{e.box, scopeOf(p)}
}

// scopeOf names an assignment: another one of the same session knows nothing of it.
func scopeOf(p protocol.SessionAssignParams) string {
	return p.SessionID + "#" + strconv.FormatInt(p.Lease.FencingToken, 10)
}

func (m memory) Note(key string, value []byte) { m.box.Note(m.scope, key, value) }
func (m memory) Forget(key string)             { m.box.ForgetNote(m.scope, key) }
func (m memory) Notes() map[string][]byte      { return m.box.Notes(m.scope) }

// forgetOthers forgets the notes of assignments that do not come back.
func (e *Executor) forgetOthers() {
	kept := map[string]bool{}
	for _, s := range e.kept {
		kept[scopeOf(s.Assign)] = true
	}
	for _, scope := range e.box.Scopes() {
		if !kept[scope] {
			e.log.Debug("notes of an ended session are forgotten", zap.String("scope", clip(scope)))
			e.box.ForgetNotes(scope)
		}
	}
}

// limits are those of the brain: what it has said, and the protocol's where it has not.
func (e *Executor) limits() protocol.Limits {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.brainLimits
}

// withDefaults fills in what a brain has not said.
func withDefaults(l protocol.Limits) protocol.Limits {
	d := protocol.DefaultLimits()
	for _, x := range []struct {
		said      *int
		otherwise int
	}{
		{&l.MaxConcurrentProcessReads, d.MaxConcurrentProcessReads},
		{&l.MaxInflightRequests, d.MaxInflightRequests},
		{&l.MaxProcessReadBytes, d.MaxProcessReadBytes},
		{&l.MaxProcessWriteBytes, d.MaxProcessWriteBytes},
		{&l.MaxProcessesPerSession, d.MaxProcessesPerSession},
	} {
		if *x.said <= 0 {
			*x.said = x.otherwise
		}
	}
	if l.MaxArtifactBytes <= 0 {
		l.MaxArtifactBytes = d.MaxArtifactBytes
	}
	return l
}
