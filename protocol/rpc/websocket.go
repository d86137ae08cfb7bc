package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agent-executor/executor/protocol"
)

const (
	frameHeader    = 125 // gorilla's smallest read buffer: a control frame
	readBuffer     = 4 << 10
	writeTimeout   = 25 * time.Second // for each chunk of at most wideBatch bytes
	maxCloseReason = 123              // what fits into a control frame
	closeTimeout   = time.Second      // for the peer's close message
)

// webSocket is Frames over gorilla/websocket.
type webSocket struct {
	ws     *websocket.Conn
	socket *socket
	out    *output
	pace   *pace // nil when there are no pings
	client bool  // its frames are masked

	onClose func() // called, if any, when the socket is closed

	limit    atomic.Int64
	closing  atomic.Bool
	expected int           // bytes of the next message, as far as the last one tells; the reader's
	silent   atomic.Bool   // ended by keepAlive
	readDone chan struct{} // closed when reading has ended
	readOnce sync.Once

	ping    time.Duration
	dead    time.Duration
	timer   *time.Timer
	timerMu sync.Mutex
}

// ErrSilent is wrapped by the error of a connection that ended because nothing
// came in any more, not even an answer to a ping (spec section 1.9).
var ErrSilent = errors.New("peer is silent")

// keepAliver is a transport that finds out by itself that the peer is gone.
type keepAliver interface {
	keepAlive() (stop func())
}

func newWebSocket(ws *websocket.Conn, s *socket, client bool, o transportOptions) *webSocket {
	w := &webSocket{ws: ws, socket: s, client: client, readDone: make(chan struct{}), ping: o.ping, dead: o.dead}
	w.limit.Store(int64(o.maxFrame))
	if to := ws.NetConn(); to == net.Conn(s) {
		raw := s.rawConn()
		w.out = newOutput(to, raw)
		s.direct = newDirectRead(s.Conn, raw)
	} else { // TLS
		w.out = newOutput(to, nil)
	}
	if o.ping > 0 {
		w.pace = &pace{credit: firstCredit, ping: func(payload []byte) { w.out.add(opPing, true, w.client, payload) }}
		ws.SetPongHandler(func(data string) error {
			w.pace.pong(data)
			return nil
		})
	}
	ws.SetPingHandler(func(data string) error {
		w.control(opPong, []byte(data))
		return nil
	})
	ws.SetCloseHandler(func(code int, _ string) error {
		if code == websocket.CloseNoStatusReceived {
			code = protocol.CloseNormal
		}
		w.control(opClose, websocket.FormatCloseMessage(code, ""))
		return nil
	})
	return w
}

func (w *webSocket) more() bool { return w.socket.more() }

func (w *webSocket) Subprotocol() string { return w.ws.Subprotocol() }

// SetMaxReceiveBytes sets the largest message that is read; a larger one closes
// the connection with 1009.
func (w *webSocket) SetMaxReceiveBytes(n int) { w.limit.Store(int64(n)) }

func (w *webSocket) ReadFrame(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f := getBuffer()
	if err := w.readFrame(&f); err != nil {
		f.free()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return f.b, nil
}

func (w *webSocket) readFrame(f *buffer) error {
	err := w.readMessage(f)
	if err == nil {
		return nil
	}
	w.readOnce.Do(func() { close(w.readDone) })
	if w.silent.Load() {
		return fmt.Errorf("%w: nothing received for %v", ErrSilent, w.dead)
	}
	var ce *websocket.CloseError
	if errors.As(err, &ce) && ce.Code != websocket.CloseAbnormalClosure {
		return &CloseError{Code: ce.Code, Reason: ce.Text}
	}
	return err
}

func (w *webSocket) readMessage(f *buffer) error {
	_, r, err := w.ws.NextReader()
	if err != nil {
		return err
	}
	limit := w.limit.Load()
	if w.expected > largeBuffer { // the messages of much output are alike
		f.reserve(min(w.expected, hugeBuffer))
	}
	for {
		if len(f.b) == cap(f.b) {
			f.reserve(max(1, min(cap(f.b), int(limit)+1-len(f.b))))
		}
		n, err := r.Read(f.b[len(f.b):cap(f.b)])
		f.b = f.b[:len(f.b)+n]
		if int64(len(f.b)) > limit {
			return &CloseError{Code: protocol.CloseTooBig, Local: true,
				Reason: fmt.Sprintf("message over the limit of %d bytes", limit)}
		}
		if err == io.EOF {
			w.expected = len(f.b)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// WriteFrame writes a message of any size in chunks, each with its own deadline and not
// before the peer has read most of those before, with pings and pongs between them.
func (w *webSocket) WriteFrame(ctx context.Context, frame []byte) error {
	opcode := opcodeOf(frame)
	for first := true; first || len(frame) > 0; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(frame), maxBatch)
		w.out.add(opcode, n == len(frame), w.client, frame[:n])
		frame, opcode = frame[n:], opContinuation
		if w.pace != nil {
			w.pace.wrote(n)
		}
		if err := w.flush(); err != nil {
			return err
		}
		if len(frame) > 0 {
			if err := w.awaitCredit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitCredit waits until more bulk may be written.
func (w *webSocket) awaitCredit(ctx context.Context) error {
	for w.pace != nil {
		changed := w.pace.wait()
		if changed == nil {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *webSocket) appendFrame(frame []byte) { w.out.add(opcodeOf(frame), true, w.client, frame) }

func (w *webSocket) flush() error { return w.out.flush(writeTimeout) }

func (w *webSocket) tryFlush() (bool, error) { return w.out.tryFlush() }

// control sends a control frame without waiting: when somebody else is writing,
// the frame goes out with that write or the next.
func (w *webSocket) control(opcode byte, payload []byte) {
	w.out.add(opcode, true, w.client, payload)
	w.out.nudge()
}

// keepAlive pings, and ends the connection when nothing has come in for too long.
// It uses no goroutine.
func (w *webSocket) keepAlive() (stop func()) {
	if w.ping <= 0 {
		return func() {}
	}
	var running sync.WaitGroup
	stopped := false
	var tick func()
	tick = func() {
		w.timerMu.Lock()
		if stopped {
			w.timerMu.Unlock()
			return
		}
		running.Add(1)
		w.timerMu.Unlock()
		defer running.Done()
		idle := w.socket.idle()
		if idle >= w.dead {
			w.silent.Store(true)
			_ = w.socket.Conn.Close() // the reader and the writer see it
			return
		}
		if w.pace != nil {
			w.pace.late()
		}
		w.control(opPing, nil)
		w.timerMu.Lock()
		if !stopped {
			w.timer = time.AfterFunc(min(w.ping, w.dead-idle), tick)
		}
		w.timerMu.Unlock()
	}
	w.timerMu.Lock()
	w.timer = time.AfterFunc(w.ping, tick)
	w.timerMu.Unlock()
	return func() {
		w.timerMu.Lock()
		stopped = true
		w.timer.Stop()
		w.timerMu.Unlock()
		running.Wait()
	}
}

// Close sends a close message, waits shortly for the peer's, and closes the
// socket. It must not be called by the goroutine that reads, except after reading
// has failed.
func (w *webSocket) Close(code int, reason string) error {
	if w.closing.Swap(true) {
		return nil
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxCloseReason)], "")
	w.out.add(opClose, true, w.client, websocket.FormatCloseMessage(code, reason))
	w.out.flushLast(closeTimeout)
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-w.readDone:
	case <-t.C:
	}
	err := w.socket.Conn.Close()
	if w.onClose != nil {
		w.onClose()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// refuse closes a connection that nobody reads yet.
func (w *webSocket) refuse(code int, reason string) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		f := getBuffer()
		defer func() { f.free() }()
		for w.readFrame(&f) == nil {
			f.b = f.b[:0]
		}
	}()
	_ = w.Close(code, reason)
	<-read
}
