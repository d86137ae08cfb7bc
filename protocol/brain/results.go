package brain

import (
	"context"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// Results keeps the results of tool calls. Put is called concurrently, but for the
// results of one connection, which come one after another, oldest first; and for one
// result as often as an executor sends it. After it has returned nil the executor
// forgets the result: by then it must be safe. After an error the executor sends it
// again. fresh is false when the session's call had a result already, which stays.
// The context is that of the connection the result came over.
type Results interface {
	Put(ctx context.Context, result protocol.ToolResultParams) (fresh bool, err error)
}

const (
	defaultKeptResults = 4096
	maxKeptBytes       = 64 << 20
)

// MemoryResults are Results in memory. They keep the newest results, at most so
// many and about 64 MiB of them; a repeat of one that is gone is fresh again. They
// may be used concurrently.
type MemoryResults struct {
	mu    sync.Mutex
	limit int
	bytes int
	kept  map[resultKey]protocol.ToolResultParams
	order []resultKey // a ring once it is full
	next  int
}

type resultKey struct{ session, call string }

// NewMemoryResults makes Results that keep at most limit results (0 = 4096).
func NewMemoryResults(limit int) *MemoryResults {
	if limit <= 0 {
		limit = defaultKeptResults
	}
	return &MemoryResults{limit: limit, kept: map[resultKey]protocol.ToolResultParams{}}
}

// Put keeps a result unless its call has one.
func (m *MemoryResults) Put(_ context.Context, result protocol.ToolResultParams) (bool, error) {
	k := resultKey{result.SessionID, result.ToolCallID}
	size := sizeOf(&result)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.kept[k]; ok {
		return false, nil
	}
	m.order = append(m.order, k)
	m.kept[k] = result
	m.bytes += size
	for len(m.order)-m.next > m.limit || m.bytes > maxKeptBytes && len(m.order)-m.next > 1 {
		oldest := m.order[m.next]
		m.order[m.next] = resultKey{}
		m.next++
		gone := m.kept[oldest]
		m.bytes -= sizeOf(&gone)
		delete(m.kept, oldest)
	}
	if m.next > m.limit { // the front half is empty
		m.order = append(m.order[:0], m.order[m.next:]...)
		m.next = 0
	}
	return true, nil
}

// Get returns the result of a call.
func (m *MemoryResults) Get(sessionID, toolCallID string) (protocol.ToolResultParams, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.kept[resultKey{sessionID, toolCallID}]
	return r, ok
}

func sizeOf(r *protocol.ToolResultParams) int {
	n := 512 + len(r.Structured)
	for i := range r.Content {
		n += 128 + len(r.Content[i].Text) + len(r.Content[i].Data)
	}
	return n + 128*(len(r.Artifacts)+len(r.Mutations))
}
