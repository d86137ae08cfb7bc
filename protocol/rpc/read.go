package rpc

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/agent-executor/executor/protocol"
)

// maxWaitingNotifications bounds what waits for one notification's handler.
const maxWaitingNotifications = 1024

// bufferedReader is what a transport offers that reads into pooled memory.
type bufferedReader interface {
	readFrame(f *buffer) error
}

// eagerReader is what a transport offers that knows whether more has come in already.
type eagerReader interface{ more() bool }

// readLoop reads until the connection ends, or until a handler that it runs itself
// takes so long that another goroutine has taken over the reading.
func (c *Conn) readLoop() {
	pooled, _ := c.frames.(bufferedReader)
	for {
		var f buffer
		var err error
		if pooled != nil {
			f = getBuffer()
			err = pooled.readFrame(&f)
		} else {
			f.b, err = c.frames.ReadFrame(c.ctx)
		}
		if err != nil {
			f.free()
			c.fail(err)
			return
		}
		if !c.dispatch(f) {
			return
		}
	}
}

// dispatch finds out what a frame is and passes it on; whoever gets it frees it. It
// returns false when another goroutine reads by now.
func (c *Conn) dispatch(f buffer) (reading bool) {
	if c.closing.Load() {
		f.free()
		return true
	}
	if isPart(f.b) {
		whole, complete, err := c.collect(f)
		if err != nil {
			c.fail(err)
			return false
		}
		if !complete {
			return true
		}
		f = whole
	}
	m, bad := parseMessage(f.b)
	if bad != nil {
		f.free()
		c.protocolError(bad)
		c.answer(nil, bad)
		return true
	}
	if m.method == "" {
		c.deliver(m, f)
		return true
	}
	name := protocol.CanonicalName(c.opts.Dialect.inbound(m.method))
	e := c.mux.entries[name]
	switch {
	case e == nil && m.isRequest():
		c.refuse(m, f, protocol.Errorf(protocol.CodeMethodNotFound, "method %q is not known here", m.method))
	case e == nil, !m.isRequest() && !e.spec.Notify:
		// Nobody waits for an answer: an unknown notification, or a request without
		// an id, which must not run since nobody could be told of it.
		f.free()
		c.protocolError(fmt.Errorf("ignored a notification of method %q", m.method))
	case m.isRequest() && e.spec.Notify:
		c.refuse(m, f, protocol.Errorf(protocol.CodeInvalidRequest, "method %q is a notification: send it without an id", m.method))
	case e.spec.Notify:
		return c.accept(job{entry: e, msg: m, frame: f})
	case int(c.inFlight.Add(1)) > c.mux.maxInFlight:
		c.inFlight.Add(-1)
		c.refuse(m, f, protocol.Errorf(protocol.CodeExecutorBusy, "more than %d requests in flight", c.mux.maxInFlight))
	default:
		return c.accept(job{entry: e, msg: m, frame: f})
	}
	return true
}

// accept starts a job, or queues it behind those of its lane.
func (c *Conn) accept(j job) (reading bool) {
	if !j.entry.laned {
		return c.start(task{job: j})
	}
	name, err := c.prepare(&j)
	if err != nil {
		c.finish(&j, nil, err)
		return true
	}
	switch {
	case j.entry.spec.Notify:
		name = "notification/" + j.entry.spec.Name
	case name == "": // this one may run beside all others
		return c.start(task{job: j})
	}
	c.mu.Lock()
	if l := c.lanes[name]; l != nil {
		l.jobs = append(l.jobs, j)
		if j.entry.spec.Notify && len(l.jobs) > maxWaitingNotifications {
			l.jobs[0].frame.free()
			l.jobs = l.jobs[1:]
			c.dropped.Add(1)
		}
		c.mu.Unlock()
		return true
	}
	l := &lane{}
	c.lanes[name] = l
	c.mu.Unlock()
	return c.start(task{job: j, name: name, lane: l})
}

// start runs a task: here when it is alone, else on a worker.
func (c *Conn) start(t task) (reading bool) {
	if c.eager != nil && c.inFlight.Load() <= 1 && !c.eager.more() {
		return c.takeover.run(t)
	}
	c.workers.do(t)
	return true
}

// do runs a task to its end.
func (c *Conn) do(t *task) {
	c.handle(&t.job)
	if t.lane != nil {
		c.runLane(t.name, t.lane)
	}
}

func (c *Conn) runLane(name string, l *lane) {
	for {
		c.mu.Lock()
		if len(l.jobs) == 0 {
			delete(c.lanes, name)
			c.mu.Unlock()
			return
		}
		j := l.jobs[0]
		l.jobs = l.jobs[1:]
		c.mu.Unlock()
		c.handle(&j)
	}
}

// prepare decodes a job's params; a panic in a type's own decoding is an error.
func (c *Conn) prepare(j *job) (lane string, err error) {
	defer c.recovered(j, &err)
	lane, j.run, err = j.entry.prepare(j.msg.params, j.msg.data)
	return lane, err
}

// handle runs a job to its end and answers it.
func (c *Conn) handle(j *job) {
	if j.run == nil {
		if _, err := c.prepare(j); err != nil {
			c.finish(j, nil, err)
			return
		}
	}
	result, err := c.run(j)
	c.finish(j, result, err)
}

func (c *Conn) run(j *job) (result any, err error) {
	defer c.recovered(j, &err)
	return j.run(c.ctx)
}

func (c *Conn) recovered(j *job, err *error) {
	if p := recover(); p != nil {
		*err = &panicError{value: p, stack: debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// finish answers a job and gives back its slot and its frame.
func (c *Conn) finish(j *job, result any, err error) {
	if j.entry.spec.Notify {
		if err != nil {
			c.protocolError(fmt.Errorf("notification %s: %w", j.entry.spec.Name, err))
			c.internalError(j.entry.spec.Name, err)
		}
		j.frame.free()
		return
	}
	busy := c.inFlight.Load() > 1
	var then func()
	if a, ok := result.(answerThen); ok {
		result, then = a.result, a.then
	}
	f := getBuffer()
	if err == nil {
		err = writeResponse(&f, j.msg.id, result, c.binary.Load())
		if limit := c.maxSend.Load(); err == nil && int64(len(f.b)) > limit {
			err = protocol.Errorf(protocol.CodePayloadTooLarge, "the result of %d bytes is over the peer's limit of %d", len(f.b), limit)
		}
	}
	if err != nil {
		e, internal := toError(err)
		if internal {
			c.internalError(j.entry.spec.Name, err)
		}
		f.b = f.b[:0]
		writeError(&f, j.msg.id, e)
	}
	j.frame.free()
	// The slot is free before the answer is sent, so that a peer that keeps exactly
	// its limit in flight is never refused.
	c.inFlight.Add(-1)
	if c.w.send(c.ctx, f, false, busy || then != nil, then) != nil && then != nil {
		then() // the connection is lost, which is noticed elsewhere
	}
}

// refuse answers a request that gets no handler.
func (c *Conn) refuse(m message, f buffer, e *protocol.Error) {
	c.answer(m.id, e)
	f.free()
}

func (c *Conn) answer(id []byte, e *protocol.Error) {
	f := getBuffer()
	writeError(&f, id, e)
	_ = c.w.send(c.ctx, f, false, false, nil)
}

// deliver passes an answer to the call that waits for it.
func (c *Conn) deliver(m message, f buffer) {
	n, ok := ownID(m.id)
	if !ok {
		if m.err != nil {
			c.protocolError(fmt.Errorf("the peer refused a message: %w", decodeError(m.err)))
		}
		f.free()
		return
	}
	c.mu.Lock()
	p := c.pending[n]
	delete(c.pending, n)
	c.mu.Unlock()
	if p == nil { // given up, or never ours
		f.free()
		return
	}
	if p.then != nil {
		p.then(m, false)
		f.free()
		return
	}
	if p.first != nil {
		p.first(m)
	}
	p.reply <- reply{msg: m, frame: f}
}

func (c *Conn) protocolError(err error) {
	if c.opts.OnProtocolError != nil {
		c.opts.OnProtocolError(err)
	}
}

func (c *Conn) internalError(method string, err error) {
	if c.opts.OnInternalError == nil {
		return
	}
	var stack []byte
	if p, ok := err.(*panicError); ok {
		stack = p.stack
	}
	if context.Cause(c.ctx) != nil && stack == nil {
		return // the connection ended under the handler
	}
	c.opts.OnInternalError(method, err, stack)
}
