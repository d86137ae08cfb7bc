package brain

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// ErrForgotten is what the methods of an Executor return that was away for so long
// that it was forgotten, or that never learnt its id and has come back under another:
// whoever wants it has to look it up again.
var ErrForgotten = errors.New("executor was away for too long and is forgotten; look it up again")

// Executor is one executor, over all its connections. Its methods may be called
// concurrently. It is the Brain's.
type Executor struct {
	b  *Brain
	id string

	hooks sync.Mutex // held while an attach or detach is told

	mu        sync.Mutex // taken after the Brain's, before a Session's
	owner     string     // Principal.Name
	bound     bool       // the id is given by a credential
	info      protocol.ExecutorInfo
	env       string
	caps      protocol.Capabilities
	load      *protocol.Load
	lastSeen  time.Time
	newest    *connection // the last that registered
	conn      *connection // the one to be used; nil while away
	changed   chan struct{}
	forgotten bool
	sessions  map[string]*Session
}

// ID is the executor's id, for ever.
func (x *Executor) ID() string { return x.id }

// Info says what program and machine it is.
func (x *Executor) Info() protocol.ExecutorInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.info
}

// EnvironmentID is the environment it registered for.
func (x *Executor) EnvironmentID() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.env
}

// Capabilities are those it advertised last.
func (x *Executor) Capabilities() protocol.Capabilities {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.caps)
}

// Load is what its last heartbeat said; false when it did not.
func (x *Executor) Load() (protocol.Load, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.load == nil {
		return protocol.Load{}, false
	}
	return *x.load, true
}

// Connected reports whether requests reach it now.
func (x *Executor) Connected() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn != nil && x.conn.alive()
}

// LastSeen is when it registered, sent a heartbeat or was lost, whichever is last.
func (x *Executor) LastSeen() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lastSeen
}

// Sessions lists the sessions it holds, by id.
func (x *Executor) Sessions() []*Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.sessions), func(s, t *Session) int { return cmp.Compare(s.ID(), t.ID()) })
}

// Session returns a session it holds.
func (x *Executor) Session(id string) (*Session, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, ok := x.sessions[id]
	return s, ok
}

// Drain asks it to take no more work, to finish what runs until the deadline, and
// to leave. One that leaves before its answer has come has done what it was asked.
func (x *Executor) Drain(ctx context.Context, p protocol.DrainParams) (protocol.DrainResult, error) {
	r, err := Do(ctx, x, protocol.ExecutorDrain, p)
	if errors.Is(err, rpc.ErrClosed) {
		return protocol.DrainResult{Accepted: true, ActiveSessions: []string{}}, nil
	}
	return r, err
}

// connected is the connection there is just now; nil when there is none.
func (x *Executor) connected() *connection {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.conn; c != nil && c.alive() {
		return c
	}
	return nil
}

// current is the connection to be used now; it waits while there is none.
func (x *Executor) current(ctx context.Context, settled <-chan struct{}) (*connection, error) {
	for {
		select {
		case <-settled:
			return nil, errSettled
		default:
		}
		x.mu.Lock()
		if c := x.conn; c != nil && c.alive() {
			x.mu.Unlock()
			return c, nil
		}
		if x.forgotten {
			x.mu.Unlock()
			return nil, ErrForgotten
		}
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-changed:
		case <-settled:
			return nil, errSettled
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-x.b.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// adopt finds or makes the executor that registers on c, and what is still held
// for it. nil when the Brain is closed.
func (b *Brain) adopt(c *connection, p protocol.RegisterParams) (*Executor, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil
	}
	id := b.identify(c.principal, p.Resume)
	x := b.executors[id]
	c.named = c.principal.ExecutorID == "" && (p.Resume == nil || p.Resume.ExecutorID != id)
	if x == nil {
		x = &Executor{b: b, id: id, sessions: map[string]*Session{}}
		b.executors[id] = x
		b.away++
		b.forgetAway()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.owner, x.bound = c.principal.Name, c.principal.ExecutorID != ""
	x.info, x.caps, x.env = p.Executor, p.Capabilities, cmp.Or(c.principal.EnvironmentID, p.EnvironmentID)
	x.lastSeen, x.newest = time.Now(), c
	return x, slices.AppendSeq(make([]string, 0, len(x.sessions)), maps.Keys(x.sessions))
}

// identify decides an executor's id: by its credential; else it keeps the one it
// had, unless that is somebody else's; else it gets a new one. b.mu is held.
func (b *Brain) identify(p Principal, resume *protocol.Resume) string {
	if p.ExecutorID != "" {
		return p.ExecutorID
	}
	if resume != nil && plainID(resume.ExecutorID) {
		x := b.executors[resume.ExecutorID]
		if x == nil || !x.bound && x.owner == p.Name {
			return resume.ExecutorID
		}
	}
	return uuid.NewString()
}

func plainID(id string) bool {
	if id == "" || len(id) > 200 {
		return false
	}
	for _, r := range id {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}

// attach makes c the connection to be used, then closes the one before.
func (x *Executor) attach(c *connection) {
	x.hooks.Lock()
	defer x.hooks.Unlock()
	x.mu.Lock()
	if x.newest != c {
		x.mu.Unlock()
		c.close(protocol.CloseReplaced, "replaced by a newer connection")
		return
	}
	if !c.alive() {
		x.mu.Unlock()
		return
	}
	old := x.conn
	x.conn = c
	x.broadcast()
	x.mu.Unlock()
	if old != nil {
		old.close(protocol.CloseReplaced, "replaced by a newer connection")
	}
	x.b.log.Info("executor connected", zap.String("executor", x.id), zap.String("connection", c.id),
		zap.String("principal", c.principal.Name), zap.Bool("replaced", old != nil))
	x.b.mu.Lock()
	if old == nil {
		x.b.away--
	}
	if x.b.changed != nil {
		close(x.b.changed)
		x.b.changed = nil
	}
	x.b.mu.Unlock()
	x.b.changes.tell()
	if x.b.opts.OnExecutor != nil && old == nil {
		x.b.opts.OnExecutor(x, true)
	}
}

// detach is the end of a connection.
func (x *Executor) detach(c *connection) {
	x.hooks.Lock()
	defer x.hooks.Unlock()
	x.mu.Lock()
	current := x.conn == c
	if current {
		x.conn, x.lastSeen = nil, time.Now()
		x.broadcast()
	}
	x.mu.Unlock()
	x.expire(c)
	if !current {
		return
	}
	x.b.mu.Lock()
	x.b.away++
	x.b.forgetAway()
	x.b.mu.Unlock()
	x.b.changes.tell()
	if x.b.opts.OnExecutor != nil {
		x.b.opts.OnExecutor(x, false)
	}
}

// broadcast tells those who wait that conn has changed. x.mu is held.
func (x *Executor) broadcast() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// idle reports whether it is away, and whether nothing would be lost with it.
func (x *Executor) idle() (idle, away bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	away = x.conn == nil
	// Nobody waits for it, and it is not just registering.
	return away && len(x.sessions) == 0 && x.changed == nil && (x.newest == nil || !x.newest.alive()), away
}

// forget ends it for those who still have it. The Brain's lock is held.
func (x *Executor) forget() bool {
	if idle, _ := x.idle(); !idle {
		return false
	}
	x.mu.Lock()
	x.forgotten = true
	x.mu.Unlock()
	return true
}

func (x *Executor) setCapabilities(caps protocol.Capabilities) {
	x.mu.Lock()
	x.caps = caps
	x.mu.Unlock()
	x.b.changes.tell()
}

// beat takes in a heartbeat. A session that two heartbeats in a row do not name
// although it had become ready is lost: the executor was set up anew under the
// same id. One is not enough, since a session.ready may cross it.
func (x *Executor) beat(p protocol.HeartbeatParams, now time.Time) {
	var lost []*Session
	x.mu.Lock()
	x.lastSeen, x.load = now, p.Load
	if p.ActiveSessions != nil {
		for id, s := range x.sessions {
			if s.missed(!slices.Contains(p.ActiveSessions, id)) {
				lost = append(lost, s)
			}
		}
	}
	x.mu.Unlock()
	for _, s := range lost {
		s.end("the executor does not have it any more")
	}
}
