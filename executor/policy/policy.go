// Package policy decides what may be done without a question, what the local user is asked about and what is not
// done: by rules, the first that matches, and by a trust where none does.
//
//	p, err := policy.New(policy.Options{Trust: policy.TrustAsk, Rules: []policy.Rule{
//		{Command: policy.Words{"git", "push"}, Action: policy.Deny},
//		{Command: policy.Words{"go", "test"}, Action: policy.Allow},
//		{Tool: policy.Names{"write", "edit"}, Path: policy.Names{"docs/**"}, Action: policy.Allow},
//	}})
//	d := p.Decide(request) // d.Action, d.Rule, d.Why
//
// It is not a sandbox. It reads what is asked for, and a program that may run can do anything its user may. What it
// promises is this: a rule that allows matches only what it is plain to see through, and a rule that denies or asks
// about a command is not got round by writing the command otherwise: what cannot be seen through is asked about.
//
// The parts: rule.go is a rule and how it is read, match.go when one matches; script.go takes a command apart,
// inner.go finds commands in the arguments of others, mention.go
// those that may be there, again.go what bash evaluates twice; readonly.go knows what only reads, by the table in
// programs.go and, for git, git.go.
//
// Nothing in here touches the disk, but for the workspace of a request, which says what a path leads to.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-executor/executor/executor/gate"
)

// Action is what is done with a request.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// Trust says what is done with what no rule matches.
type Trust string

// The trusts.
const (
	TrustFull     Trust = "full"      // everything is allowed
	TrustAsk      Trust = "ask"       // what only reads is allowed, the rest is asked about
	TrustReadOnly Trust = "read-only" // what only reads is allowed, the rest is denied
)

// Options of New.
type Options struct {
	Trust Trust  // default: TrustFull
	Rules []Rule // the first that matches decides
	// Path is the PATH in which commands find their programs. One with a directory that is not absolute, or is in
	// the workspace, makes no command one that only reads. nil: the system's own directories.
	Path func() string
}

// Policy is immutable and may be used concurrently.
type Policy struct {
	options Options
}

// New makes a policy. The error names the rule that cannot be one.
func New(o Options) (*Policy, error) {
	switch o.Trust {
	case "":
		o.Trust = TrustFull
	case TrustFull, TrustAsk, TrustReadOnly:
	default:
		return nil, fmt.Errorf("trust: %q: want full, ask or read-only", o.Trust)
	}
	for i, r := range o.Rules {
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return &Policy{options: o}, nil
}

// Decision is what is done with one request, and why.
type Decision struct {
	Action Action
	// Rule names what has decided: "rule 2 (deny command git push)", or "trust ask".
	Rule string
	// Why is what a rule's Reason says, or what could not be seen through; "" when there is nothing to say.
	Why string
}

// Decide decides on a request. What the brain says about being asked is not looked at.
func (p *Policy) Decide(r gate.Request) Decision {
	v := view{Request: r}
	var unsure *Decision // of the first rule that may match
	for i, rule := range p.options.Rules {
		m, why := rule.matches(&v)
		name := fmt.Sprintf("rule %d (%s)", i+1, rule)
		switch {
		case m == yes && (unsure == nil || rule.Action == Deny):
			return Decision{rule.Action, name, rule.Reason}
		case m == yes:
			return *unsure
		case m == maybe && rule.Action != Allow && unsure == nil:
			unsure = &Decision{Ask, name, "it may be what the rule is about: " + why}
		}
	}
	d := p.byTrust(&v)
	if unsure != nil && d.Action != Deny {
		return *unsure
	}
	return d
}

// byTrust decides on what no rule is about.
func (p *Policy) byTrust(v *view) Decision {
	d := Decision{Action: Allow, Rule: "trust " + string(p.options.Trust)}
	if p.options.Trust == TrustFull {
		return d
	}
	reads, why := p.readsOnly(v)
	switch {
	case reads:
	case p.options.Trust == TrustAsk:
		d.Action, d.Why = Ask, why
	default:
		d.Action, d.Why = Deny, why
	}
	return d
}

// readsOnly reports whether a request changes nothing, or why that is not sure.
func (p *Policy) readsOnly(v *view) (bool, string) {
	e := v.Effect
	switch {
	case e.ReadOnly, e.Follows:
		return true, ""
	case !e.Runs():
		return false, ""
	case e.Persistent:
		return false, "in a shell that lasts, names can have another meaning"
	}
	for name := range e.Env {
		if !harmlessVariable(name) {
			return false, fmt.Sprintf("the variable %s may change what is run", name)
		}
	}
	if v.Session != nil {
		for name := range v.Session.Env() {
			if !harmlessVariable(name) {
				return false, fmt.Sprintf("the session's variable %s may change what is run", name)
			}
		}
	}
	if e.Interactive && slices.ContainsFunc(v.script().commands, func(c simple) bool { return program(c[0].text) == "git" }) {
		return false, "git starts a pager on a terminal"
	}
	if why := p.strangePath(v); why != "" {
		return false, why
	}
	if why := notReadOnly(v.script()); why != "" {
		return false, why
	}
	return true, ""
}

// strangePath says what is wrong with the PATH of commands: a program in the workspace may be called ls.
func (p *Policy) strangePath(v *view) string {
	if p.options.Path == nil {
		return ""
	}
	for _, dir := range strings.Split(p.options.Path(), ":") {
		if !strings.HasPrefix(dir, "/") {
			return fmt.Sprintf("the PATH has %q in it, which is not an absolute directory", dir)
		}
		if v.inWorkspace(dir) {
			return fmt.Sprintf("the PATH has %s in it, which is in the workspace", dir)
		}
	}
	return ""
}

// SeesThrough reports whether a request runs one plain command, and returns its words: no operator, redirection,
// assignment or expansion is in it, and the shell is a fresh one.
func SeesThrough(r gate.Request) (argv []string, ok bool) {
	v := view{Request: r}
	if !r.Effect.Runs() || r.Effect.Persistent || len(r.Effect.Env) > 0 {
		return nil, false
	}
	argv = v.script().plain
	return argv, argv != nil
}
