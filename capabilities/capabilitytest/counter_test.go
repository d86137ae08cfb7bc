package capabilitytest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// counter is a capability with a bit of everything: it counts per session, on a
// goroutine of the session's.
type counter struct {
	closed sync.Once
	other  chan struct{} // ends with Close
}

func newCounter() capabilities.Capability { return &counter{other: make(chan struct{})} }

type counterKey struct{}

// counting is what the counter keeps for a session.
type counting struct {
	add   chan int
	total chan int
	ended chan struct{}
}

func (c *counter) Name() string { return "counter" }

type countInput struct {
	By   int    `json:"by" jsonschema:"how much to add"`
	Note string `json:"note,omitempty"`
}

type counterReadParams struct {
	SessionID string `json:"session_id"`
}

func (p counterReadParams) InSession() string { return p.SessionID }

type counterReadResult struct {
	Total int `json:"total"`
}

type counterParams struct {
	Name string `json:"name,omitempty"`
}

type counterChanged struct {
	SessionID string `json:"session_id"`
	Total     int    `json:"total"`
}

var (
	counterRead = protocol.Method[counterReadParams, counterReadResult]{
		Spec: protocol.Spec{Name: "counter.read", From: protocol.Brain, Capability: "counter", Repeat: "read"}}
	counterHello = protocol.Method[counterParams, counterParams]{
		Spec: protocol.Spec{Name: "counter.hello", From: protocol.Brain, Capability: "counter.hello", Repeat: "read"}}
	counterReset = protocol.Notification[counterReadParams]{
		Spec: protocol.Spec{Name: "counter.reset", From: protocol.Brain, Notify: true, Capability: "counter"}}
	counterNews = protocol.Notification[counterChanged]{
		Spec: protocol.Spec{Name: "counter.changed", From: protocol.Executor, Notify: true, Capability: "counter"}}
)

func (c *counter) Install(r *capabilities.Registrar) error {
	r.Advertise(map[string]bool{"enabled": true, "hello": true})
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		n := &counting{add: make(chan int), total: make(chan int), ended: make(chan struct{})}
		s.SetValue(counterKey{}, n)
		go func() {
			defer close(n.ended)
			for total := 0; ; {
				select {
				case by := <-n.add:
					total += by
				case n.total <- total:
				case <-s.Context().Done():
					return
				}
			}
		}()
		return nil
	})
	r.OnSessionEnd(func(s *capabilities.Session) { <-s.Value(counterKey{}).(*counting).ended })
	capabilities.AddTool(r, capabilities.Tool{Name: "count", Description: "Add to the counter."}, c.count)
	capabilities.Handle(r, counterRead, func(_ context.Context, s *capabilities.Session, _ counterReadParams) (counterReadResult, error) {
		return counterReadResult{<-s.Value(counterKey{}).(*counting).total}, nil
	})
	capabilities.HandleMachine(r, counterHello, func(_ context.Context, s *capabilities.Session, p counterParams) (counterParams, error) {
		if s.ID() != "" {
			return p, errors.New("not the machine's session")
		}
		return counterParams{"hello " + p.Name}, nil
	})
	capabilities.HandleNotification(r, counterReset, func(_ context.Context, s *capabilities.Session, _ counterReadParams) error {
		n := s.Value(counterKey{}).(*counting)
		n.add <- -<-n.total
		return nil
	})
	return nil
}

func (c *counter) count(ctx context.Context, call *capabilities.Call, in countInput) (protocol.ToolOutput, error) {
	n := call.Session().Value(counterKey{}).(*counting)
	call.Progress("adding")
	select {
	case n.add <- in.By:
	case <-ctx.Done():
		return protocol.ToolOutput{}, ctx.Err()
	}
	total := <-n.total
	if err := capabilities.Notify(ctx, call.Session(), counterNews, counterChanged{call.Session().ID(), total}); err != nil {
		return protocol.ToolOutput{}, err
	}
	out := protocol.Text(strconv.Itoa(total))
	out.Structured = counterReadResult{total}
	return out, nil
}

func (c *counter) Close() error {
	c.closed.Do(func() { close(c.other) })
	return nil
}
