// Package gate is the place where it is decided whether something that a brain asks for is done: what the executor
// asks, and what it is answered. It decides nothing itself.
//
//	executor.Options{Decide: func(r gate.Request) gate.Verdict {
//		if r.Name == "delete" {
//			return gate.Refuse(gate.Denied("nothing is deleted here"))
//		}
//		return gate.Verdict{}
//	}}
//
// Package trust is such a function, made of a policy, the local user's approval and an audit log.
package gate

import (
	"context"
	"encoding/json"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Request is a tool.call, or a method that changes or starts something, before it is accepted. It is not to be
// written to, and may be kept.
type Request struct {
	// Brain, ExecutorID and ConnectionID say over which connection it came; the last is "" when that is
	// lost already.
	Brain        string
	ExecutorID   string
	ConnectionID string
	// Session is the one it belongs to: its ID, its assignment with the metadata, its workspace, and the context
	// that ends with it. For a method of the machine it is the machine's.
	Session *capabilities.Session

	// Name is a tool's, or a method's ("process.start") when Method is set. ID is its tool_call_id, or what the
	// request is about, a process_id.
	Name   string
	Method bool
	ID     string
	// Input is a tool's input or a method's params, as they came; nil for those that are data, like process.write.
	Input json.RawMessage
	// Effect is what it is going to do, as far as that is known.
	Effect capabilities.Effect
	// AlwaysAsk: the brain demands that the local user is asked (permission.mode).
	AlwaysAsk bool
}

// Verdict is the answer. The zero Verdict lets it be done.
type Verdict struct {
	// Refuse is why it is refused: a *protocol.Error, which the brain gets before anything was accepted. The
	// rest is not looked at then.
	Refuse error
	// Wait is called once the request is accepted, and returns when it may be done (nil) or with a *protocol.Error
	// that says why not. For a method that is asked for again with the same ID and Input, it waits for the same
	// decision: its ctx may end meanwhile, which decides nothing. For a tool's call the end of ctx is the end of
	// the waiting. nil: there is nothing to wait for.
	Wait func(ctx context.Context) error
	// Ended is called once, when it has ended or when it was not done after all; not for a method for whose
	// decision the brain has to ask again. It must not wait. nil: nobody wants to know.
	Ended func(End)
}

// End is how something ended.
type End struct {
	// Outcome is one of protocol.OutcomeSucceeded, OutcomeFailed and OutcomeCanceled, or NotStarted.
	Outcome string
	// Reason is that of the error, "" for none.
	Reason string
	// IsError: it was done, and its answer is an error.
	IsError bool
	// Mutations are the paths that were changed, when the tool says so.
	Mutations []protocol.Mutation
}

// NotStarted is the Outcome of what was not accepted after all, or not run.
const NotStarted = "not_started"

// Decide is what executor.Options takes. It is called concurrently and must not wait: what takes time belongs into
// Verdict.Wait.
type Decide func(Request) Verdict

// Refuse is the Verdict of what is not done.
func Refuse(err error) Verdict { return Verdict{Refuse: err} }

// Denied is the error of what a policy forbids.
func Denied(format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeForbidden, format, args...)
}
