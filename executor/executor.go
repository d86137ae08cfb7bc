package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/internal/dirlock"
	"github.com/agent-executor/executor/executor/internal/load"
	"github.com/agent-executor/executor/executor/internal/outbox"
	"github.com/agent-executor/executor/executor/internal/statefile"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Executor is the agent. New makes it, Register gives it capabilities, Run does the
// work and may be called once. All methods but Register may be used concurrently
// with Run.
type Executor struct {
	opts     Options
	log      *zap.Logger
	registry *capabilities.Registry
	box      *outbox.Box
	held     *dirlock.Held // the state directory; nil = none
	state    *keeper
	mux      *rpc.Mux
	lease    lease
	load     *load.Sampler
	creds    credentials
	wakes    *wakeWatch
	machine  *capabilities.Session // of the methods that belong to no session

	life    context.Context // of sessions; ends in Run's shutdown
	endLife context.CancelCauseFunc
	staying context.Context // ends when draining is set
	depart  context.CancelCauseFunc
	work    sync.WaitGroup // sessions being prepared or ended
	ran     atomic.Bool
	leave   chan struct{} // told when asked to leave, or to leave sooner; see shutdown.go
	door    *door         // where the brain dials; nil: it is dialled
	used    string        // credential of the last dial, and of the next when it is known;
	next    string        // both are the connect loop's
	states  stateHook

	lost    atomic.Int64        // results the brain refused for good
	dropped atomic.Int64        // notifications that were not sent
	notices notices             // those that have to arrive
	kept    []statefile.Session // from before a restart, until Run

	damaged bool        // the journal: none of kept comes back
	full    atomic.Bool // what recoverState has said last

	mu           sync.Mutex
	executorID   string // given by the brain
	connectionID string // of the last connection
	conn         *connection
	connChanged  chan struct{} // closed and replaced when conn changes
	gate         chan struct{} // closed when the connection being made is registered
	sessions     map[string]*session
	fences       fences
	ended        endedQueue
	brainLimits  protocol.Limits
	channels     channelLimits
	draining     bool
	drainReason  string
	drainUntil   time.Time
	running      int           // calls
	working      int           // what else runs for sessions: processes
	quiet        chan struct{} // closed when both fall to zero; nil when nobody waits
	stateGone    error         // the state directory is not there any more
	rerooted     bool          // the workspace is another one than New was given
	phase        State
	seen         seen // what Status says of the past
	maxFrame     int  // what the brain takes
}

// New makes an executor. It takes the state directory, which Run lets go, and starts
// nothing. The error of one that another executor has is a *HeldError.
func New(opts Options) (*Executor, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	e := &Executor{
		opts:        opts,
		log:         opts.Logger.Named("executor"),
		registry:    capabilities.NewRegistry(opts.Logger),
		wakes:       newWakeWatch(),
		leave:       make(chan struct{}, 1),
		connChanged: make(chan struct{}),
		gate:        make(chan struct{}),
		sessions:    map[string]*session{},
		phase:       StateStopped,
		maxFrame:    protocol.DefaultMaxControlFrame,
		brainLimits: protocol.DefaultLimits(),
		load:        load.New(),
		creds:       credentials{source: opts.credentials()},
	}
	e.notices.init()
	if err := e.openState(); err != nil {
		if e.held != nil {
			_ = e.held.Close()
		}
		return nil, err
	}
	e.life, e.endLife = context.WithCancelCause(context.Background())
	e.staying, e.depart = context.WithCancelCause(e.life)
	e.machine = capabilities.NewSession(e.life, capabilities.SessionConfig{Peer: peer{e}, Logger: opts.Logger})
	return e, nil
}

// Register adds capabilities, before Run. Mistakes in what a capability registers
// panic; the error is one of a configuration that cannot work.
func (e *Executor) Register(caps ...capabilities.Capability) error {
	for _, c := range caps {
		if err := e.registry.Install(c); err != nil {
			return fmt.Errorf("capability %s: %w", c.Name(), err)
		}
	}
	return nil
}

// Run connects and serves until ctx is done, Drain was called, or the brain asked
// for it, and returns nil then; or until the brain refuses for good, with an error
// that wraps one of the Err values. When it returns, everything has ended: sessions,
// calls, children, connections. Results that were not delivered stay in the journal.
func (e *Executor) Run(ctx context.Context) error {
	if e.ran.Swap(true) {
		return errors.New("an executor runs once")
	}
	if err := e.openDoor(); err != nil {
		e.endLife(errShutdown)
		return errors.Join(err, e.registry.Close(), e.closeState())
	}
	defer e.closeDoor()
	e.mux = e.newMux()
	e.states.start(e.opts.OnState)
	defer e.states.stop()
	restored := e.restore()
	go e.state.run()

	connCtx, disconnect := context.WithCancel(context.Background())
	defer disconnect()
	loop := make(chan error, 1)
	go func() {
		restored(connCtx)
		loop <- e.connectLoop(connCtx)
	}()

	var err error
	select {
	case <-ctx.Done():
	case <-e.leave:
		e.awaitQuiet(ctx)
	case err = <-loop:
	}
	refused := err != nil
	e.expect(-1)
	e.endSessions(errShutdown)
	if !refused {
		e.sayGoodbye()
		disconnect()
		<-loop
	}
	e.endLife(errShutdown)
	e.work.Wait()
	e.state.stop()
	e.setState(StateStopped, nil)
	return errors.Join(err, e.registry.Close(), e.closeState())
}

// stateHook calls the user's OnState in order, on a goroutine of its own, so that a
// slow hook holds up nothing.
type stateHook struct {
	mu    sync.Mutex
	queue []State
	wake  chan struct{}
	ended chan struct{}
}

func (h *stateHook) start(hook func(State)) {
	if hook == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake, h.ended = make(chan struct{}, 1), make(chan struct{})
	wake := h.wake
	go func() {
		defer close(h.ended)
		for range wake {
			for {
				h.mu.Lock()
				if len(h.queue) == 0 {
					h.mu.Unlock()
					break
				}
				s := h.queue[0]
				h.queue = h.queue[1:]
				h.mu.Unlock()
				hook(s)
				if s == StateStopped {
					return
				}
			}
		}
	}()
}

func (h *stateHook) tell(s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wake == nil { // nobody listens, or not yet
		return
	}
	h.queue = append(h.queue, s)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *stateHook) stop() {
	if h.wake != nil {
		<-h.ended
	}
}
