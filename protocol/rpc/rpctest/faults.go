package rpctest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// ErrCut is the error of frames whose transport was cut.
var ErrCut = errors.New("cut by a fault")

// Action is what happens to a frame.
type Action struct {
	kind  actionKind
	delay time.Duration
}

type actionKind int

const (
	pass actionKind = iota
	cutBefore
	cutAfter
	stall
	drop
	repeat
	delay
)

var (
	CutBefore = Action{kind: cutBefore} // the transport is closed abruptly and the frame is lost
	CutAfter  = Action{kind: cutAfter}  // the frame passes, then the transport is closed abruptly
	Stall     = Action{kind: stall}     // the frame and all behind it in its direction are swallowed; nothing is closed
	Drop      = Action{kind: drop}      // the frame is lost
	Repeat    = Action{kind: repeat}    // the frame passes twice
)

// Delay holds the frame, and what is behind it, for d.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Rule says what happens to one message.
type Rule struct {
	Method string // "" = any
	Answer bool   // the answer to a request of Method, not the request itself
	Nth    int    // the n-th such message after the rule was added, from 1 (0 = the first, -1 = every one)
	Do     Action
}

// Faults does what its rules say to the messages, in both directions, of every
// Frames it wraps; it counts them over all of these. A message that two rules fit
// gets the first one. Its methods may be called concurrently.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
	watch func(method string, answer bool)
	live  map[*faulty]struct{}
}

type rule struct {
	Rule
	seen int
}

// NewFaults makes faults with rules to begin with.
func NewFaults(rules ...Rule) *Faults {
	f := &Faults{live: map[*faulty]struct{}{}}
	for _, r := range rules {
		f.Add(r)
	}
	return f
}

// Add adds a rule, which counts from now on.
func (f *Faults) Add(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule{Rule: r})
}

// Watch has see told of every message from now on, before its fault, one at a time and
// in order. see must not wait. A test learns from it what a rule may be about.
func (f *Faults) Watch(see func(method string, answer bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = see
}

// Wrap returns frames with the faults. transport is what frames travel over, which
// a cut closes, so that the peer sees no close message; when it is nil the peer of
// a cut sees close code 1006 if it can see one at all. A *Conn is reset.
//
// What the transport does by itself, pings and pongs, is not seen by rules, and a
// connection over wrapped frames does not send pings: use Listener.Stall where it
// is the keep-alive that should notice.
func (f *Faults) Wrap(frames rpc.Frames, transport io.Closer) rpc.Frames {
	w := &faulty{Frames: frames, faults: f, transport: transport, closed: make(chan struct{})}
	f.mu.Lock()
	f.live[w] = struct{}{}
	f.mu.Unlock()
	return w
}

// Dial is rpc.Dial with the faults on what it returns.
func (f *Faults) Dial(ctx context.Context, url string, o rpc.DialOptions) (rpc.Frames, error) {
	dial := o.NetDial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var transport net.Conn
	o.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err == nil {
			transport = c
		}
		return c, err
	}
	frames, err := rpc.Dial(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return f.Wrap(frames, transport), nil
}

// CutNow cuts every connection there is.
func (f *Faults) CutNow() {
	f.mu.Lock()
	live := make([]*faulty, 0, len(f.live))
	for w := range f.live {
		live = append(live, w)
	}
	f.mu.Unlock()
	for _, w := range live {
		w.cut()
	}
}

// match finds the action for a message and counts it in every rule that fits.
func (f *Faults) match(method string, answer bool) Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch(method, answer)
	}
	var do Action
	for _, r := range f.rules {
		if r.Answer != answer || r.Method != "" && r.Method != method {
			continue
		}
		r.seen++
		if do.kind == pass && (r.Nth < 0 || r.seen == max(r.Nth, 1)) {
			do = r.Do
		}
	}
	return do
}

// faulty is one wrapped connection.
type faulty struct {
	rpc.Frames
	faults    *Faults
	transport io.Closer
	closing   sync.Once
	closed    chan struct{}

	mu       sync.Mutex
	parting  [2]bool           // a message in parts is on its way: out, in
	dropping [2]bool           // and is lost
	sent     map[string]string // id → method of the requests that wait for an answer
	received map[string]string
	deaf     bool // what comes in is swallowed
	mute     bool // what goes out is
	wasCut   bool
	again    []byte // to be read once more; only the reader uses it
}

// SetMaxReceiveBytes passes the limit on.
func (w *faulty) SetMaxReceiveBytes(n int) {
	if f, ok := w.Frames.(interface{ SetMaxReceiveBytes(int) }); ok {
		f.SetMaxReceiveBytes(n)
	}
}

func (w *faulty) ReadFrame(ctx context.Context) ([]byte, error) {
	if frame := w.again; frame != nil {
		w.again = nil
		return frame, nil
	}
	for {
		if w.isCut() {
			return nil, w.drain(ctx)
		}
		frame, err := w.Frames.ReadFrame(ctx)
		if w.isCut() {
			return nil, w.drain(ctx)
		}
		if w.is(&w.deaf) {
			if err == nil {
				continue
			}
			select { // the end is not noticed either
			case <-ctx.Done():
			case <-w.closed:
			}
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		switch do := w.judge(frame, 1, &w.received, &w.sent); do.kind {
		case drop:
			continue
		case stall:
			w.set(&w.deaf)
			continue
		case cutBefore:
			w.cut()
			return nil, w.drain(ctx)
		case cutAfter:
			w.cut()
		case repeat:
			w.again = append([]byte(nil), frame...)
		case delay:
			if err := w.wait(ctx, do.delay); err != nil {
				return nil, err
			}
		}
		return frame, nil
	}
}

func (w *faulty) WriteFrame(ctx context.Context, frame []byte) error {
	switch {
	case w.isCut():
		return ErrCut
	case w.is(&w.mute):
		return nil
	}
	switch do := w.judge(frame, 0, &w.sent, &w.received); do.kind {
	case drop:
		return nil
	case stall:
		w.set(&w.mute)
		return nil
	case cutBefore:
		w.cut()
		return ErrCut
	case cutAfter:
		w.set(&w.wasCut) // before the frame can be answered
		if err := w.Frames.WriteFrame(ctx, frame); err != nil {
			return err
		}
		w.cutGently()
		return nil
	case repeat:
		if err := w.Frames.WriteFrame(ctx, frame); err != nil {
			return err
		}
	case delay:
		if err := w.wait(ctx, do.delay); err != nil {
			return err
		}
	}
	return w.Frames.WriteFrame(ctx, frame)
}

// drain reads the cut transport to its end, so that Close, which waits for that,
// need not.
func (w *faulty) drain(ctx context.Context) error {
	for {
		if _, err := w.Frames.ReadFrame(ctx); err != nil {
			return ErrCut
		}
	}
}

// Close closes the frames; the peer of a direction that stalled is not told.
func (w *faulty) Close(code int, reason string) error {
	w.forget()
	if w.is(&w.mute) {
		w.closeTransport(false)
	}
	return w.Frames.Close(code, reason)
}

func (w *faulty) forget() {
	w.closing.Do(func() { close(w.closed) })
	w.faults.mu.Lock()
	delete(w.faults.live, w)
	w.faults.mu.Unlock()
}

func (w *faulty) cut() {
	w.set(&w.wasCut)
	w.forget()
	w.closeTransport(true)
}

// cutGently lets arrive what was written.
func (w *faulty) cutGently() {
	w.set(&w.wasCut)
	w.forget()
	w.closeTransport(false)
}

func (w *faulty) closeTransport(lose bool) {
	switch t := w.transport.(type) {
	case nil:
		go func() { _ = w.Frames.Close(1006, "") }() // it may wait for the reader, who is here
	case *Conn:
		if lose {
			t.Cut()
		} else {
			_ = t.Close()
		}
	default:
		_ = t.Close()
	}
}

func (w *faulty) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closed:
		return ErrCut
	}
}

func (w *faulty) is(flag *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *flag
}

func (w *faulty) isCut() bool { return w.is(&w.wasCut) }

func (w *faulty) set(flag *bool) {
	w.mu.Lock()
	*flag = true
	w.mu.Unlock()
}

// judge finds out what a frame is. asked are the requests that go the way of the
// frame, answered those that come the other way. Of a message in parts the first is
// judged; it is dropped with all the others, and is not repeated.
func (w *faulty) judge(frame []byte, way int, asked, answered *map[string]string) Action {
	if len(frame) > 0 && (frame[0] == 1 || frame[0] == 2) {
		w.mu.Lock()
		first, lost := !w.parting[way], w.dropping[way]
		w.parting[way] = frame[0] == 1
		w.dropping[way] = lost && frame[0] == 1
		w.mu.Unlock()
		switch {
		case !first && lost:
			return Drop
		case !first:
			return Action{}
		}
		do := w.judge(beginning(frame[1:]), way, asked, answered)
		switch do.kind {
		case drop:
			w.set(&w.dropping[way])
		case repeat: // of a part it would be another message
			do = Action{}
		}
		return do
	}
	if len(frame) >= 4 && frame[0] == 0 { // a binary message: its JSON comes first
		n := min(int(binary.BigEndian.Uint32(frame)), len(frame)-4)
		frame = frame[4 : 4+n]
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(frame, &m) != nil {
		return Action{}
	}
	if m.Method != "" {
		m.Method = protocol.CanonicalName(m.Method)
		if m.ID != nil {
			w.mu.Lock()
			if *asked == nil {
				*asked = map[string]string{}
			}
			(*asked)[string(m.ID)] = m.Method
			w.mu.Unlock()
		}
		return w.faults.match(m.Method, false)
	}
	w.mu.Lock()
	method := (*answered)[string(m.ID)]
	delete(*answered, string(m.ID))
	w.mu.Unlock()
	return w.faults.match(method, true)
}

// beginning is a message of which only the first piece is there, without its params or
// result.
func beginning(piece []byte) []byte {
	if len(piece) > 4 && piece[0] == 0 {
		piece = piece[4:]
	}
	for _, member := range []string{`,"params":`, `,"result":`} {
		if i := bytes.Index(piece, []byte(member)); i >= 0 {
			return append(bytes.Clone(piece[:i]), '}')
		}
	}
	return piece
}
