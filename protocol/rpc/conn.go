package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// Frames is a transport: a WebSocket, over TCP, TLS or a Unix socket, or a pipe in
// memory. One message is one frame. A frame whose first byte is zero is a binary
// message, any other a text message. ReadFrame is called by one goroutine at a
// time, and so is WriteFrame; Close may be called at any time, more than once, and
// ends both. Read and write errors are final. A *CloseError says that and why the
// peer closed.
type Frames interface {
	ReadFrame(ctx context.Context) ([]byte, error)
	WriteFrame(ctx context.Context, frame []byte) error
	Close(code int, reason string) error
	Subprotocol() string
}

// CloseError is the end of a connection by a close message, the peer's or, when
// Local is set, this end's own.
type CloseError struct {
	Code   int
	Reason string
	Local  bool
}

func (e *CloseError) Error() string {
	who := "peer"
	if e.Local {
		who = "this end"
	}
	if e.Reason == "" {
		return fmt.Sprintf("connection closed by %s with code %d", who, e.Code)
	}
	return fmt.Sprintf("connection closed by %s with code %d: %s", who, e.Code, e.Reason)
}

// ErrClosed is wrapped by the error of every Call and Notify on a connection that
// has ended; the cause is wrapped beside it.
var ErrClosed = errors.New("connection closed")

// Options of a Conn; zero fields are defaults.
type Options struct {
	// MaxSendBytes is the largest frame the peer takes (default 1 MiB). Larger ones
	// are refused here with payload_too_large. SetMaxSendBytes changes it.
	MaxSendBytes int
	// Dialect translates method names (default: the protocol's own).
	Dialect Dialect
	// OnProtocolError is told of malformed frames, of error answers without an id,
	// and of notifications that could not be decoded. It must be quick.
	OnProtocolError func(error)
	// OnInternalError is told of handlers' errors whose text does not cross the
	// wire, and of panics, with their stack.
	OnInternalError func(method string, err error, stack []byte)
}

// Conn is one connection, the same at both ends. Calls, notifications and Close
// may be used concurrently. It owns its Frames and ends with them: by Close, by
// the peer, or by an error.
type Conn struct {
	frames   Frames
	mux      *Mux
	opts     Options
	w        writer
	workers  workers
	takeover takeover
	eager    eagerReader // nil: every request goes to a worker

	ctx    context.Context // ends with the connection; the base of every handler's
	cancel context.CancelFunc
	done   chan struct{} // closed when everything has ended

	maxSend  atomic.Int64
	binary   atomic.Bool
	closing  atomic.Bool // what still comes in is dropped
	lastID   atomic.Uint64
	inFlight atomic.Int32 // requests of the peer being handled
	dropped  atomic.Int64 // notifications that were dropped

	work  sync.WaitGroup // the read loop, handlers, the write loop
	begin sync.Once
	ended atomic.Bool // by whoever set it

	mu      sync.Mutex
	pending map[uint64]*pendingCall
	free    []*pendingCall
	lanes   map[string]*lane
	err     error // why the connection ended; set once
}

type connKey struct{}

// NewConn makes a connection over f, which it owns from now on. Nothing is read
// before Start.
func NewConn(f Frames, mux *Mux, opts *Options) *Conn {
	c := &Conn{frames: f, mux: mux, done: make(chan struct{}),
		pending: map[uint64]*pendingCall{}, lanes: map[string]*lane{}}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.MaxSendBytes <= 0 {
		c.opts.MaxSendBytes = protocol.DefaultMaxControlFrame
	}
	c.maxSend.Store(int64(c.opts.MaxSendBytes))
	c.ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), connKey{}, c))
	c.w.init(c)
	c.workers.c = c
	c.takeover.c = c
	c.eager, _ = f.(eagerReader)
	return c
}

// FromContext returns the connection a handler was called on.
func FromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Start begins to read. Calls made before it wait for their answers until then.
func (c *Conn) Start() {
	c.begin.Do(func() {
		c.work.Add(1)
		stop := func() {}
		if k, ok := c.frames.(keepAliver); ok {
			stop = k.keepAlive()
		}
		go func() {
			defer c.work.Done()
			c.readLoop()
		}()
		go func() { // the last to go: it waits for all the others
			c.work.Wait()
			stop()
			close(c.done)
		}()
	})
}

// Close ends the connection with close code 1000, waits for what is being sent,
// for the read loop and for every handler. It must not be called by a handler,
// which would wait for itself; Shutdown is for those.
func (c *Conn) Close() error {
	c.Shutdown(protocol.CloseNormal, "")
	c.begin.Do(func() { close(c.done) }) // never started
	<-c.done
	return nil
}

// Shutdown sends what is queued, for at most a few seconds, closes with code and
// reason, and does not wait for handlers. Only the first call has an effect.
func (c *Conn) Shutdown(code int, reason string) {
	if c.ended.Swap(true) {
		return
	}
	c.setErr(&CloseError{Code: code, Reason: reason, Local: true})
	c.w.finish(closeFlushTimeout)
	c.release()
	_ = c.frames.Close(code, reason)
}

// Done is closed when the connection and all its handlers have ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Context ends when the connection does, before its handlers have.
func (c *Conn) Context() context.Context { return c.ctx }

// Err says why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// SetMaxSendBytes sets the largest frame the peer takes.
func (c *Conn) SetMaxSendBytes(n int) {
	if n > 0 {
		c.maxSend.Store(int64(n))
	}
}

// SetMaxReceiveBytes sets the largest frame this end takes, where the transport
// has such a limit.
func (c *Conn) SetMaxReceiveBytes(n int) {
	if f, ok := c.frames.(interface{ SetMaxReceiveBytes(int) }); ok && n > 0 {
		f.SetMaxReceiveBytes(n)
	}
}

// SetBinary says that the peer takes binary messages (spec section 1.7).
func (c *Conn) SetBinary(ok bool) { c.binary.Store(ok) }

// Subprotocol is what the two ends agreed on.
func (c *Conn) Subprotocol() string { return c.frames.Subprotocol() }

// Dropped counts the notifications that came faster than they were handled and
// were dropped.
func (c *Conn) Dropped() int64 { return c.dropped.Load() }

const closeFlushTimeout = 5 * time.Second

// fail ends the connection after an error of its transport.
func (c *Conn) fail(err error) {
	if c.ended.Swap(true) {
		return
	}
	c.setErr(err)
	c.w.abort(err)
	code, reason := protocol.CloseInternal, ""
	var ce *CloseError
	if errors.As(err, &ce) {
		code, reason = ce.Code, ce.Reason
	}
	c.release()
	_ = c.frames.Close(code, reason)
}

// failWriting is fail after a write error. The reader is given a moment to find the
// peer's close message behind it, which says why.
func (c *Conn) failWriting(err error) {
	c.w.abort(err)
	time.AfterFunc(closeTimeout, func() { c.fail(err) })
}

func (c *Conn) setErr(err error) {
	c.closing.Store(true)
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
}

// release frees everybody who waits for the peer.
func (c *Conn) release() {
	c.cancel()
	c.workers.end()
	c.takeover.stop()
	c.mu.Lock()
	calls := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, p := range calls {
		p.reply <- reply{lost: true}
	}
}

func (c *Conn) closedError() error {
	return fmt.Errorf("%w: %w", ErrClosed, c.Err())
}

// pendingCall waits for one answer. It is reused; reply has room for one.
type pendingCall struct {
	reply chan reply
	first func(message) // runs on the read loop, before the next frame is looked at
}

type reply struct {
	msg   message
	frame buffer
	lost  bool // the connection ended first
}

// Call sends a request and waits for its answer: a result, the peer's
// *protocol.Error, the context's error, or one that wraps ErrClosed. After the
// context's end a late answer is dropped; whether the peer did what was asked is
// unknown then.
func Call[P, R any](ctx context.Context, c *Conn, m protocol.Method[P, R], params P) (R, error) {
	var result R
	err := c.call(ctx, m.Spec, &params, &result, nil)
	return result, err
}

// CallInOrder is Call for an answer that changes what the messages behind it mean:
// then runs on the read loop when a result has come, before the next message is
// looked at. It has to be quick and must not use the connection.
func CallInOrder[P, R any](ctx context.Context, c *Conn, m protocol.Method[P, R], params P, then func(R)) (R, error) {
	var result R
	err := c.call(ctx, m.Spec, &params, &result, func(m message) {
		var r R
		if m.err == nil && decodeResult(m, &r) == nil {
			then(r)
		}
	})
	return result, err
}

// Notify sends a notification. It returns when the message is on its way, which
// waits for a peer that reads slowly.
func Notify[P any](ctx context.Context, c *Conn, n protocol.Notification[P], params P) error {
	return c.NotifyRaw(ctx, n.Spec, &params)
}

// CallRaw is Call for a method whose types are not known here. result is a
// pointer, or nil to drop the result.
func (c *Conn) CallRaw(ctx context.Context, spec protocol.Spec, params, result any) error {
	return c.call(ctx, spec, params, result, nil)
}

func (c *Conn) call(ctx context.Context, spec protocol.Spec, params, result any, first func(message)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := c.lastID.Add(1)
	id := newID(n)
	f := getBuffer()
	if err := writeRequest(&f, &id, c.opts.Dialect.outbound(spec.Name), params, c.binary.Load()); err != nil {
		f.free()
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	if err := c.checkSize(&f); err != nil {
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	c.mu.Lock()
	if c.pending == nil || c.err != nil {
		c.mu.Unlock()
		f.free()
		return fmt.Errorf("%s: %w", spec.Name, c.closedError())
	}
	p := c.newPending()
	p.first = first
	c.pending[n] = p
	busy := len(c.pending) > 1
	c.mu.Unlock()

	if err := c.w.send(ctx, f, spec.Stream, busy); err != nil {
		c.forget(n, p)
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	var r reply
	if ctx.Done() == nil {
		r = <-p.reply
	} else {
		select {
		case r = <-p.reply:
		case <-ctx.Done():
			c.forget(n, p)
			return fmt.Errorf("%s: %w", spec.Name, ctx.Err())
		}
	}
	c.freePending(p)
	if r.lost {
		return fmt.Errorf("%s: %w", spec.Name, c.closedError())
	}
	defer r.frame.free()
	if r.msg.err != nil {
		return decodeError(r.msg.err)
	}
	if err := decodeResult(r.msg, result); err != nil {
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	return nil
}

// NotifyRaw is Notify for a method whose types are not known here.
func (c *Conn) NotifyRaw(ctx context.Context, spec protocol.Spec, params any) error {
	f := getBuffer()
	if err := writeRequest(&f, nil, c.opts.Dialect.outbound(spec.Name), params, c.binary.Load()); err != nil {
		f.free()
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	if err := c.checkSize(&f); err != nil {
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	if err := c.w.send(ctx, f, spec.Stream, false); err != nil {
		return fmt.Errorf("%s: %w", spec.Name, err)
	}
	return nil
}

// checkSize frees the frame and returns payload_too_large when the peer would not
// take it.
func (c *Conn) checkSize(f *buffer) error {
	if limit := c.maxSend.Load(); int64(len(f.b)) > limit {
		n := len(f.b)
		f.free()
		return protocol.Errorf(protocol.CodePayloadTooLarge, "a message of %d bytes is over the peer's limit of %d", n, limit)
	}
	return nil
}

// forget gives up a call. When its answer is already on the way to the channel, it
// is taken from there, so that the pendingCall can be reused.
func (c *Conn) forget(n uint64, p *pendingCall) {
	c.mu.Lock()
	_, waiting := c.pending[n]
	delete(c.pending, n)
	c.mu.Unlock()
	if !waiting {
		r := <-p.reply
		r.frame.free()
	}
	c.freePending(p)
}

// maxFreePending is how many pendingCalls a connection keeps for its next calls.
const maxFreePending = 64

// newPending and freePending keep them by connection, not in a sync.Pool, since a
// channel must not leave the test bubble it was made in. c.mu is held by the caller
// of newPending.
func (c *Conn) newPending() *pendingCall {
	if n := len(c.free); n > 0 {
		p := c.free[n-1]
		c.free = c.free[:n-1]
		return p
	}
	return &pendingCall{reply: make(chan reply, 1)}
}

func (c *Conn) freePending(p *pendingCall) {
	p.first = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < maxFreePending {
		c.free = append(c.free, p)
	}
}

func decodeResult(m message, result any) error {
	if result == nil || len(m.result) == 0 || string(m.result) == "null" {
		return nil
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = append((*raw)[:0], m.result...)
		return nil
	}
	if err := jsonwire.Unmarshal(m.result, result, true); err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	if blob, ok := result.(protocol.Blob); ok && m.data != nil {
		*blob.Blob() = append([]byte(nil), m.data...)
	}
	return nil
}
