package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

const (
	// channelWindow and channelMessages bound what of a channel is on its way: sent, and
	// not yet taken by who reads the other end. One message may be larger than the window.
	channelWindow   = 4 << 20
	channelMessages = 256
	// ackBytes and ackMessages are how much is taken before the other end is told.
	ackBytes    = channelWindow / 8
	ackMessages = channelMessages / 8
)

// takenMark is the first byte of the binary message that tells how many messages this
// end has taken since the channel began: 8 bytes, big-endian, behind it.
const takenMark = 3

// ErrNotResumed ends a channel whose other end has forgotten what it had taken: a
// message may be missing, and nobody knows which.
var ErrNotResumed = errors.New("the other end does not remember this channel")

// Channel is a stream of messages beside the control connection that outlives its
// transports (spec section 1.5; PROTOCOL.md "Resuming a channel"). Whoever has it reads
// and writes; whoever dials or accepts its transports gives them to Serve, one after
// another. What the other end has not taken when a transport is lost is sent again on the
// next, once. Both ends are held up by a peer that does not read: ReadFrame and
// WriteFrame wait. One goroutine may read while another writes; the other methods may
// be called concurrently. It has no goroutine of its own; Close or End ends it.
type Channel struct {
	limit int // largest message

	mu    sync.Mutex
	input signal // something has come in
	send  signal // something is to go out
	room  signal // something was taken, at either end

	// What goes out: messages base … base+len(out)-1, of which those below next are
	// written on the present transport.
	out      [][]byte
	base     uint64
	next     uint64
	outBytes int // of out
	closing  *CloseError

	// What comes in: in holds those that nobody has taken yet, own what was inserted here.
	in      [][]byte
	inBytes int
	taken   uint64 // by ReadFrame
	held    uint64 // taken and in
	told    uint64 // of taken, to the other end
	untold  int    // bytes taken since
	full    bool   // the transport is not read until there is room
	own     [][]byte

	serving *attachment
	err     error // final
}

// attachment is one transport.
type attachment struct {
	frames  Frames
	resume  bool
	from    uint64 // what the other end sends from: the messages that were taken before
	greeted bool   // the other end has said the same
	theirs  uint64 // what the other end has said since that it has taken
	ended   chan struct{}
	stop    context.CancelFunc
}

// signal wakes those who wait. The channel's lock is held for both its methods.
type signal struct{ ch chan struct{} }

func (s *signal) wake() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

func (s *signal) wait() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// NewChannel makes a channel whose messages have at most limit bytes (0: 4 MiB).
func NewChannel(limit int) *Channel {
	if limit <= 0 {
		limit = protocol.DefaultMaxMCPFrame
	}
	return &Channel{limit: limit}
}

// Limit is the size of the largest message in bytes.
func (c *Channel) Limit() int { return c.limit }

// await waits until ready says so, and returns with c.mu held; or, without it, the
// context's error. It looks when s is woken; ready is asked with c.mu held.
func (c *Channel) await(ctx context.Context, s *signal, ready func() bool) error {
	c.mu.Lock()
	for !ready() {
		woken := s.wait()
		c.mu.Unlock()
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
	}
	return nil
}

// ReadFrame returns the next message; the slice is the caller's own. It waits while there
// is no transport. After the end it returns what had come before, then why it ended: a
// *CloseError when the other end closed it; io.ErrClosedPipe after Close.
func (c *Channel) ReadFrame(ctx context.Context) ([]byte, error) {
	if err := c.await(ctx, &c.input, func() bool { return len(c.in) > 0 || len(c.own) > 0 || c.err != nil || c.closing != nil }); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	switch {
	case c.closing != nil:
		return nil, io.ErrClosedPipe
	case len(c.own) > 0:
		frame := c.own[0]
		c.own = c.own[1:]
		return frame, nil
	case len(c.in) == 0:
		return nil, c.err
	}
	frame := c.in[0]
	c.in[0] = nil
	c.in = c.in[1:]
	c.inBytes -= len(frame)
	c.taken++
	c.untold += len(frame)
	if c.owesAck() {
		c.send.wake()
	}
	if c.full && c.inBytes < channelWindow {
		c.full = false
		c.room.wake()
	}
	return frame, nil
}

// Insert hands a message to this end's reader as if it had come in: the answer to one
// that cannot be sent, for example.
func (c *Channel) Insert(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.closing == nil {
		c.own = append(c.own, frame)
		c.input.wake()
	}
}

// WriteFrame takes the message; it waits while too much is on its way. The message is the
// channel's from then on. One over the limit is refused with payload_too_large, and the
// channel goes on.
func (c *Channel) WriteFrame(ctx context.Context, frame []byte) error {
	if len(frame) > c.limit {
		return protocol.Errorf(protocol.CodePayloadTooLarge, "a message of %d bytes is over the channel's limit of %d", len(frame), c.limit)
	}
	err := c.await(ctx, &c.room, func() bool {
		return c.err != nil || c.closing != nil || len(c.out) == 0 ||
			len(c.out) < channelMessages && c.outBytes+len(frame) <= channelWindow
	})
	if err != nil {
		return err
	}
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.closing != nil:
		return io.ErrClosedPipe
	}
	c.out = append(c.out, frame)
	c.outBytes += len(frame)
	c.send.wake()
	return nil
}

// Close takes and gives no more messages, and returns at once. What was written before, and then
// the code and the reason, go out as soon as there is a transport; Wait says when. Only
// the first call does something.
func (c *Channel) Close(code int, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing == nil && c.err == nil {
		c.closing = &CloseError{Code: code, Reason: reason, Local: true}
		c.in, c.inBytes, c.full = nil, 0, false
		c.input.wake()
		c.send.wake()
		c.room.wake()
	}
	return nil
}

// End ends the channel with an error, at once, without a word to the other end beyond
// the end of the transport. Only the first call does something.
func (c *Channel) End(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(err)
}

// end is End. c.mu is held.
func (c *Channel) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.out, c.outBytes = nil, 0
	if c.serving != nil {
		c.serving.stop()
	}
	c.input.wake()
	c.send.wake()
	c.room.wake()
}

// Err says why the channel ended; nil while it lives.
func (c *Channel) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Wait waits until the channel has ended, and returns why; or the context's error.
func (c *Channel) Wait(ctx context.Context) error {
	if err := c.await(ctx, &c.input, func() bool { return c.err != nil }); err != nil {
		return err
	}
	defer c.mu.Unlock()
	return c.err
}

// Serve carries the channel over a transport, which is the channel's from now on, until
// it is lost or the channel has ended, and returns why: a *CloseError when an end closed
// it, ErrNotResumed, which has ended the channel, else the transport's own error. A
// transport that is there already is given up for the new one. With resume the other end
// does the same; without, what was written on a transport that is lost may be lost too.
func (c *Channel) Serve(ctx context.Context, f Frames, resume bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &attachment{frames: f, resume: resume, ended: make(chan struct{}), stop: stop}
	if err := c.attach(ctx, a); err != nil {
		a.close(protocol.CloseGoingAway, "")
		return err
	}
	defer close(a.ended)
	var writer sync.WaitGroup
	var failed error
	writer.Go(func() {
		failed = c.write(ctx, a)
		stop()
	})
	err := c.read(ctx, a)
	stop()
	writer.Wait()
	code, reason := protocol.CloseGoingAway, ""
	var own *CloseError
	if errors.As(err, &own) && own.Local || errors.As(failed, &own) && own.Local {
		code, reason, err = own.Code, own.Reason, own
	}
	a.close(code, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.full = nil, false
	switch {
	case own != nil && own.Local && c.closing == own:
		c.end(own)
		return own
	case errors.Is(err, ErrNotResumed):
		c.end(err)
	case errors.Is(err, context.Canceled) && failed != nil && !errors.Is(failed, context.Canceled):
		err = failed
	}
	if c.err != nil && errors.Is(err, context.Canceled) {
		err = c.err
	}
	return err
}

func (a *attachment) close(code int, reason string) { _ = a.frames.Close(code, reason) }

// attach makes a the present transport.
func (c *Channel) attach(ctx context.Context, a *attachment) error {
	for {
		c.mu.Lock()
		if c.err != nil {
			defer c.mu.Unlock()
			return c.err
		}
		before := c.serving
		if before == nil {
			c.serving = a
			c.next = c.base
			a.from, a.greeted = c.taken, !a.resume
			c.told, c.untold = c.taken, 0
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		before.stop()
		select {
		case <-before.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read takes in what comes, until the transport ends.
func (c *Channel) read(ctx context.Context, a *attachment) error {
	stop := func() {}
	if k, ok := a.frames.(keepAliver); ok {
		stop = k.keepAlive()
		defer func() { stop() }()
	}
	if s, ok := a.frames.(interface{ SetMaxReceiveBytes(int) }); ok {
		s.SetMaxReceiveBytes(c.limit)
	}
	coming := a.from
	for {
		frame, err := a.frames.ReadFrame(ctx)
		if err != nil {
			return err
		}
		if len(frame) > 0 && frame[0] == takenMark {
			if err := c.acked(a, frame); err != nil {
				return err
			}
			continue
		}
		full, err := c.came(a, frame, &coming)
		if err != nil {
			return err
		}
		if !full {
			continue
		}
		// A peer without windows is held up by not reading, and must not seem dead for it.
		stop()
		stop = func() {}
		if err := c.await(ctx, &c.room, func() bool { return !c.full || c.err != nil }); err != nil {
			return err
		}
		c.mu.Unlock()
		if k, ok := a.frames.(keepAliver); ok {
			stop = k.keepAlive()
		}
	}
}

// came takes in one message; full says that the peer is to be held up.
func (c *Channel) came(a *attachment, frame []byte, coming *uint64) (full bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false, c.err
	}
	if a.resume {
		*coming++
		if *coming <= c.held {
			return false, nil // it came before
		}
		if c.inBytes > 2*channelWindow+c.limit || len(c.in) > 2*channelMessages {
			return false, &CloseError{Code: protocol.ClosePolicy, Reason: "more is on its way than the channel's window", Local: true}
		}
	}
	if c.closing != nil {
		return false, nil
	}
	c.in = append(c.in, frame)
	c.inBytes += len(frame)
	c.held++
	c.input.wake()
	c.full = !a.resume && c.inBytes >= channelWindow
	return c.full, nil
}

// acked takes what the other end says it has taken.
func (c *Channel) acked(a *attachment, frame []byte) error {
	if !a.resume || len(frame) != 9 {
		return &CloseError{Code: protocol.CloseProtocolError, Reason: "a binary message that means nothing on this channel", Local: true}
	}
	taken := binary.BigEndian.Uint64(frame[1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case taken < c.base:
		return fmt.Errorf("%w: it has taken %d messages of %d that it had said before", ErrNotResumed, taken, c.base)
	case taken > c.base+uint64(len(c.out)):
		return fmt.Errorf("%w: it has taken %d messages, and only %d were sent", ErrNotResumed, taken, c.base+uint64(len(c.out)))
	}
	if !a.greeted {
		a.greeted = true
		c.drop(taken)
		c.send.wake()
		return nil
	}
	a.theirs = taken
	c.drop(a.settled(c.next))
	return nil
}

// settled is what need not be kept any more. The other end may have taken more than was
// sent on this transport, of what it had received before; it counts from its first word
// on, so that is sent all the same.
func (a *attachment) settled(sent uint64) uint64 { return min(a.theirs, sent) }

// drop forgets what goes out below n. c.mu is held.
func (c *Channel) drop(n uint64) {
	for ; c.base < n && len(c.out) > 0; c.base++ {
		c.outBytes -= len(c.out[0])
		c.out[0] = nil
		c.out = c.out[1:]
	}
	c.next = max(c.next, c.base)
	c.room.wake()
}

// write sends what is to go out: first how much was taken, from which the other end goes
// on.
func (c *Channel) write(ctx context.Context, a *attachment) error {
	if a.resume {
		if err := a.frames.WriteFrame(ctx, takenFrame(a.from)); err != nil {
			return err
		}
	}
	for {
		err := c.await(ctx, &c.send, func() bool {
			return c.err != nil || a.resume && c.owesAck() || a.greeted && (c.unsent() || c.closing != nil)
		})
		if err != nil {
			return err
		}
		var frame []byte
		message := false
		switch {
		case c.err != nil:
			defer c.mu.Unlock()
			return c.err
		case a.resume && c.owesAck():
			c.told, c.untold = c.taken, 0
			frame = takenFrame(c.told)
		case c.unsent():
			frame, message = c.out[c.next-c.base], true
			c.next++
			c.drop(a.settled(c.next))
		default:
			end := c.closing
			c.mu.Unlock()
			a.close(end.Code, end.Reason) // while the other goroutine reads the answer to it
			return end
		}
		c.mu.Unlock()
		if err := a.frames.WriteFrame(ctx, frame); err != nil {
			return err
		}
		if message && !a.resume {
			c.mu.Lock()
			c.drop(c.next)
			c.mu.Unlock()
		}
	}
}

func (c *Channel) unsent() bool { return c.next < c.base+uint64(len(c.out)) }

func (c *Channel) owesAck() bool { return c.untold >= ackBytes || c.taken-c.told >= ackMessages }

func takenFrame(n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{takenMark}, n)
}
