package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/executor/trust"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// local is a local user, with the parts of a gate.
type local struct {
	*trust.Gate
	desk *approval.Desk
	log  *audit.Log
	dir  string
}

// asked makes a gate that asks about what no rule is about.
func (w *world) asked(o approval.Options, rules ...policy.Rule) *local {
	w.t.Helper()
	l := &local{dir: w.t.TempDir()}
	var err error
	l.desk, err = approval.New(o)
	require.NoError(w.t, err)
	l.log, err = audit.Open(audit.Options{Dir: l.dir})
	require.NoError(w.t, err)
	w.ends = append(w.ends, func() { require.NoError(w.t, l.log.Close()) })
	p, err := policy.New(policy.Options{Trust: policy.TrustAsk, Rules: rules})
	require.NoError(w.t, err)
	l.Gate = trust.New(trust.Options{Policy: p, Desk: l.desk, Audit: l.log})
	return l
}

func (l *local) options(o *Options) { o.Decide = l.Decide }

// one is the question that waits.
func (l *local) one(t *testing.T) approval.Item {
	t.Helper()
	synctest.Wait()
	items := l.desk.Pending()
	require.Len(t, items, 1)
	return items[0]
}

func (l *local) decide(t *testing.T, allow bool, scope approval.Scope) {
	t.Helper()
	require.NoError(t, l.desk.Decide(l.one(t).ID, approval.Answer{Allow: allow, Scope: scope, By: "test"}))
}

// lines are the audit log's, in short.
func (l *local) lines(t *testing.T) (list []string) {
	t.Helper()
	require.NoError(t, audit.Read(l.dir, func(e audit.Entry) error {
		switch e.Event {
		case audit.EventAsked:
			list = append(list, fmt.Sprintf("asked %s", e.Tool))
		case audit.EventDecided:
			list = append(list, fmt.Sprintf("decided %s %s %s", e.Decision, e.By, e.Scope))
		case audit.EventEnded:
			list = append(list, fmt.Sprintf("ended %s %s", e.Outcome, e.Reason))
		}
		return nil
	}))
	r, err := audit.Verify(l.dir)
	require.NoError(t, err)
	require.Empty(t, r.Problems)
	return list
}

func counted(ran *atomic.Int32) capabilities.Capability {
	return tool("touch", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
		ran.Add(1)
		return protocol.Text("done"), nil
	})
}

func start(t *testing.T, w *world, s *brain.Session, p protocol.ToolCallParams) *brain.PendingCall {
	t.Helper()
	if p.Tool == "" {
		p.Tool = "touch"
	}
	c, err := s.Start(w.ctx, p)
	require.NoError(t, err)
	synctest.Wait()
	return c
}

func ended(t *testing.T, w *world, c *brain.PendingCall) (outcome, reason string) {
	t.Helper()
	r, err := c.Result(w.ctx)
	require.NoError(t, err)
	if r.Error != nil {
		reason = r.Error.Reason
	}
	return r.Outcome, reason
}

// A call that has to be asked about is accepted at once, waits over a reconnect, and runs when it is approved.
func TestCallWaitsForTheUser(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		l := w.asked(approval.Options{})
		s := w.session(brain.Options{}, l.options, counted(&ran))
		c := start(t, w, s, protocol.ToolCallParams{ToolCallID: "c1"})
		item := l.one(t)
		require.Equal(t, "touch", item.Tool)
		require.Equal(t, "c1", item.Call)
		require.Equal(t, s.ID(), item.Session)
		require.Equal(t, "trust ask", item.Rule)
		sleep(5 * time.Minute)
		w.faults.CutNow()
		sleep(time.Minute)
		require.Zero(t, ran.Load())
		l.decide(t, true, approval.Once)
		outcome, _ := ended(t, w, c)
		require.Equal(t, protocol.OutcomeSucceeded, outcome)
		require.Equal(t, int32(1), ran.Load())
		require.Equal(t, []string{"asked touch", "decided allow user once", "ended succeeded "}, l.lines(t))
		require.Empty(t, l.desk.Pending())
	})
}

func TestCallIsNotApproved(t *testing.T) {
	for _, c := range []struct {
		name            string
		deadline        int64
		end             func(t *testing.T, w *world, l *local, s *brain.Session, c *brain.PendingCall)
		outcome, reason string
		decided         string
	}{
		{"denied", 0, func(t *testing.T, _ *world, l *local, _ *brain.Session, _ *brain.PendingCall) { l.decide(t, false, "") },
			protocol.OutcomeFailed, protocol.ReasonLocalConfirmationDenied, "decided deny user once"},
		{"expired", 0, func(*testing.T, *world, *local, *brain.Session, *brain.PendingCall) { sleep(10 * time.Minute) },
			protocol.OutcomeFailed, protocol.ReasonLocalConfirmationExpired, "decided deny expired "},
		{"canceled", 0, func(t *testing.T, w *world, _ *local, s *brain.Session, c *brain.PendingCall) {
			r, err := c.Cancel(w.ctx, "not wanted")
			require.NoError(t, err)
			require.True(t, r.Canceled)
		}, protocol.OutcomeCanceled, "canceled", "decided deny withdrawn "},
		{"deadline", 60_000, func(*testing.T, *world, *local, *brain.Session, *brain.PendingCall) { sleep(time.Minute) },
			protocol.OutcomeFailed, "timeout", "decided deny withdrawn "},
		{"session ends", 0, func(t *testing.T, w *world, _ *local, s *brain.Session, _ *brain.PendingCall) {
			require.NoError(t, s.Stop(w.ctx, "over"))
		}, protocol.OutcomeCanceled, "canceled", "decided deny withdrawn "},
		{"drain", 0, func(t *testing.T, w *world, _ *local, _ *brain.Session, _ *brain.PendingCall) {
			require.NoError(t, w.Drain(context.Background()))
			before := time.Now()
			<-w.ran
			require.Less(t, time.Since(before), 5*time.Second, "a drain does not wait for the user")
		}, protocol.OutcomeCanceled, "canceled", "decided deny withdrawn "},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var ran atomic.Int32
				l := w.asked(approval.Options{})
				stored := newStored()
				s := w.session(brain.Options{Results: stored}, l.options, counted(&ran))
				call := start(t, w, s, protocol.ToolCallParams{ToolCallID: "c1", DeadlineMS: c.deadline})
				l.one(t)
				c.end(t, w, l, s, call)
				synctest.Wait()
				r := stored.last["c1"]
				require.Equal(t, c.outcome, r.Outcome)
				require.Equal(t, c.reason, r.Error.Reason)
				require.Zero(t, ran.Load())
				require.Empty(t, l.desk.Pending())
				require.Equal(t, []string{"asked touch", c.decided, "ended " + c.outcome + " " + c.reason}, l.lines(t))
			})
		})
	}
}

// What was approved for a session, or always, is not asked about again; what is another thing is.
func TestRememberedDecisions(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		file := filepath.Join(t.TempDir(), "approvals.json")
		l := w.asked(approval.Options{File: file})
		b := w.brain(brain.Options{})
		w.run(l.options, counted(&ran))
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		session := func() *brain.Session {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{})
			require.NoError(t, err)
			return s
		}
		call := func(s *brain.Session, text string) (asked bool) {
			n := ran.Load()
			c := start(t, w, s, protocol.ToolCallParams{Input: []byte(`{"text":"` + text + `"}`)})
			if ran.Load() > n {
				return false
			}
			_, err := c.Cancel(w.ctx, "")
			require.NoError(t, err)
			return true
		}
		one, other := session(), session()
		start(t, w, one, protocol.ToolCallParams{Input: []byte(`{"text":"a"}`)})
		l.decide(t, true, approval.Session)
		synctest.Wait()
		require.False(t, call(one, "a"))
		require.True(t, call(one, "b"), "another input")
		require.True(t, call(other, "a"), "another session")
		start(t, w, other, protocol.ToolCallParams{Input: []byte(`{"text":"b"}`)})
		l.decide(t, true, approval.Always)
		synctest.Wait()
		require.False(t, call(one, "b"))
		require.NoError(t, one.Stop(w.ctx, ""))
		require.True(t, call(session(), "a"), "the decision went with its session")

		again, err := approval.New(approval.Options{File: file})
		require.NoError(t, err)
		rules := again.Rules()
		require.Len(t, rules, 1)
		require.NoError(t, l.desk.Forget(rules[0].ID))
		require.True(t, call(other, "b"), "it was taken back")

		// What the brain wants asked about is asked about each time.
		c := start(t, w, other, protocol.ToolCallParams{Input: []byte(`{"text":"c"}`), Permission: &protocol.Permission{Mode: protocol.PermissionAlwaysAsk}})
		require.True(t, l.one(t).OnceOnly)
		require.ErrorContains(t, l.desk.Decide(l.one(t).ID, approval.Answer{Allow: true, Scope: approval.Always}), "once only")
		l.decide(t, true, approval.Once)
		_, err = c.Result(w.ctx)
		require.NoError(t, err)
	})
}

// always_ask asks also about what the policy allows, and does not about what it denies.
func TestAlwaysAskAndThePolicy(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		l := w.asked(approval.Options{}, policy.Rule{Tool: policy.Names{"touch"}, Action: policy.Allow}, policy.Rule{Tool: policy.Names{"hello"}, Action: policy.Deny, Reason: "be silent"})
		s := w.session(brain.Options{}, l.options, counted(&ran), hello())
		always := &protocol.Permission{Mode: protocol.PermissionAlwaysAsk}
		c := start(t, w, s, protocol.ToolCallParams{Permission: always})
		require.Equal(t, "permission.mode always_ask", l.one(t).Rule)
		l.decide(t, true, "")
		outcome, _ := ended(t, w, c)
		require.Equal(t, protocol.OutcomeSucceeded, outcome)
		_, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "hello", Permission: always})
		e := requireError(t, err, "forbidden")
		require.Contains(t, e.Message, "be silent")
		require.Contains(t, e.Message, "rule 2")
		_, err = s.Call(w.ctx, "touch", nil)
		require.NoError(t, err)
		require.Equal(t, []string{"asked touch", "decided allow user once", "ended succeeded ", "decided deny policy ", "decided allow policy ", "ended succeeded "}, l.lines(t))
	})
}

func TestTooManyWait(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		l := w.asked(approval.Options{MaxWaiting: 3})
		b := w.script(nil)
		w.run(l.options, counted(&ran))
		synctest.Wait()
		b.assign(1)
		for i := range 3 {
			require.NoError(t, b.call(fmt.Sprintf("c%d", i), "touch"))
		}
		requireError(t, b.call("c3", "touch"), "executor_busy")
		require.NoError(t, l.desk.Decide(l.desk.Pending()[0].ID, approval.Answer{Allow: true}))
		synctest.Wait()
		require.NoError(t, b.call("c3", "touch"))
		synctest.Wait()
		require.Len(t, l.desk.Pending(), 3)
		require.Equal(t, int32(1), ran.Load())
	})
}

// starts is a capability with a process.start that counts.
type starts struct{ n, inputs atomic.Int32 }

func (*starts) Name() string { return protocol.CapabilityProcess }

func (c *starts) Install(r *capabilities.Registrar) error {
	r.Advertise(protocol.ProcessDetails{Enabled: true})
	capabilities.Handle(r, protocol.ProcessStart, func(_ context.Context, _ *capabilities.Session, p protocol.ProcessStartParams) (protocol.ProcessState, error) {
		c.n.Add(1)
		return protocol.ProcessState{ProcessID: p.ProcessID, Accepted: true, State: protocol.ProcessRunning}, nil
	})
	capabilities.Handle(r, protocol.ProcessWrite, func(context.Context, *capabilities.Session, protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
		c.inputs.Add(1)
		return protocol.ProcessWriteResult{Accepted: true}, nil
	})
	return nil
}

// A process.start that has to be asked about is answered when it is decided, or told to ask again.
func TestProcessStartWaitsForTheUser(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var c starts
		l := w.asked(approval.Options{}, policy.Rule{Command: policy.Words{"rm"}, Action: policy.Deny})
		b := w.script(nil)
		w.run(l.options, &c)
		synctest.Wait()
		b.assign(1)
		ask := func(id string, wait int64, argv ...string) error {
			_, err := rpc.Call(w.ctx, b.conn(), protocol.ProcessStart, protocol.ProcessStartParams{SessionID: "s1", ProcessID: id, Argv: argv, WaitMS: wait})
			return err
		}
		requireError(t, ask("p0", 0, "rm", "x"), "forbidden")
		requireError(t, ask("p0", 0, "sh", "-c", "ls; rm x"), "forbidden")
		require.NoError(t, ask("p0", 0, "ls", "-l"), "it only reads")
		require.Equal(t, int32(1), c.n.Load())

		before := time.Now()
		e := requireError(t, ask("p1", 0, "make"), protocol.ReasonConfirmationPending)
		require.True(t, e.Data.Retryable)
		require.Equal(t, protocol.CodeExecutorBusy, e.Code)
		require.Equal(t, 25*time.Second, time.Since(before))
		first := l.one(t)
		require.Equal(t, "make", first.What)
		requireError(t, ask("p1", 500, "make"), protocol.ReasonConfirmationPending)
		require.Equal(t, first, l.one(t), "the same question")
		w.faults.CutNow() // the decision outlives the connection
		sleep(time.Minute)
		l.decide(t, true, "")
		require.NoError(t, ask("p1", 0, "make"))
		require.NoError(t, ask("p1", 0, "make"), "a repeat, since the answer was lost")
		require.Equal(t, int32(3), c.n.Load())
		require.Empty(t, l.desk.Pending())

		// The decision comes while the brain waits.
		time.AfterFunc(10*time.Second, func() { _ = l.desk.Decide(l.desk.Pending()[0].ID, approval.Answer{}) })
		requireError(t, ask("p2", 0, "make"), protocol.ReasonLocalConfirmationDenied)
		requireError(t, ask("p2", 0, "make"), protocol.ReasonLocalConfirmationDenied)
		require.Equal(t, int32(3), c.n.Load())

		// Nobody decides.
		requireError(t, ask("p3", 0, "make"), protocol.ReasonConfirmationPending)
		sleep(10 * time.Minute)
		requireError(t, ask("p3", 0, "make"), protocol.ReasonLocalConfirmationExpired)
		require.Equal(t, []string{"decided deny policy ", "decided deny policy ", "decided allow policy ", "ended succeeded ",
			"asked process.start", "decided allow user once", "ended succeeded ", "asked process.start", "decided deny user once", "ended not_started local_confirmation_denied",
			"asked process.start", "decided deny expired ", "ended not_started local_confirmation_expired"}, l.lines(t))
	})
}

// Input for what was decided on is let through, and can be denied by a rule.
func TestProcessInputPassesTheGate(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var c starts
		l := w.asked(approval.Options{}, policy.Rule{Tool: policy.Names{"process.write"}, Session: map[string]string{"input": "no"}, Action: policy.Deny})
		b := w.brain(brain.Options{})
		w.run(l.options, &c)
		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		for input, reason := range map[string]string{"yes": "", "no": "forbidden"} {
			s, err := x.Assign(w.ctx, protocol.SessionAssignParams{Metadata: map[string]string{"input": input}})
			require.NoError(t, err)
			_, err = brain.Do(w.ctx, x, protocol.ProcessWrite, protocol.ProcessWriteParams{SessionID: s.ID(), ProcessID: "p", Data: []byte("x")})
			if reason == "" {
				require.NoError(t, err)
				continue
			}
			requireError(t, err, reason)
		}
		require.Equal(t, int32(1), c.inputs.Load())
	})
}

// A call that waited when the executor was killed is not run, and its result says that it had not started; one that was
// approved before may have.
func TestWaitingCallAfterAKill(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := hold()
		l := w.asked(approval.Options{}, policy.Rule{Tool: policy.Names{"touch"}, Action: policy.Ask}, policy.Rule{Tool: policy.Names{"hold"}, Action: policy.Ask})
		var ran atomic.Int32
		stored := newStored()
		s := w.session(brain.Options{Results: stored}, func(o *Options) {
			l.options(o)
			o.StateDir = t.TempDir()
		}, counted(&ran), h)
		start(t, w, s, protocol.ToolCallParams{ToolCallID: "running", Tool: "hold"})
		l.decide(t, true, "")
		synctest.Wait()
		require.Equal(t, int32(1), h.started.Load())
		start(t, w, s, protocol.ToolCallParams{ToolCallID: "waiting"})
		l.one(t)
		settle()
		w.restart(l.options, counted(&ran), h)
		sleep(time.Minute)
		reasons := map[string]string{"waiting": protocol.ReasonExecutorRestarted, "running": protocol.ReasonOutcomeUnknown}
		for id, says := range map[string]string{"waiting": "it had not started", "running": "whether it has done its work is not known"} {
			r := stored.last[id]
			require.Equal(t, protocol.OutcomeFailed, r.Outcome, id)
			require.Equal(t, reasons[id], r.Error.Reason)
			require.Contains(t, text(r), says)
		}
		require.Zero(t, ran.Load())
	})
}

// A gate of somebody's own.
func TestDecideOfOnesOwn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var seen []string
		var ends []gate.End
		s := w.session(brain.Options{}, func(o *Options) {
			o.Decide = func(r gate.Request) gate.Verdict {
				seen = append(seen, r.Name+" "+string(r.Input))
				if len(seen) == 1 {
					return gate.Refuse(gate.Denied("nothing is said here"))
				}
				return gate.Verdict{Ended: func(e gate.End) { ends = append(ends, e) }}
			}
		}, hello())
		_, err := s.Call(w.ctx, "hello", map[string]string{"text": "a"})
		requireError(t, err, "forbidden")
		_, err = s.Call(w.ctx, "hello", map[string]string{"text": "b"})
		require.NoError(t, err)
		require.Equal(t, []string{`hello {"text":"a"}`, `hello {"text":"b"}`}, seen)
		require.Equal(t, []gate.End{{Outcome: protocol.OutcomeSucceeded}}, ends)
	})
}

// Where everything has to be written down first, nothing is done when it cannot be.
func TestRequiredAuditRefuses(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		dir := filepath.Join(t.TempDir(), "audit")
		log, err := audit.Open(audit.Options{Dir: dir, Required: true, MaxBytes: 1})
		require.NoError(t, err)
		defer log.Close()
		g := trust.New(trust.Options{Audit: log})
		s := w.session(brain.Options{}, func(o *Options) { o.Decide = g.Decide }, counted(&ran))
		_, err = s.Call(w.ctx, "touch", nil)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(dir)) // the next line needs a new file
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = s.Call(ctx, "touch", nil)
		require.Error(t, err)
		require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, protocol.ErrResourceUnavailable), err)
		require.Equal(t, int32(1), ran.Load())
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, err = s.Call(w.ctx, "touch", nil)
		require.NoError(t, err)
		lines, _ := log.Lost()
		require.Positive(t, lines)
		require.True(t, slices.ContainsFunc(linesOf(t, dir), func(e audit.Entry) bool { return e.Event == audit.EventLost && e.Lines > 0 }))
	})
}

func linesOf(t *testing.T, dir string) (list []audit.Entry) {
	t.Helper()
	require.NoError(t, audit.Read(dir, func(e audit.Entry) error {
		list = append(list, e)
		return nil
	}))
	return list
}

// A call that was not accepted after all is not asked about.
func TestCallThatIsNotAcceptedIsNotAskedAbout(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ran atomic.Int32
		l := w.asked(approval.Options{})
		h := hold()
		b := w.script(nil)
		w.run(func(o *Options) {
			o.Decide = func(r gate.Request) gate.Verdict {
				if r.Name == "hold" {
					return gate.Verdict{}
				}
				return l.Decide(r)
			}
		}, counted(&ran), h)
		synctest.Wait()
		b.assign(1)
		require.NoError(t, b.call("c0", "hold"))
		require.NoError(t, w.Drain(context.Background()))
		synctest.Wait()
		requireError(t, b.call("c1", "touch"), protocol.ReasonDraining)
		require.Empty(t, l.desk.Pending())
		close(h.release)
	})
}
