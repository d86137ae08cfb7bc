package executor

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// wisher begins something with each session that has to be asked about, and says in session.ready how that is.
type wisher struct {
	wish  capabilities.Wish
	work  sync.WaitGroup
	began chan error // what the waiting came to
}

func (*wisher) Name() string { return "wisher" }

func (c *wisher) Install(r *capabilities.Registrar) error {
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		p := s.Ask(c.wish)
		switch {
		case p.Refused != nil:
			s.SetMCP("x", protocol.MCPState{State: "failed", Error: &protocol.ToolError{Reason: p.Refused.(*protocol.Error).Reason()}})
		case p.Wait != nil:
			s.SetMCP("x", protocol.MCPState{State: "failed", Error: &protocol.ToolError{Reason: protocol.ReasonConfirmationPending}})
			c.work.Go(func() {
				err := p.Wait(s.Context())
				p.Ended(err == nil, err)
				c.began <- err
			})
		default:
			s.SetMCP("x", protocol.MCPState{State: "ready"})
			if p.Ended != nil {
				p.Ended(true, nil)
			}
		}
		return nil
	})
	r.OnSessionEnd(func(*capabilities.Session) { c.work.Wait() })
	return nil
}

func newWisher(argv ...string) *wisher {
	return &wisher{began: make(chan error, 1), wish: capabilities.Wish{Name: "mcp.start", ID: "x", Input: json.RawMessage(`{"server_key":"x"}`),
		Effect: capabilities.Effect{Argv: argv, Interactive: true}}}
}

// What a capability begins on the brain's word passes the gate too, and session.ready does not wait for the user.
func TestWishIsAskedAbout(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		l := w.asked(approval.Options{}, policy.Rule{Command: policy.Words{"rm"}, Action: policy.Deny}, policy.Rule{Command: policy.Words{"date"}, Action: policy.Allow})
		c := newWisher("npx", "server")
		s := w.session(brain.Options{}, l.options, c)
		state := func() protocol.MCPState {
			w.Executor.mu.Lock()
			defer w.Executor.mu.Unlock()
			return w.Executor.sessions[s.ID()].caps.MCP()["x"]
		}
		require.Equal(t, protocol.ReasonConfirmationPending, state().Error.Reason)
		item := l.one(t)
		require.Equal(t, "mcp.start", item.Tool)
		require.Contains(t, item.What, "npx server")
		sleep(time.Minute)
		l.decide(t, true, approval.Session)
		require.NoError(t, <-c.began)
		require.Equal(t, []string{"asked mcp.start", "decided allow user session", "ended succeeded "}, l.lines(t))
	})
}

func TestWishIsDenied(t *testing.T) {
	for name, argv := range map[string][]string{"policy": {"rm", "x"}, "user": {"npx"}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				l := w.asked(approval.Options{}, policy.Rule{Command: policy.Words{"rm"}, Action: policy.Deny})
				c := newWisher(argv...)
				s := w.session(brain.Options{}, l.options, c)
				if name == "policy" {
					require.Equal(t, "forbidden", w.Executor.sessions[s.ID()].caps.MCP()["x"].Error.Reason)
					return
				}
				l.decide(t, false, "")
				requireError(t, <-c.began, protocol.ReasonLocalConfirmationDenied)
				require.Equal(t, []string{"asked mcp.start", "decided deny user once", "ended not_started local_confirmation_denied"}, l.lines(t))
			})
		})
	}
}

// The end of the session ends the waiting, and a drain does.
func TestWishIsNotWaitedFor(t *testing.T) {
	for _, drain := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			l := w.asked(approval.Options{})
			c := newWisher("npx")
			s := w.session(brain.Options{}, l.options, c)
			l.one(t)
			if drain {
				go func() { _ = w.Drain(w.ctx) }()
			} else {
				require.NoError(t, s.Stop(w.ctx, "done"))
			}
			require.Error(t, <-c.began)
			synctest.Wait()
			if !drain {
				require.Empty(t, l.desk.Pending())
			}
		})
	}
}

// Without anybody who decides all is done.
func TestWishWithoutGate(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, nil, newWisher("rm"))
		require.Equal(t, "ready", w.Executor.sessions[s.ID()].caps.MCP()["x"].State)
	})
}
