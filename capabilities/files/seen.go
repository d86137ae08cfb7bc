package files

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// sum is the SHA-256 of a file's whole content.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// seen is which content of which file a session has seen last, by reading it or
// by writing it. It may be used concurrently and lives as long as the session.
type seen struct {
	mu   sync.Mutex
	sums map[string]sum // by Path.Abs
}

type seenKey struct{}

// seenBy is what the session has seen; OnSessionStart has made it.
func seenBy(s *capabilities.Session) *seen { return s.Value(seenKey{}).(*seen) }

func (s *seen) put(p capabilities.Path, content sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil {
		s.sums = map[string]sum{}
	}
	s.sums[p.Abs] = content
}

func (s *seen) get(p capabilities.Path) (sum, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.sums[p.Abs]
	return content, ok
}

// mayOverwrite applies the stale-write rule to the content that is there now.
func (s *seen) mayOverwrite(p capabilities.Path, now sum) error {
	before, ok := s.get(p)
	switch {
	case !ok:
		return stale("%s exists and this session has not read it: read it first, or say unsafe_overwrite", p.Display)
	case before != now:
		return stale("%s has changed since this session read it: read it again, or say unsafe_overwrite", p.Display)
	}
	return nil
}

func stale(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeConflict, format, args...).WithReason(protocol.ReasonStaleFile)
}
