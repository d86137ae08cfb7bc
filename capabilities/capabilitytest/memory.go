package capabilitytest

import (
	"maps"
	"sync"
)

// Memory keeps notes as an executor with a state directory does. The zero value is
// empty. It may be used concurrently.
type Memory struct {
	mu    sync.Mutex
	notes map[string][]byte
}

// Note implements capabilities.Memory.
func (m *Memory) Note(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notes == nil {
		m.notes = map[string][]byte{}
	}
	m.notes[key] = append([]byte(nil), value...)
}

// Forget implements capabilities.Memory.
func (m *Memory) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.notes, key)
}

// Notes implements capabilities.Memory.
func (m *Memory) Notes() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.notes)
}

// Copy is what a kill at this moment leaves.
func (m *Memory) Copy() *Memory { return &Memory{notes: m.Notes()} }
