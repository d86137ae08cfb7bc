package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// sum is the SHA-256 of a file's whole content.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

func sumOf(content []byte) sum { return sha256.Sum256(content) }

// maxHash is the size in bytes up to which a file's content is hashed. A larger one
// is told from a changed one by its identity, size and times: to hash it would cost
// more than what is done with it.
const maxHash = 64 << 20

// stampSum stands for the content of a file above maxHash.
func stampSum(info fs.FileInfo) sum {
	return sumOf(fmt.Appendf(nil, "%s %d %d %d", identity(info), info.Size(), info.ModTime().UnixNano(), changeTime(info).UnixNano()))
}

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

// move follows a file or a directory that has another name now, copy one that has two.
func (s *seen) move(from, to capabilities.Path) {
	s.carry(from, to)
	s.forget(from)
}

func (s *seen) carry(from, to capabilities.Path) {
	s.forget(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	for abs, content := range s.sums {
		if below, ok := cutDir(abs, from.Abs); ok {
			s.sums[to.Abs+below] = content
		}
	}
}

// forget drops a file or all below a directory: it is not there any more.
func (s *seen) forget(p capabilities.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for abs := range s.sums {
		if _, ok := cutDir(abs, p.Abs); ok {
			delete(s.sums, abs)
		}
	}
}

// cutDir takes dir off the front of abs, which is dir or below it.
func cutDir(abs, dir string) (below string, ok bool) {
	below, ok = strings.CutPrefix(abs, dir)
	return below, ok && (below == "" || os.IsPathSeparator(below[0]))
}

// mayEdit is the rule for a change of a part, which needs no reading before: what
// this session did see must be what is there.
func (s *seen) mayEdit(p capabilities.Path, now sum) error {
	if before, ok := s.get(p); ok && before != now {
		return s.mayOverwrite(p, now)
	}
	return nil
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
