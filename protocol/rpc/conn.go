package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-executor/executor/protocol"
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
	parts    atomic.Bool
	closing  atomic.Bool // what still comes in is dropped
	lastID   atomic.Uint64
	inFlight atomic.Int32 // requests of the peer being handled
	dropped  atomic.Int64 // notifications that were dropped

	maxReceive atomic.Int64 // of a message in parts; of others the transport sees to it
	partial    buffer       // what has come of one; the reader's

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
	c.maxReceive.Store(protocol.DefaultMaxControlFrame)
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

// SetMaxReceiveBytes sets the largest message this end takes: one that comes in parts,
// and, where the transport has such a limit, any.
func (c *Conn) SetMaxReceiveBytes(n int) {
	if n <= 0 {
		return
	}
	c.maxReceive.Store(int64(n))
	if f, ok := c.frames.(interface{ SetMaxReceiveBytes(int) }); ok {
		f.SetMaxReceiveBytes(n)
	}
}

// SetBinary says that the peer takes binary messages (spec section 1.7).
func (c *Conn) SetBinary(ok bool) { c.binary.Store(ok) }

// Sending says whether something large waits for the peer to read, and a number that
// changes as long as it does: an answer that is waited for longer than usual may be one
// to what has not arrived.
func (c *Conn) Sending() (moved int64, waiting bool) { return c.w.sending() }

// Subprotocol is what the two ends agreed on.
func (c *Conn) Subprotocol() string { return c.frames.Subprotocol() }

// Dropped counts the notifications that came faster than they were handled and
// were dropped.
func (c *Conn) Dropped() int64 { return c.dropped.Load() }

const closeFlushTimeout = 5 * time.Second

// fail ends the connection after an error of its transport. While Shutdown is at it,
// there is nobody left to flush to; and the writer must not begin anything once the
// reader, which is the caller, has gone.
func (c *Conn) fail(err error) {
	if c.ended.Swap(true) {
		c.w.abort(err)
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
		if p.then != nil {
			p.then(message{}, true)
		} else {
			p.reply <- reply{lost: true}
		}
	}
}

func (c *Conn) closedError() error {
	return fmt.Errorf("%w: %w", ErrClosed, c.Err())
}
