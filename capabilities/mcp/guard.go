package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// wishCall is what a policy knows the calls of a server's tools by, with the server's key and the tool's name
// behind it: mcp.KEY.TOOL.
const wishCall = "mcp."

// methodCall is the one request of the brain that a server does something for.
const methodCall = "tools/call"

const (
	// maxWishName bounds what is taken of a tool's name.
	maxWishName = 200
	// maxHeld is how many calls may wait for the local user at once.
	maxHeld = 64
)

var errServerGone = errors.New("the server has ended before it answered")

// guard is a server's channel as the run sees it: a tools/call of the brain comes through when the host lets
// it, like a call of a tool of the executor's own. One that is refused is answered with an error in the
// server's place; one that waits for the local user does not hold up others.
type guard struct {
	capabilities.Channel
	s     *server
	ctx   context.Context // of the calls that wait
	leave context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	held    map[string]context.CancelFunc // calls that wait, by id
	allowed [][]byte                      // those that have waited and may go on
	wake    func()                        // ends a read, so that these are seen; nil when nobody reads
	open    map[string]func(error)        // calls that the server has, by id: what their end is told to
}

func (s *server) guarded(ch capabilities.Channel) *guard {
	g := &guard{Channel: ch, s: s, held: map[string]context.CancelFunc{}, open: map[string]func(error){}}
	g.ctx, g.leave = context.WithCancel(s.t.ctx)
	return g
}

// Limit is the channel's own.
func (g *guard) Limit() int { return limitOf(g.Channel) }

// ReadFrame returns the next message that may come through.
func (g *guard) ReadFrame(ctx context.Context) ([]byte, error) {
	for {
		reading, done := g.begin(ctx)
		if reading == nil {
			g.mu.Lock()
			frame := g.allowed[0]
			g.allowed = g.allowed[1:]
			g.mu.Unlock()
			return frame, nil
		}
		frame, err := g.Channel.ReadFrame(reading)
		done()
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) && reading.Err() != nil:
			continue // a call that has waited may go on
		case err != nil:
			return nil, err
		case g.passes(ctx, frame):
			return frame, nil
		}
	}
}

// begin is the context to read with, which ends when a call that has waited may go on; nil when one may.
func (g *guard) begin(ctx context.Context) (reading context.Context, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.allowed) > 0:
		return nil, nil
	case len(g.held) == 0: // only who reads adds to them
		return ctx, func() {}
	}
	reading, cancel := context.WithCancel(ctx)
	g.wake = cancel
	return reading, func() {
		g.mu.Lock()
		g.wake = nil
		g.mu.Unlock()
		cancel()
	}
}

// passes says whether a message comes through now. What does not is answered, or waits.
func (g *guard) passes(ctx context.Context, frame []byte) bool {
	if text := bytes.TrimSpace(frame); len(text) > 0 && text[0] == '[' {
		_ = g.Channel.WriteFrame(ctx, errorFrame(nil, protocol.CodeInvalidRequest, "a message is one object; batches are not taken"))
		return false
	}
	var message map[string]json.RawMessage
	if json.Unmarshal(frame, &message) != nil {
		return true // the run says what is wrong with it
	}
	switch id := message["id"]; {
	case isMethod(message, methodCancelled):
		return !g.cancelled(message["params"])
	case !isMethod(message, methodCall):
		return true
	case !isID(id):
		return false // nobody could be told what becomes of it
	default:
		return g.ask(ctx, id, message["params"], frame)
	}
}

// isMethod compares as the laxest reader would: names of members without regard to their case.
func isMethod(message map[string]json.RawMessage, method string) bool {
	for name, raw := range message {
		var value string
		if strings.EqualFold(name, "method") && json.Unmarshal(raw, &value) == nil && value == method {
			return true
		}
	}
	return false
}

// toolOf is the tool that a call names. Two names that only differ in case are for two readers.
func toolOf(params json.RawMessage) (string, error) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(params, &all)
	for name := range all {
		if name != "name" && strings.EqualFold(name, "name") {
			return "", protocol.Errorf(protocol.CodeInvalidParams, "params.%s: unknown; did you mean name?", name)
		}
	}
	var tool string
	if json.Unmarshal(all["name"], &tool) != nil || tool == "" {
		return "", protocol.Errorf(protocol.CodeInvalidParams, "params.name: want the name of a tool")
	}
	return tool, nil
}

// ask asks for a call.
func (g *guard) ask(ctx context.Context, id, params json.RawMessage, frame []byte) bool {
	tool, err := toolOf(params)
	if err != nil {
		g.refuse(ctx, id, err)
		return false
	}
	key := string(id)
	g.mu.Lock()
	_, waits := g.held[key]
	_, runs := g.open[key]
	full := len(g.held) >= maxHeld
	g.mu.Unlock()
	if waits || runs {
		return false // a second one of that id; the first is answered
	}
	p := g.s.t.session.Ask(capabilities.Wish{Name: wishCall + g.s.key + "." + clipTo(tool, maxWishName), ID: key, Input: params})
	switch {
	case p.Refused != nil:
		g.refuse(ctx, id, p.Refused)
		return false
	case p.Wait == nil:
		g.begun(key, p.Ended)
		return true
	case full:
		err := protocol.Errorf(protocol.CodeExecutorBusy, "%d calls of the server wait for the local user already", maxHeld)
		over(p.Ended, false, err)
		g.refuse(ctx, id, err)
		return false
	}
	waiting, cancel := context.WithCancel(g.ctx)
	g.mu.Lock()
	g.held[key] = cancel
	g.mu.Unlock()
	g.work.Go(func() { g.wait(waiting, id, p, frame) })
	return false
}

// wait waits for the local user.
func (g *guard) wait(ctx context.Context, id json.RawMessage, p capabilities.Permission, frame []byte) {
	err := p.Wait(ctx)
	g.mu.Lock()
	cancel := g.held[string(id)]
	delete(g.held, string(id))
	gone := ctx.Err() != nil // the brain does not want it any more, or nobody is there
	if err == nil && !gone {
		if p.Ended != nil {
			g.open[string(id)] = func(err error) { p.Ended(true, err) }
		}
		g.allowed = append(g.allowed, frame)
		if g.wake != nil {
			g.wake()
		}
	}
	g.mu.Unlock()
	cancel()
	switch {
	case gone:
		over(p.Ended, false, protocol.ErrCanceled)
	case err != nil:
		over(p.Ended, false, err)
		g.refuse(g.ctx, id, err)
	}
}

func over(ended func(bool, error), begun bool, err error) {
	if ended != nil {
		ended(begun, err)
	}
}

func (g *guard) begun(key string, ended func(bool, error)) {
	if ended == nil {
		return
	}
	g.mu.Lock()
	g.open[key] = func(err error) { ended(true, err) }
	g.mu.Unlock()
}

// cancelled ends the waiting of a call; true when there was one, of which the server knows nothing.
func (g *guard) cancelled(params json.RawMessage) bool {
	var of struct {
		ID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(params, &of)
	g.mu.Lock()
	defer g.mu.Unlock()
	cancel := g.held[string(of.ID)]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// refuse answers in the server's place.
func (g *guard) refuse(ctx context.Context, id json.RawMessage, err error) {
	e := asError(err)
	_ = g.Channel.WriteFrame(ctx, errorFrame(id, e.Code, e.Message))
}

// WriteFrame passes a message of the server on. The answer to a call is its end.
func (g *guard) WriteFrame(ctx context.Context, frame []byte) error {
	g.mu.Lock()
	watches := len(g.open) > 0
	g.mu.Unlock()
	var e envelope
	if watches {
		e.write(frame)
	}
	err := g.Channel.WriteFrame(ctx, frame)
	if err != nil || !watches || !e.response() {
		return err
	}
	g.mu.Lock()
	ended := g.open[string(e.id)]
	delete(g.open, string(e.id))
	g.mu.Unlock()
	if ended != nil {
		ended(nil)
	}
	return nil
}

// end is the end of the run: nothing waits any more, and what the server had not answered has failed.
func (g *guard) end() {
	g.leave()
	g.work.Wait()
	g.mu.Lock()
	open := g.open
	g.open = map[string]func(error){}
	g.mu.Unlock()
	for _, ended := range open {
		ended(errServerGone)
	}
}
