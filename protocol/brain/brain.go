package brain

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// ErrClosed is returned by everything that waited when the Brain was shut down.
var ErrClosed = errors.New("brain is closed")

// Options of a Brain; zero fields are defaults.
type Options struct {
	// Authenticate says who sends a request, by its Authorization header. An error
	// that is protocol.ErrUnauthorized or ErrForbidden is answered with 401 or 403,
	// after which an executor gives up; any other with 503, after which it tries
	// again. It is also asked about the token of an executor.token_refresh. nil
	// lets everybody in: only for tests and for sockets that nobody else reaches.
	Authenticate func(*http.Request) (Principal, error)

	HeartbeatInterval    time.Duration   // default 10 s
	LeaseTTL             time.Duration   // default 30 s
	Limits               protocol.Limits // zero members are the protocol's defaults
	MaxControlFrameBytes int             // largest message, both ways (default 1 MiB)

	// Dialects are other spellings of the protocol that are understood, rpc.BMA()
	// for example.
	Dialects []rpc.Dialect

	Results Results // default: NewMemoryResults(0)

	// OnExecutor is told when an executor is there and when it is gone. For one
	// executor its calls come one after another, on a goroutine of the Brain, which
	// it must not hold up for long.
	OnExecutor func(x *Executor, connected bool)
	// OnProgress is told what running calls say, in order for each connection. When
	// it is slow, progress is dropped.
	OnProgress func(protocol.ToolProgressParams)
	// OnWake is told once of each session.wake of a session: something there wants
	// attention, a background task that has ended for example. The wake is acknowledged
	// when it returns nil; after an error that is retryable it comes again. It may be
	// called concurrently. nil: wakes are answered with method_not_found.
	OnWake func(protocol.SessionWakeParams) error
	// Handle adds handlers for what else executors send: events, methods of your own. From tells them whose message it is.
	Handle func(*rpc.Mux)

	Logger *zap.Logger // default: none
}

// Principal is who a credential belongs to.
type Principal struct {
	Name string // two connections of one name may share an executor id
	// ExecutorID, when set, is the executor this credential belongs to; it decides
	// the id, whatever the executor says.
	ExecutorID    string
	EnvironmentID string // when set, an executor of another environment is refused
	// ExpiresAt is when the credential ends; zero: it does not. A connection whose
	// credential has ended, and was not replaced by executor.token_refresh, is closed
	// with 4001.
	ExpiresAt time.Time
}

const (
	registerTimeout = 10 * time.Second
	// maxAway is how many executors that are away and have no session are
	// remembered. One that was forgotten gets its id again when it comes back.
	maxAway = 4096
)

// Brain accepts executors and drives them. It is an http.Handler. Its methods may
// be called concurrently; whoever made it ends it with Close or Shutdown.
type Brain struct {
	opts Options
	log  *zap.Logger
	mux  *rpc.Mux

	ctx    context.Context // ends with the Brain
	cancel context.CancelFunc
	work   sync.WaitGroup // connections, and what is done behind the caller's back

	conns    sync.Map // *rpc.Conn → *connection
	sessions sync.Map // session id → *Session; changed under mu
	changes  changes

	mu        sync.Mutex // taken before an Executor's
	closed    bool
	executors map[string]*Executor
	away      int           // executors without a connection, about
	changed   chan struct{} // closed when an executor has come; nil when nobody waits
	fencing   int64         // the last fencing token given
}

// New makes a Brain. It starts nothing.
func New(o Options) *Brain {
	o.HeartbeatInterval = positive(o.HeartbeatInterval, protocol.DefaultHeartbeatInterval)
	o.LeaseTTL = positive(o.LeaseTTL, protocol.DefaultLeaseTTL)
	o.MaxControlFrameBytes = positive(o.MaxControlFrameBytes, protocol.DefaultMaxControlFrame)
	d := protocol.DefaultLimits()
	o.Limits = protocol.Limits{
		MaxArtifactBytes:          positive(o.Limits.MaxArtifactBytes, d.MaxArtifactBytes),
		MaxConcurrentProcessReads: positive(o.Limits.MaxConcurrentProcessReads, d.MaxConcurrentProcessReads),
		MaxInflightRequests:       positive(o.Limits.MaxInflightRequests, d.MaxInflightRequests),
		MaxProcessReadBytes:       positive(o.Limits.MaxProcessReadBytes, d.MaxProcessReadBytes),
		MaxProcessWriteBytes:      positive(o.Limits.MaxProcessWriteBytes, d.MaxProcessWriteBytes),
		MaxProcessesPerSession:    positive(o.Limits.MaxProcessesPerSession, d.MaxProcessesPerSession),
	}
	if o.Results == nil {
		o.Results = NewMemoryResults(0)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	b := &Brain{opts: o, log: o.Logger, executors: map[string]*Executor{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.mux = rpc.NewMux(o.Limits.MaxInflightRequests)
	b.handle(b.mux)
	if o.Handle != nil {
		o.Handle(b.mux)
	}
	return b
}

func positive[T cmp.Ordered](v, otherwise T) T {
	var zero T
	if v > zero {
		return v
	}
	return otherwise
}

// Executors lists the executors it knows, connected or away, by id.
func (b *Brain) Executors() []*Executor {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*Executor, 0, len(b.executors))
	for _, x := range b.executors {
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y *Executor) int { return cmp.Compare(x.id, y.id) })
	return list
}

// Executor returns an executor it knows, connected or away.
func (b *Brain) Executor(id string) (*Executor, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.executors[id]
	return x, ok
}

// WaitExecutor returns a connected executor, and waits until there is one.
func (b *Brain) WaitExecutor(ctx context.Context) (*Executor, error) {
	for {
		b.mu.Lock()
		for _, x := range b.executors {
			if x.Connected() {
				b.mu.Unlock()
				return x, nil
			}
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// Close is Shutdown without a limit of its own; it takes a few seconds at most,
// unless a handler hangs. The reason is what executors are told.
func (b *Brain) Close(reason string) error {
	return b.shutdown(context.Background(), reason)
}

// Shutdown takes no more connections, frees everybody who waits, closes all
// connections with 1001, so that executors come back, and returns when everything
// has ended or the context has. It may be called more than once.
func (b *Brain) Shutdown(ctx context.Context) error {
	return b.shutdown(ctx, "going away")
}

func (b *Brain) shutdown(ctx context.Context, reason string) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.conns.Range(func(_, c any) bool {
		c.(*connection).close(protocol.CloseGoingAway, reason)
		return true
	})
	b.sessions.Range(func(_, s any) bool {
		s.(*Session).servers.end(ErrClosed)
		return true
	})
	ended := make(chan struct{})
	go func() {
		b.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter says that something of the Brain's has begun, which ends with
// b.work.Done; false when the Brain is closed.
func (b *Brain) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.work.Add(1)
	return true
}

// behind does something that nobody waits for, for at most a request's time.
func (b *Brain) behind(f func(context.Context)) {
	if !b.enter() {
		return
	}
	go func() {
		defer b.work.Done()
		ctx, cancel := context.WithTimeout(b.ctx, protocol.DefaultRequestTimeout)
		defer cancel()
		f(ctx)
	}()
}

// forgetAway makes room when too many executors are away. b.mu is held.
func (b *Brain) forgetAway() {
	if b.away <= maxAway {
		return
	}
	b.away = 0
	var gone []*Executor
	for _, x := range b.executors {
		if idle, away := x.idle(); away {
			b.away++
			if idle {
				gone = append(gone, x)
			}
		}
	}
	// Half of them at once, so that this is not done again for the next one.
	slices.SortFunc(gone, func(x, y *Executor) int { return x.LastSeen().Compare(y.LastSeen()) })
	for _, x := range gone[:min(len(gone), maxAway/2)] {
		if x.forget() {
			delete(b.executors, x.id)
			b.away--
		}
	}
}
