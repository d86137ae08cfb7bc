package files

import (
	"context"
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

// maxHash is the size in bytes up to which a file is hashed while it is read. A larger
// one is hashed behind the reader's back, see late.
const maxHash = 64 << 20

// stampSum stands for what is known of a file without reading it: which one it is, its
// size and times. Where the system does not say which one, its place has to do.
func stampSum(info fs.FileInfo, p capabilities.Path) sum {
	id := identity(info)
	if id == "" {
		id = p.Abs
	}
	return sumOf(fmt.Appendf(nil, "%s %d %d %d", id, info.Size(), info.ModTime().UnixNano(), changeTime(info).UnixNano()))
}

// seen is which content of which file a session has seen last, by reading it or
// by writing it. It may be used concurrently and lives as long as the session.
type seen struct {
	ctx     context.Context // of what is hashed late
	end     context.CancelFunc
	hashing sync.WaitGroup

	mu   sync.Mutex
	sums map[string]content // by Path.Abs
}

// content is a content by its hash, which may be on its way.
type content struct {
	sum  sum
	late *late // nil when sum is there
}

// close ends what is hashed late and waits for it.
func (s *seen) close() {
	s.end()
	s.hashing.Wait()
}

type seenKey struct{}

// seenBy is what the session has seen; OnSessionStart has made it.
func seenBy(s *capabilities.Session) *seen { return s.Value(seenKey{}).(*seen) }

func (s *seen) put(p capabilities.Path, now sum) { s.set(p, content{sum: now}) }

func (s *seen) putLate(p capabilities.Path, h *late) { s.set(p, content{late: h}) }

func (s *seen) set(p capabilities.Path, c content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil {
		s.sums = map[string]content{}
	}
	s.sums[p.Abs] = c
}

// content does not wait.
func (s *seen) content(p capabilities.Path) (content, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.sums[p.Abs]
	return c, ok
}

// await waits until the hash of p is there, if it is on its way, or for the context.
func (s *seen) await(ctx context.Context, p capabilities.Path) error {
	c, _ := s.content(p)
	if c.late == nil {
		return nil
	}
	select {
	case <-c.late.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get waits for a hash that is on its way; for one that did not come it is no content's.
func (s *seen) get(p capabilities.Path) (sum, bool) {
	c, ok := s.content(p)
	if c.late == nil {
		return c.sum, ok
	}
	<-c.late.done
	return c.late.content, ok
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
