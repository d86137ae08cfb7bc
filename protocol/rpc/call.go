package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// pendingCall waits for one answer. It is reused; reply has room for one.
type pendingCall struct {
	reply chan reply
	first func(message)              // runs on the read loop, before the next frame is looked at
	then  func(m message, lost bool) // takes the answer in place of reply, likewise
}

type reply struct {
	msg   message
	frame buffer
	lost  bool // the connection ended first
}

// Call sends a request and waits for its answer: a result, the peer's
// *protocol.Error, the context's error, or one that wraps ErrClosed; any other is of an
// answer that is malformed. After the
// context's end a late answer is dropped; whether the peer did what was asked is
// unknown then.
func Call[P, R any](ctx context.Context, c *Conn, m protocol.Method[P, R], params P) (R, error) {
	var result R
	err := c.call(ctx, m.Spec, &params, &result, nil)
	return result, err
}

// CallInto is Call for who asks again and again: the result goes into that of the time
// before, and what its protocol.Blob holds is overwritten. After an error result is not to be
// looked at.
func CallInto[P, R any](ctx context.Context, c *Conn, m protocol.Method[P, R], params P, result *R) error {
	var memory []byte
	blob, ok := any(result).(protocol.Blob)
	if ok {
		memory = (*blob.Blob())[:0]
	}
	var none R
	*result = none
	if ok {
		*blob.Blob() = memory
	}
	return c.call(ctx, m.Spec, &params, result, nil)
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

// ErrNoRoom is returned by Send when too much waits for the peer already.
var ErrNoRoom = errors.New("too much waits to be sent")

// Send is Call without waiting, neither for the answer nor for a peer that reads
// slowly. When it returns nil, then is called once: with the result or the peer's
// error, on the read loop before the next message is looked at; or, when the connection
// ends first, with an error that wraps ErrClosed. then has to be quick and must not wait
// for the connection; it may Send.
func Send[P, R any](c *Conn, m protocol.Method[P, R], params P, then func(R, error)) error {
	n := c.lastID.Add(1)
	id := newID(n)
	f := getBuffer()
	if err := writeRequest(&f, &id, c.opts.Dialect.outbound(m.Name), &params, c.binary.Load()); err != nil {
		f.free()
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	if err := c.checkSize(&f); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	answered := func(a message, lost bool) {
		var r R
		switch {
		case lost:
			then(r, fmt.Errorf("%s: %w", m.Name, c.closedError()))
		case a.err != nil:
			then(r, decodeError(a.err))
		default:
			err := decodeResult(a, &r)
			then(r, err)
		}
	}
	c.mu.Lock()
	if c.pending == nil || c.err != nil {
		c.mu.Unlock()
		f.free()
		return fmt.Errorf("%s: %w", m.Name, c.closedError())
	}
	c.pending[n] = &pendingCall{then: answered}
	c.mu.Unlock()
	err := c.w.send(dontWait, f, m.Stream, false, nil)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	_, waiting := c.pending[n]
	delete(c.pending, n)
	c.mu.Unlock()
	if !waiting { // the connection has ended, and then was told
		return nil
	}
	return fmt.Errorf("%s: %w", m.Name, err)
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

	if err := c.w.send(ctx, f, spec.Stream, busy, nil); err != nil {
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
	if err := c.w.send(ctx, f, spec.Stream, false, nil); err != nil {
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
		*blob.Blob() = append((*blob.Blob())[:0], m.data...)
	}
	return nil
}
