package brain

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// hand is an executor written by hand: it keeps sessions, calls and results over
// its connections as the protocol says, and runs tools that a test gives it.
type hand struct {
	name   string
	dial   func(context.Context) (rpc.Frames, error)
	run    func(context.Context, protocol.ToolCallParams) protocol.ToolResultParams // nil: echoes the input
	asked  func()                                                                   // before a tool.call is looked at
	refuse func(protocol.ToolCallParams) *protocol.Error
	tweak  func(*protocol.RegisterParams)
	noBeat bool // sends no heartbeats
	mux    func(*rpc.Mux)

	work     sync.WaitGroup
	mu       sync.Mutex
	conn     *rpc.Conn
	id       string
	last     protocol.RegisterResult
	active   []string
	assigned map[string]protocol.SessionAssignParams
	calls    map[string]int // tool.call frames by tool_call_id
	runs     map[string]int // runs by tool_call_id
	results  map[string]protocol.ToolResultParams
	cancels  []string
	owed     []protocol.ToolResultParams
	ends     []protocol.SessionEndedParams // owed
	over     map[string]bool               // sessions that have ended
	more     chan struct{}
	ended    chan error // one connection's end
	draining bool
}

func newHand(dial func(context.Context) (rpc.Frames, error)) *hand {
	return &hand{name: "hand", dial: dial, assigned: map[string]protocol.SessionAssignParams{},
		calls: map[string]int{}, runs: map[string]int{}, results: map[string]protocol.ToolResultParams{},
		over: map[string]bool{}, more: make(chan struct{}, 1), ended: make(chan error, 100)}
}

// live connects again and again until ctx is done or the brain refuses for good.
func (h *hand) live(ctx context.Context) error {
	for ctx.Err() == nil {
		err := h.once(ctx)
		select {
		case h.ended <- err:
		default:
		}
		var ce *rpc.CloseError
		if errors.As(err, &ce) && ce.Code >= 4000 && ce.Code != protocol.CloseLeaseExpired {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// once is one connection.
func (h *hand) once(ctx context.Context) error {
	f, err := h.dial(ctx)
	if err != nil {
		return err
	}
	c := rpc.NewConn(f, h.table(), nil)
	c.Start()
	var work sync.WaitGroup
	defer work.Wait()
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Shutdown(protocol.CloseGoingAway, "bye") })
	defer stop()

	h.mu.Lock()
	p := protocol.RegisterParams{Protocol: protocol.Version1, Executor: protocol.ExecutorInfo{Name: h.name, OS: "linux"}}
	if h.id != "" {
		p.Resume = &protocol.Resume{ExecutorID: h.id, LastConnectionID: h.last.ConnectionID, ActiveSessions: h.active}
	}
	if h.tweak != nil {
		h.tweak(&p)
	}
	h.mu.Unlock()
	_, err = rpc.CallInOrder(ctx, c, protocol.ExecutorRegister, p, func(r protocol.RegisterResult) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.id, h.last, h.conn = r.ExecutorID, r, c
		h.active = slices.DeleteFunc(h.active, func(id string) bool { return !slices.Contains(*r.Sessions, id) })
	})
	if err != nil {
		<-c.Done()
		return errors.Join(err, c.Err())
	}
	for _, p := range h.unready() {
		work.Go(func() { h.ready(c, p) })
	}
	work.Go(func() { h.deliver(c) })
	if !h.noBeat {
		work.Go(func() { h.beat(c) })
	}
	<-c.Context().Done()
	return c.Err()
}

func (h *hand) beat(c *rpc.Conn) {
	t := time.NewTicker(time.Duration(h.last.HeartbeatIntervalMS) * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-c.Context().Done():
			return
		}
		h.mu.Lock()
		p := protocol.HeartbeatParams{ConnectionID: h.last.ConnectionID, ActiveSessions: append([]string{}, h.active...)}
		h.mu.Unlock()
		_ = ask(c, protocol.ExecutorHeartbeat, p)
	}
}

// deliver sends what is owed, oldest first, one after another.
func (h *hand) deliver(c *rpc.Conn) {
	for c.Context().Err() == nil {
		h.mu.Lock()
		owed, ends := h.owed, h.ends
		h.mu.Unlock()
		var err error
		switch {
		case len(owed) > 0:
			if err = ask(c, protocol.ToolResult, owed[0]); err == nil {
				h.mu.Lock()
				h.owed = h.owed[1:]
				h.mu.Unlock()
			}
		case len(ends) > 0:
			if err = ask(c, protocol.SessionEnded, ends[0]); err == nil {
				h.mu.Lock()
				h.ends = h.ends[1:]
				h.mu.Unlock()
			}
		default:
			select {
			case <-h.more:
			case <-c.Context().Done():
			}
			continue
		}
		if err != nil {
			select {
			case <-time.After(time.Second):
			case <-c.Context().Done():
			}
		}
	}
}

// unready are the sessions whose session.ready was not acknowledged.
func (h *hand) unready() (list []protocol.SessionAssignParams) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.assigned {
		if !h.over[id] && !slices.Contains(h.active, id) && slices.Contains(*h.last.Sessions, id) {
			list = append(list, p)
		}
	}
	return list
}

// ask closes a connection on which nobody answers.
func ask[P, R any](c *rpc.Conn, m protocol.Method[P, R], p P) error {
	ctx, cancel := context.WithTimeout(context.Background(), protocol.DefaultRequestTimeout)
	defer cancel()
	_, err := rpc.Call(ctx, c, m, p)
	if ctx.Err() != nil {
		c.Shutdown(protocol.CloseInternal, "no answer")
	}
	return err
}

func (h *hand) owe(r protocol.ToolResultParams) {
	h.mu.Lock()
	h.results[r.ToolCallID] = r
	h.owed = append(h.owed, r)
	h.mu.Unlock()
	h.wake()
}

func (h *hand) wake() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *hand) table() *rpc.Mux {
	x := rpc.NewMux(0)
	rpc.Handle(x, protocol.SessionAssign, func(ctx context.Context, p protocol.SessionAssignParams) (protocol.SessionAssignResult, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.draining {
			return protocol.SessionAssignResult{}, protocol.Errorf(protocol.CodeExecutorBusy, "draining").WithReason(protocol.ReasonDraining).WithRetryable(false)
		}
		if held, ok := h.assigned[p.SessionID]; ok && p.Lease.FencingToken < held.Lease.FencingToken {
			return protocol.SessionAssignResult{}, protocol.ErrConflict
		}
		h.assigned[p.SessionID] = p
		delete(h.over, p.SessionID)
		c := rpc.FromContext(ctx)
		h.work.Go(func() { h.ready(c, p) })
		return protocol.SessionAssignResult{Accepted: true, SessionID: p.SessionID}, nil
	})
	rpc.Handle(x, protocol.SessionStop, func(_ context.Context, p protocol.SessionStopParams) (protocol.SessionStopResult, error) {
		h.end(p.SessionID, p.Reason)
		return protocol.SessionStopResult{Stopped: true}, nil
	})
	rpc.Handle(x, protocol.ToolCall, h.toolCall)
	rpc.Handle(x, protocol.ToolCancel, func(_ context.Context, p protocol.ToolCancelParams) (protocol.ToolCancelResult, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cancels = append(h.cancels, p.ToolCallID)
		return protocol.ToolCancelResult{Canceled: true}, nil
	})
	rpc.Handle(x, protocol.ExecutorDrain, func(context.Context, protocol.DrainParams) (protocol.DrainResult, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.draining = true
		return protocol.DrainResult{Accepted: true, ActiveSessions: h.active}, nil
	})
	if h.mux != nil {
		h.mux(x)
	}
	return x
}

func (h *hand) end(session, reason string) {
	h.mu.Lock()
	h.active = slices.DeleteFunc(h.active, func(id string) bool { return id == session })
	h.over[session] = true
	h.ends = append(h.ends, protocol.SessionEndedParams{SessionID: session, Reason: reason})
	h.mu.Unlock()
	h.wake()
}

func (h *hand) ready(c *rpc.Conn, p protocol.SessionAssignParams) {
	_, _ = rpc.CallInOrder(c.Context(), c, protocol.SessionReady,
		protocol.SessionReadyParams{SessionID: p.SessionID, WorkID: p.WorkID, LeaseToken: p.Lease.Token},
		func(protocol.AcceptedResult) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !slices.Contains(h.active, p.SessionID) {
				h.active = append(h.active, p.SessionID)
			}
		})
}

func (h *hand) toolCall(_ context.Context, p protocol.ToolCallParams) (protocol.AcceptedResult, error) {
	if h.asked != nil {
		h.asked()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[p.ToolCallID]++
	if !slices.Contains(h.active, p.SessionID) {
		return protocol.AcceptedResult{}, protocol.ErrSessionNotActive
	}
	if h.refuse != nil {
		if e := h.refuse(p); e != nil {
			return protocol.AcceptedResult{}, e
		}
	}
	accepted := protocol.AcceptedResult{Accepted: true}
	if r, ok := h.results[p.ToolCallID]; ok {
		h.owed = append(h.owed, r)
		h.wake()
		return accepted, nil
	}
	if h.runs[p.ToolCallID]++; h.runs[p.ToolCallID] > 1 {
		h.runs[p.ToolCallID]-- // it joins
		return accepted, nil
	}
	if h.run == nil {
		r := echo(p)
		h.results[p.ToolCallID] = r
		h.owed = append(h.owed, r)
		h.wake()
		return accepted, nil
	}
	h.work.Go(func() { h.owe(h.run(context.Background(), p)) })
	return accepted, nil
}

// What the hand has seen.
func (h *hand) callCounts() map[string]int {
	return locked(h, func() map[string]int { return maps.Clone(h.calls) })
}
func (h *hand) runCounts() map[string]int {
	return locked(h, func() map[string]int { return maps.Clone(h.runs) })
}
func (h *hand) cancelled() []string {
	return locked(h, func() []string { return slices.Clone(h.cancels) })
}
func (h *hand) owes() int        { return locked(h, func() int { return len(h.owed) + len(h.ends) }) }
func (h *hand) identity() string { return locked(h, func() string { return h.id }) }
func (h *hand) registered() protocol.RegisterResult {
	return locked(h, func() protocol.RegisterResult { return h.last })
}
func (h *hand) connection() *rpc.Conn { return locked(h, func() *rpc.Conn { return h.conn }) }

func locked[T any](h *hand, f func() T) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f()
}

func echo(p protocol.ToolCallParams) protocol.ToolResultParams {
	return protocol.ToolResultParams{SessionID: p.SessionID, ToolCallID: p.ToolCallID, Outcome: protocol.OutcomeSucceeded,
		Content: []protocol.Content{{Type: protocol.ContentText, Text: string(p.Input)}}}
}

// bench is a brain behind an HTTP server in memory, with faults on the executors'
// side of their connections.
type bench struct {
	*Brain
	next   atomic.Pointer[Brain] // the one that serves
	t      *testing.T
	net    *rpctest.Listener
	faults *rpctest.Faults
	ctx    context.Context // the test's
	leave  context.CancelFunc
	hands  sync.WaitGroup
	server *http.Server
}

// in runs a test in a bubble, with a brain and an executor that is connected, and
// ends both.
func in(t *testing.T, o Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, o)
		defer b.end()
		test(t, b)
	})
}

func newBench(t *testing.T, o Options) *bench {
	b := &bench{Brain: New(o), t: t, net: rpctest.Listen(), faults: rpctest.NewFaults()}
	b.ctx, b.leave = context.WithTimeout(t.Context(), time.Hour)
	b.next.Store(b.Brain)
	b.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.next.Load().ServeHTTP(w, r)
	})}
	b.hands.Go(func() { _ = b.server.Serve(b.net) })
	return b
}

func (b *bench) end() {
	require.NoError(b.t, b.Close("test ends"))
	b.leave()
	_ = b.server.Close()
	_ = b.net.Close()
	b.hands.Wait()
}

func (b *bench) dial(ctx context.Context) (rpc.Frames, error) {
	return b.faults.Dial(ctx, "ws://brain/", b.net.DialOptions())
}

// executor connects an executor; change may be nil.
func (b *bench) executor(change func(*hand)) (*hand, *Executor) {
	h := newHand(b.dial)
	if change != nil {
		change(h)
	}
	b.hands.Go(func() {
		_ = h.live(b.ctx)
		h.work.Wait()
	})
	for {
		if x, ok := b.Executor(h.identity()); ok && x.Connected() {
			return h, x
		}
		time.Sleep(time.Millisecond)
	}
}

// session connects an executor and assigns a session.
func (b *bench) session(change func(*hand)) (*hand, *Session) {
	h, x := b.executor(change)
	s, err := x.Assign(b.ctx, protocol.SessionAssignParams{})
	require.NoError(b.t, err)
	return h, s
}

func text(r protocol.ToolResultParams) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}
