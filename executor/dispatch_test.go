package executor

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Every method of the brain is handled, or refused with the capability it needs.
func TestEverySpecIsAnswered(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil)
		synctest.Wait()
		s.assign(1)
		for _, spec := range protocol.Specs() {
			if spec.From == protocol.Executor || spec == protocol.ExecutorDrain.Spec {
				continue
			}
			if spec.Notify {
				require.NoError(t, s.conn().NotifyRaw(w.ctx, spec, map[string]any{"session_id": "s1"}))
				continue
			}
			err := s.conn().CallRaw(w.ctx, spec, map[string]any{"session_id": "s1"}, nil)
			if spec.Capability != "" {
				e := requireError(t, err, "capability_unavailable")
				require.Equal(t, spec.Capability, e.Data.Capability, spec.Name)
				require.False(t, e.Data.Retryable)
			} else if err != nil {
				requireError(t, err, "invalid_params") // a core method, with members missing
			}
		}
		for _, name := range []string{"process.sta", "x.unknown", "rpc.discover", "executor.register", "tool.result"} {
			err := s.conn().CallRaw(w.ctx, protocol.Spec{Name: name}, map[string]any{}, nil)
			requireError(t, err, "method_not_found")
		}
		require.Len(t, s.so().dials, 1)
	})
}

// machine is a capability with methods of its own, of a session and of the machine.
type machine struct {
	advertise bool
	session   func(context.Context, *capabilities.Session) error
	noted     chan string
}

type ownParams struct {
	SessionID string `json:"session_id"`
	Text      string `json:"text"`
}

func (p ownParams) InSession() string { return p.SessionID }

var (
	ownSession = protocol.Method[ownParams, ownParams]{Spec: protocol.Spec{Name: "own.session", From: protocol.Brain, Capability: "own"}}
	ownMachine = protocol.Method[anything, anything]{Spec: protocol.Spec{Name: "own.machine", From: protocol.Brain}}
	ownNote    = protocol.Notification[ownParams]{Spec: protocol.Spec{Name: "own.note", From: protocol.Brain, Notify: true}}
	ownTell    = protocol.Notification[ownParams]{Spec: protocol.Spec{Name: "own.tell", From: protocol.Executor, Notify: true}}
	ownAsk     = protocol.Method[ownParams, ownParams]{Spec: protocol.Spec{Name: "own.ask", From: protocol.Executor}}
)

func (m *machine) Name() string { return "own" }

func (m *machine) Install(r *capabilities.Registrar) error {
	if m.advertise {
		r.Advertise(map[string]bool{"enabled": true})
	} else {
		r.Advertise(map[string]bool{"enabled": false})
	}
	capabilities.Handle(r, ownSession, func(ctx context.Context, s *capabilities.Session, p ownParams) (ownParams, error) {
		if m.session != nil {
			return ownParams{}, m.session(ctx, s)
		}
		return ownParams{SessionID: s.ID(), Text: p.Text}, nil
	})
	capabilities.HandleMachine(r, ownMachine, func(_ context.Context, s *capabilities.Session, p anything) (anything, error) {
		return anything{Text: s.ID() + "/" + p.Text}, nil
	})
	capabilities.HandleNotification(r, ownNote, func(_ context.Context, _ *capabilities.Session, p ownParams) error {
		m.noted <- p.Text
		return nil
	})
	return nil
}

func TestCapabilityMethods(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := &machine{advertise: true, noted: make(chan string, 10)}
		s := w.session(brain.Options{}, nil, m)
		x := s.Executor()
		r, err := brain.Do(w.ctx, x, ownSession, ownParams{SessionID: s.ID(), Text: "a"})
		require.NoError(t, err)
		require.Equal(t, ownParams{SessionID: s.ID(), Text: "a"}, r)
		_, err = brain.Do(w.ctx, x, ownSession, ownParams{SessionID: "none", Text: "a"})
		requireError(t, err, "session_not_active")
		_, err = brain.Do(w.ctx, x, ownSession, ownParams{Text: "a"})
		require.Contains(t, requireError(t, err, "invalid_params").Message, "session_id")
		a, err := brain.Do(w.ctx, x, ownMachine, anything{Text: "a"})
		require.NoError(t, err)
		require.Equal(t, "/a", a.Text)

		// A handler's context ends with its session.
		m.session = func(ctx context.Context, _ *capabilities.Session) error {
			<-ctx.Done()
			m.noted <- causeOf(ctx).Message
			return context.Cause(ctx)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := brain.Do(w.ctx, x, ownSession, ownParams{SessionID: s.ID()})
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Stop(w.ctx, "done"))
		requireError(t, <-failed, "canceled")
		require.Equal(t, errStopped.Message, <-m.noted)
	})
}

// A method whose capability does not work here is refused like one that is not there.
func TestCapabilityNotAdvertised(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil, &machine{noted: make(chan string, 10)})
		synctest.Wait()
		s.assign(1)
		_, err := rpc.Call(w.ctx, s.conn(), ownSession, ownParams{SessionID: "s1"})
		require.Equal(t, "own", requireError(t, err, "capability_unavailable").Data.Capability)
		_, err = rpc.Call(w.ctx, s.conn(), ownMachine, anything{}) // has no gate
		require.NoError(t, err)
	})
}

func TestCapabilityNotifications(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		m := &machine{advertise: true, noted: make(chan string, 10)}
		s := w.script(nil)
		w.run(nil, m)
		synctest.Wait()
		s.assign(1)
		for _, text := range []string{"1", "2", "3"} {
			require.NoError(t, rpc.Notify(w.ctx, s.conn(), ownNote, ownParams{SessionID: "s1", Text: text}))
		}
		require.NoError(t, rpc.Notify(w.ctx, s.conn(), ownNote, ownParams{SessionID: "none", Text: "x"}))
		require.NoError(t, rpc.Notify(w.ctx, s.conn(), ownNote, ownParams{SessionID: "s1", Text: "4"}))
		synctest.Wait()
		for _, text := range []string{"1", "2", "3", "4"} {
			require.Equal(t, text, <-m.noted)
		}
	})
}

// starter handles process.start.
type starter struct{ started int }

func (s *starter) Name() string { return protocol.CapabilityProcess }

func (s *starter) Install(r *capabilities.Registrar) error {
	r.Advertise(protocol.ProcessDetails{Enabled: true})
	capabilities.Handle(r, protocol.ProcessStart, func(_ context.Context, _ *capabilities.Session, p protocol.ProcessStartParams) (protocol.ProcessState, error) {
		s.started++
		return protocol.ProcessState{ProcessID: p.ProcessID, Accepted: true, State: "running"}, nil
	})
	return nil
}

// New work of other kinds needs a lease too, and is not taken while draining.
func TestProcessStartIsNewWork(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		p, h := &starter{}, hold()
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.HeartbeatIntervalMS, r.LeaseTTLMS = 60_000, 20_000
				return nil
			}
		})
		w.run(nil, p, h)
		synctest.Wait()
		s.assign(1)
		start := func() error {
			_, err := rpc.Call(w.ctx, s.conn(), protocol.ProcessStart, protocol.ProcessStartParams{SessionID: "s1", ProcessID: "p", Argv: []string{"x"}})
			return err
		}
		require.NoError(t, start())
		require.NoError(t, s.call("c", "hold"))
		sleep(21 * time.Second)
		requireError(t, start(), "lease_expired")
		require.NoError(t, w.Drain(w.ctx))
		sleep(time.Minute - 21*time.Second + 10*time.Second)
		require.Equal(t, 1, p.started)
		close(h.release)
		require.NoError(t, w.stopped())
	})
	in(t, func(t *testing.T, w *world) {
		p, h := &starter{}, hold()
		s := w.script(nil)
		w.run(nil, p, h)
		synctest.Wait()
		s.assign(1)
		require.NoError(t, s.call("c", "hold"))
		require.NoError(t, w.Drain(w.ctx))
		_, err := rpc.Call(w.ctx, s.conn(), protocol.ProcessStart, protocol.ProcessStartParams{SessionID: "s1", ProcessID: "p", Argv: []string{"x"}})
		requireError(t, err, protocol.ReasonDraining)
		require.Zero(t, p.started)
	})
}

// Requests right behind the answer to register are taken, though the executor is not
// done with it.
func TestRequestBehindRegister(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		answered := make(chan error, 1)
		w.script(func(s *script) {
			s.behind = func(_ int, c *rpc.Conn) {
				go func() {
					_, err := rpc.Call(w.ctx, c, protocol.SessionAssign, protocol.SessionAssignParams{
						SessionID: "s1", WorkID: "w", Lease: protocol.Lease{Token: "t", FencingToken: 1}})
					answered <- err
				}()
			}
		})
		w.run(nil)
		require.NoError(t, <-answered)
		synctest.Wait()
		require.Equal(t, "active", w.Status().Sessions[0].State)
	})
}

// Malformed messages are answered, and end nothing.
func TestMalformedMessages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(nil)
		w.run(nil, hello())
		synctest.Wait()
		s.assign(1)
		for _, params := range []string{`[]`, `7`, `{"session_id":7}`, `{"session_id":"s1","tool_call_id":"c","tool":"hello","deadline_ms":-1}`} {
			err := s.conn().CallRaw(w.ctx, protocol.ToolCall.Spec, json.RawMessage(params), nil)
			requireError(t, err, "invalid_params")
		}
		require.NoError(t, s.call("c", "hello"))
	})
}

// A capability tells the brain something, and asks it, also through a reconnect.
func TestPeer(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		told := make(chan string, 10)
		asked := 0
		var peerOf *capabilities.Session
		k := &hooks{name: "hooks", start: func(_ context.Context, s *capabilities.Session) error {
			peerOf = s
			return nil
		}}
		b := brain.Options{Handle: func(x *rpc.Mux) {
			rpc.HandleNotification(x, ownTell, func(_ context.Context, p ownParams) { told <- p.Text })
			rpc.Handle(x, ownAsk, func(ctx context.Context, p ownParams) (ownParams, error) {
				switch asked++; {
				case p.Text == "refuse":
					return p, protocol.ErrForbidden
				case p.Text == "hang":
					<-ctx.Done()
					return p, ctx.Err()
				case asked == 1:
					w.net.Cut()
					<-ctx.Done()
					return p, ctx.Err()
				}
				p.Text += "!"
				return p, nil
			})
		}}
		w.session(b, nil, k)
		require.NoError(t, capabilities.Notify(w.ctx, peerOf, ownTell, ownParams{Text: "a"}))
		require.Equal(t, "a", <-told)
		r, err := capabilities.Request(w.ctx, peerOf, ownAsk, ownParams{Text: "b"})
		require.NoError(t, err)
		require.Equal(t, "b!", r.Text)
		require.Equal(t, 2, asked)
		_, err = capabilities.Request(w.ctx, peerOf, ownAsk, ownParams{Text: "refuse"})
		requireError(t, err, "forbidden")
		began := time.Now()
		_, err = capabilities.Request(w.ctx, peerOf, ownAsk, ownParams{Text: "hang"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, protocol.DefaultRequestTimeout, time.Since(began))

		w.net.Close()
		w.net.Cut()
		sleep(time.Second)
		require.ErrorIs(t, capabilities.Notify(w.ctx, peerOf, ownTell, ownParams{}), errNoConnection)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = capabilities.Request(ctx, peerOf, ownAsk, ownParams{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
