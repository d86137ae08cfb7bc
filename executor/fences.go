package executor

import (
	"slices"

	"github.com/agent-executor/executor/executor/internal/statefile"
)

// fences remembers the fencing tokens of sessions, so that an old assignment that
// comes late is not taken for a new one: of those held, and of the last that ended.
type fences struct {
	tokens map[string]int64
	order  []string // those that have ended, oldest first
}

// keepFences is how many ended sessions are remembered with their last calls, keepEnded
// of how many the results too: those are large, and asked for again soon or never.
const (
	keepFences = 1000
	keepEnded  = 64
)

// newFences begins with those of sessions that ended before a restart.
func newFences(kept []statefile.Fence) fences {
	f := fences{tokens: map[string]int64{}}
	for _, k := range kept {
		f.held(k.SessionID, k.Token)
		_, _ = f.ended(k.SessionID)
	}
	return f
}

// list is what is kept of them, oldest first.
func (f *fences) list() []statefile.Fence {
	list := make([]statefile.Fence, 0, len(f.order))
	for _, id := range f.order {
		list = append(list, statefile.Fence{SessionID: id, Token: f.tokens[id]})
	}
	return list
}

func (f *fences) get(id string) (int64, bool) {
	t, ok := f.tokens[id]
	return t, ok
}

func (f *fences) held(id string, token int64) {
	f.tokens[id] = token
	f.order = slices.DeleteFunc(f.order, func(old string) bool { return old == id })
}

// ended records the end of a session. It returns the one, if any, whose results are
// not kept any more for it, and the one of which nothing is.
func (f *fences) ended(id string) (faded, forgotten string) {
	f.order = append(f.order, id)
	if n := len(f.order) - keepEnded - 1; n >= 0 {
		faded = f.order[n]
	}
	if len(f.order) > keepFences {
		forgotten = f.order[0]
		delete(f.tokens, forgotten)
		f.order = f.order[1:]
	}
	return faded, forgotten
}
