package capabilities

import (
	"context"
	"strings"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// Memory is where a host keeps what a session's capabilities note, over a restart of
// its own. The host implements it; it may be used concurrently, but for one key by one
// caller at a time. Its end is the session's: then all of it is forgotten.
type Memory interface {
	// Note keeps a value under a key, in place of the one before. When it returns, the
	// value survives a kill of the host; after a loss of power it may be missing. It
	// does not fail: a host that cannot write sees to it that the session does not come
	// back without its notes.
	Note(key string, value []byte)
	// Forget forgets a key.
	Forget(key string)
	// Notes are all values by their keys. They are not to be written to.
	Notes() map[string][]byte
}

// Note keeps a small value for the session under a key, in place of the one before. It
// is for what must not be done twice, such as the start of a process: when Note
// returns, the value is there also after the executor was killed and has the session
// again, see [Session.Notes]. Only a loss of power may take the newest values. Where the
// host keeps nothing over a restart, it does nothing, as no session comes back there.
// A key begins with the name of the capability and a slash.
func (s *Session) Note(key string, value []byte) {
	if s.config.Memory != nil {
		s.config.Memory.Note(key, value)
	}
}

// ForgetNote forgets what was noted under a key. Who notes something for each thing
// that comes and goes has to forget it some time.
func (s *Session) ForgetNote(key string) {
	if s.config.Memory != nil {
		s.config.Memory.Forget(key)
	}
}

// Notes are the values noted so far under keys with a prefix, by what follows it; in
// OnSessionStart those from before a restart, of which there are none at the start of
// an assignment. They are not to be written to.
func (s *Session) Notes(prefix string) map[string][]byte {
	if s.config.Memory == nil {
		return nil
	}
	all := map[string][]byte{}
	for key, value := range s.config.Memory.Notes() {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			all[rest] = value
		}
	}
	return all
}

// Limits are those that the brain has set in its answer to the last register. They may
// be others after a reconnect: ask for them each time. A zero member: nobody has said.
func (s *Session) Limits() protocol.Limits {
	if s.config.Limits == nil {
		return protocol.Limits{}
	}
	return s.config.Limits()
}

// tellTime is how long Tell waits where the host has no Tell of its own.
const tellTime = time.Second

// Tell sends a notification of the session to the brain at least once: soon when there
// is a connection, and again over the next one unless it is known by then that the brain
// has read it. So a repeat must be harmless. Those of one session come in order. It does
// not wait. What is told before OnSessionEnd returns comes before session.ended; a
// restart of the executor ends it.
func Tell[P any](s *Session, n protocol.Notification[P], params P) {
	if s.config.Tell != nil {
		s.config.Tell(n.Spec, &params)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), tellTime)
	defer cancel()
	_ = s.config.Peer.Notify(ctx, n.Name, &params)
}
