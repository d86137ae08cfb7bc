package capabilities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-executor/executor/protocol"
)

// Prepared is one request or notification of a [RegisteredMethod], decoded and
// checked.
type Prepared struct {
	SessionID string // "" for a method of the machine
	// Lane orders requests: those with the same non-empty lane on one connection are
	// handled one after another, in order of arrival.
	Lane string
	// ID is what the request is about, a process for example; "" when it is nothing that has a name. Effect says
	// what is going to happen.
	ID     string
	Effect Effect
	// Run calls the handler with the session of SessionID or, for a method of the
	// machine, with the machine's session. The result is a pointer, so that a
	// protocol.Blob is seen as one; it is nil for notifications and with an error.
	Run func(ctx context.Context, s *Session) (any, error)
}

// RegisteredMethod is a method or notification in a [Registry].
type RegisteredMethod struct {
	Spec       protocol.Spec
	Capability string // the name of the capability that registered it
	Machine    bool   // belongs to the machine, not to a session
	// Prepare decodes and checks. data is the raw part of a binary message, nil
	// for a text message; it becomes the params' protocol.Blob without a copy and
	// must stay as it is until Run has returned. raw is not kept. The error is a
	// *protocol.Error with code invalid_params that names the member.
	Prepare func(raw json.RawMessage, data []byte) (Prepared, error)
}

// Handle registers the handler of a method that belongs to a session. The host
// calls it only while the session is active, with a context that ends with the
// connection or the session, whichever is first. A method is harmless to repeat:
// the other end sends it again when it got no answer.
//
// A *protocol.Error crosses the wire as it is. It panics on registration
// mistakes: a method that is taken, that the brain does not send, or that the
// executor itself answers.
func Handle[P protocol.InSession, R any](r *Registrar, m protocol.Method[P, R], h func(context.Context, *Session, P) (R, error)) {
	r.addMethod(RegisteredMethod{Spec: m.Spec, Prepare: func(raw json.RawMessage, data []byte) (Prepared, error) {
		p, err := decodeParams[P](raw, data)
		if err != nil {
			return Prepared{}, err
		}
		id := p.InSession()
		if id == "" {
			return Prepared{}, errNoSession
		}
		return newRequest(m, id, p, h), nil
	}})
}

// HandleMachine is [Handle] for a method of the machine: terminals, skills,
// backups. Its handler gets the machine's session, whose ID is empty, which has
// no assignment and which lives as long as the executor; session hooks are not
// called for it.
func HandleMachine[P, R any](r *Registrar, m protocol.Method[P, R], h func(context.Context, *Session, P) (R, error)) {
	r.addMethod(RegisteredMethod{Spec: m.Spec, Machine: true, Prepare: func(raw json.RawMessage, data []byte) (Prepared, error) {
		p, err := decodeParams[P](raw, data)
		if err != nil {
			return Prepared{}, err
		}
		return newRequest(m, "", p, h), nil
	}})
}

// HandleNotification registers the handler of a notification from the brain.
// Those of one method are handled in order of arrival. Nobody sees the error but
// the log.
func HandleNotification[P protocol.InSession](r *Registrar, n protocol.Notification[P], h func(context.Context, *Session, P) error) {
	r.addMethod(RegisteredMethod{Spec: n.Spec, Prepare: func(raw json.RawMessage, data []byte) (Prepared, error) {
		p, err := decodeParams[P](raw, data)
		if err != nil {
			return Prepared{}, err
		}
		id := p.InSession()
		if id == "" {
			return Prepared{}, errNoSession
		}
		about, effect := effectOfMethod(n.Spec, p)
		return Prepared{SessionID: id, Lane: n.Name, ID: about, Effect: effect, Run: func(ctx context.Context, s *Session) (any, error) {
			return nil, h(ctx, s, p)
		}}, nil
	}})
}

var errNoSession = protocol.Errorf(protocol.CodeInvalidParams, "session_id: required, but missing or empty")

func newRequest[P, R any](m protocol.Method[P, R], id string, p P, h func(context.Context, *Session, P) (R, error)) Prepared {
	req := Prepared{SessionID: id}
	req.ID, req.Effect = effectOfMethod(m.Spec, p)
	if m.Lane != nil {
		req.Lane = m.Lane(p)
	}
	req.Run = func(ctx context.Context, s *Session) (any, error) {
		result, err := h(ctx, s, p)
		if err != nil {
			return nil, err
		}
		return &result, nil
	}
	return req
}

func decodeParams[P any](raw json.RawMessage, data []byte) (P, error) {
	p, err := protocol.DecodeParams[P](raw, data)
	if err != nil {
		return p, asInvalidParams(err)
	}
	return p, nil
}

// checkMethod panics unless a capability may answer the method.
func checkMethod(capability string, spec protocol.Spec) {
	if spec.Name == "" {
		panic(fmt.Sprintf("capabilities: %s: method without a name", capability))
	}
	if spec.From == protocol.Executor {
		panic(fmt.Sprintf("capabilities: %s: method %s is sent by the executor, not by the brain", capability, spec.Name))
	}
	for _, s := range protocol.Specs() {
		if s.Name == spec.Name && s.Capability == "" {
			panic(fmt.Sprintf("capabilities: %s: method %s is answered by the executor itself", capability, spec.Name))
		}
	}
}
