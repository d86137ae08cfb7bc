package trust

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/executor/approval"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
)

const (
	// maxInput are bytes of an input that are written down, and maxText of everything else.
	maxInput = 2 << 10
	maxText  = 256
	// maxMutations are written down; the others are counted.
	maxMutations = 50
)

// record is what is written down of one request: that it was asked about, how it was decided, how it ended. A method
// that is asked for again while the user is asked has the same.
type record struct {
	g       *Gate
	about   audit.Entry // who and what
	mu      sync.Mutex
	started time.Time
	ticket  string
	of      uint64 // the line with the decision; 0: there is none
	failed  error  // why there is none
	over    bool   // it has ended
}

// record begins one. Nothing is written.
func (g *Gate) record(r gate.Request, d policy.Decision) *record {
	rec := &record{g: g, started: time.Now()}
	if g.options.Audit == nil {
		return rec
	}
	clean := func(s string) string { return cut(g.options.Redact(s), maxText) }
	e := audit.Entry{Brain: r.Brain, Executor: clean(r.ExecutorID), Connection: clean(r.ConnectionID), Tool: r.Name, Method: r.Method, Call: clean(r.ID),
		Rule: d.Rule, Why: clean(d.Why), InputBytes: len(r.Input)}
	if r.Effect.Bytes > 0 {
		e.InputBytes = r.Effect.Bytes
	}
	if len(r.Input) > 0 {
		e.Input = cut(g.options.Redact(head(r.Input)), maxInput)
	}
	if r.Session != nil {
		assign := r.Session.Assign()
		e.Session, e.Agent, e.User = clean(r.Session.ID()), clean(assign.AgentID), clean(userOf(assign.Metadata))
	}
	rec.about = e
	return rec
}

// head is what is looked at of an input: a secret that the cut would take apart is whole in it.
func head(input []byte) string {
	return string(input[:min(len(input), 2*maxInput)])
}

func userOf(metadata map[string]string) string {
	for _, key := range []string{"user", "user_id", "user_email"} {
		if v := metadata[key]; v != "" {
			return v
		}
	}
	return ""
}

// write writes one line of the record.
func (r *record) write(change func(*audit.Entry)) (uint64, error) {
	if r.g.options.Audit == nil {
		return 0, nil
	}
	e := r.about
	change(&e)
	return r.g.options.Audit.Write(e)
}

// allowed is the verdict on what needs no question.
func (r *record) allowed(by, scope string) gate.Verdict {
	r.decided("allow", by, approval.Answer{Scope: approval.Scope(scope)})
	if r.failed != nil {
		return gate.Refuse(refusedByAudit(r.failed))
	}
	return gate.Verdict{Ended: r.ended}
}

// asked writes that the user is asked.
func (r *record) asked(ticket string) {
	_, err := r.write(func(e *audit.Entry) { e.Event, e.Approval = audit.EventAsked, ticket })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticket = ticket
	if err != nil {
		r.failed = err
	}
}

// answered is called when the user has decided, or nobody will any more.
func (r *record) answered(a approval.Answer) {
	decision, by := "deny", "user"
	switch {
	case a.Allow:
		decision = "allow"
	case a.Expired:
		by, a.Scope = "expired", ""
	case a.Withdrawn:
		by, a.Scope = "withdrawn", ""
	}
	r.decided(decision, by, a)
}

func (r *record) decided(decision, by string, a approval.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq, err := r.write(func(e *audit.Entry) {
		e.Event, e.Decision, e.By, e.Scope, e.Who, e.Approval = audit.EventDecided, decision, by, string(a.Scope), cut(a.By, maxText), r.ticket
	})
	r.of, r.started = seq, time.Now()
	if err != nil {
		r.failed = err
	}
}

// begins is called when something that was allowed is about to be done: not, if that could not be written down where it
// has to be.
func (r *record) begins() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return refusedByAudit(r.failed)
	}
	return nil
}

// ended is called when it has ended.
func (r *record) ended(end gate.End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	_, err := r.write(func(e *audit.Entry) {
		e.Event, e.Of, e.Outcome, e.Reason, e.IsError = audit.EventEnded, r.of, end.Outcome, end.Reason, end.IsError
		e.DurationMS = time.Since(r.started).Milliseconds()
		e.Input, e.InputBytes, e.Rule, e.Why = "", 0, "", "" // they are in the line with the decision
		for i, m := range end.Mutations {
			if i == maxMutations {
				e.More = len(end.Mutations) - i
				break
			}
			text := m.Op + " " + m.Path
			if m.From != "" {
				text += " from " + m.From
			}
			e.Mutations = append(e.Mutations, cut(r.g.options.Redact(text), maxText))
		}
	})
	if err != nil { // it is done: all that is left is to say so
		r.g.options.Logger.Error("the end of a call could not be written down", zap.Error(err))
	}
}
