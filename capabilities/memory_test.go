package capabilities_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
)

// Where the host keeps and limits nothing, a session does without.
func TestSessionWithoutMemory(t *testing.T) {
	s := capabilitytest.NewSession(t)
	s.Note("a/b", []byte("x"))
	s.ForgetNote("a/b")
	assert.Empty(t, s.Notes(""))
	assert.Zero(t, s.Limits())
	capabilities.Tell(s.Session, protocol.ProcessStatus, protocol.ProcessStatusParams{SessionID: s.ID(), ProcessID: "p", State: "exited"})
	s.End()
	capabilities.Tell(s.Session, protocol.ProcessStatus, protocol.ProcessStatusParams{SessionID: s.ID(), ProcessID: "q", State: "exited"})
	assert.Len(t, capabilitytest.Notified(t, s.Host.Peer, protocol.ProcessStatus), 2, "also behind the end of its context")
}

// Each capability sees its own notes, and only the next session with the same memory does too.
func TestSessionNotes(t *testing.T) {
	h, memory := capabilitytest.NewHost(t), &capabilitytest.Memory{}
	s := h.NewSession(t, capabilitytest.Options{Memory: memory, Limits: func() protocol.Limits { return protocol.Limits{MaxArtifactBytes: 7} }})
	value := []byte("1")
	s.Note("a/x", value)
	value[0] = '2'
	s.Note("a/y", nil)
	s.Note("b/x", []byte("3"))
	s.Note("a/z", []byte("4"))
	s.ForgetNote("a/z")
	again := h.NewSession(t, capabilitytest.Options{Memory: memory.Copy()})
	s.Note("a/later", nil)
	assert.Equal(t, map[string][]byte{"x": []byte("1"), "y": nil}, again.Notes("a/"))
	assert.Equal(t, map[string][]byte{"x": []byte("3")}, again.Notes("b/"))
	assert.EqualValues(t, 7, s.Limits().MaxArtifactBytes)
}
