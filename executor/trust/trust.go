// Package trust is the gate of an executor whose user wants to know, and to decide, what is done: a policy, the local
// user's approval, and an audit log.
//
//	g := trust.New(trust.Options{Policy: p, Desk: desk, Audit: log})
//	ex, err := executor.New(executor.Options{Decide: g.Decide, …})
//
// Each of the parts may be left out. The same gate may serve several executors.
package trust

import (
	"context"
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/protocol"
)

// Options of New.
type Options struct {
	Policy *policy.Policy           // nil: all is allowed
	Desk   *approval.Desk           // nil: there is nobody to ask, and what would be asked about is denied
	Audit  *audit.Log               // nil: nothing is written down
	Redact func(text string) string // takes secrets out of what is written down and shown; nil: it stays
	Logger *zap.Logger              // nil: none
}

// Gate may be used concurrently.
type Gate struct {
	options Options
	policy  atomic.Pointer[policy.Policy]
}

// New makes a gate. It starts nothing.
func New(o Options) *Gate {
	g := &Gate{options: o}
	if g.options.Redact == nil {
		g.options.Redact = func(s string) string { return s }
	}
	if g.options.Logger == nil {
		g.options.Logger = zap.NewNop()
	}
	g.SetPolicy(o.Policy)
	return g
}

// SetPolicy changes the policy for what is decided from now on; nil allows all. What waits for the user waits on.
func (g *Gate) SetPolicy(p *policy.Policy) {
	if p == nil {
		p, _ = policy.New(policy.Options{}) // no rule is wrong
	}
	g.policy.Store(p)
}

// Reasons of what the gate decides itself.
const ruleAlwaysAsk = "permission.mode always_ask"

var (
	errNobody = gate.Denied("this needs the local user's confirmation, and this executor has no way to ask for it").
			WithReason(protocol.ReasonLocalConfirmationDenied)
	errDenied = gate.Denied("the local user has denied this; it was not run").
			WithReason(protocol.ReasonLocalConfirmationDenied)
	errExpired = gate.Denied("the local user has not answered in time; it was not run").
			WithReason(protocol.ReasonLocalConfirmationExpired)
	errWithdrawn = protocol.Errorf(protocol.CodeCanceled, "this waited for the local user's confirmation and is not wanted any more; it had not started")
)

// Decide is gate.Decide.
func (g *Gate) Decide(r gate.Request) gate.Verdict {
	d := g.policy.Load().Decide(r)
	if r.AlwaysAsk && d.Action == policy.Allow {
		d = policy.Decision{Action: policy.Ask, Rule: ruleAlwaysAsk}
	}
	rec := g.record(r, d)
	switch d.Action {
	case policy.Deny:
		rec.decided("deny", "policy", approval.Answer{})
		err := gate.Denied("%s is denied by the policy of the executor's user: %s", r.Name, d.Rule)
		if d.Why != "" {
			err.Message += ": " + d.Why
		}
		return gate.Refuse(err)
	case policy.Allow:
		return rec.allowed("policy", "")
	}
	if g.options.Desk == nil {
		rec.decided("deny", "nobody", approval.Answer{})
		return gate.Verdict{Wait: func(context.Context) error { return errNobody }}
	}
	return g.ask(r, d, rec)
}

// ask lets a request wait for the user, unless the user has decided on the like of it.
func (g *Gate) ask(r gate.Request, d policy.Decision, rec *record) gate.Verdict {
	s := subjectOf(r)
	session, life := "", context.Background()
	if r.Session != nil {
		session, life = r.Session.ID(), r.Session.Context()
	}
	subject := s.key
	if r.AlwaysAsk {
		subject = ""
	}
	if scope := g.options.Desk.Remembered(session, subject); scope != "" {
		return rec.allowed("remembered", string(scope))
	}
	q := approval.Question{Session: session, Life: life, Brain: r.Brain, Tool: r.Name, Call: r.ID,
		What: g.options.Redact(s.what), Dir: s.dir, Rule: d.Rule, Why: d.Why, Subject: subject, Note: rec, Decided: rec.answered}
	if r.Method {
		q.Again = s.again
	}
	ticket, fresh, err := g.options.Desk.Ask(q)
	switch {
	case errors.Is(err, approval.ErrBusy):
		return gate.Refuse(protocol.Errorf(protocol.CodeExecutorBusy, "%v", err))
	case err != nil:
		return gate.Refuse(protocol.Errorf(protocol.CodeSessionNotActive, "the session has ended"))
	}
	if fresh {
		rec.asked(ticket.ID())
	} else if first, ok := ticket.Note().(*record); ok {
		rec = first // which has the decision
	}
	ended := func(e gate.End) {
		if e.Outcome == gate.NotStarted && !r.Method { // it was not accepted: nobody waits
			ticket.Withdraw()
		}
		rec.ended(e)
	}
	return gate.Verdict{Ended: ended, Wait: func(ctx context.Context) error {
		if err := wait(ctx, ticket); err != nil {
			return err
		}
		return rec.begins()
	}}
}

func wait(ctx context.Context, t *approval.Ticket) error {
	a, err := t.Wait(ctx)
	switch {
	case err != nil:
		return err
	case a.Allow:
		return nil
	case a.Expired:
		return errExpired
	case a.Withdrawn:
		return errWithdrawn
	}
	return errDenied
}

func refusedByAudit(err error) error {
	return protocol.Errorf(protocol.CodeResourceUnavailable, "%v; nothing is done that is not written down", err)
}
