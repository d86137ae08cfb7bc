package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-executor/executor/protocol"
)

// Mux is the table of what one end answers. It is filled before the first
// connection and only read after it; any number of connections may share it.
type Mux struct {
	maxInFlight int
	entries     map[string]*entry
}

// Prepare decodes the params of one message. It returns the lane ("" = none) and
// what is to be run. params and data are only valid until run has returned.
type Prepare func(params json.RawMessage, data []byte) (lane string, run Run, err error)

// Run handles one request; its context ends with the connection.
type Run func(context.Context) (result any, err error)

type entry struct {
	spec    protocol.Spec
	laned   bool // decode on the read loop, because the lane is in the params
	prepare Prepare
}

// NewMux makes a table without entries. Each connection handles at most
// maxInFlight requests at once (0 = the protocol's default); one more is answered
// with executor_busy, which is retryable, and never queued.
func NewMux(maxInFlight int) *Mux {
	if maxInFlight <= 0 {
		maxInFlight = protocol.DefaultMaxInFlight
	}
	return &Mux{maxInFlight: maxInFlight, entries: map[string]*entry{}}
}

// Handle answers m with h. h runs on a goroutine of its own, or after the
// requests of its lane; its context ends with the connection. An *protocol.Error
// is sent as it is, any other error as internal_error without its text, and a
// panic likewise.
func Handle[P, R any](x *Mux, m protocol.Method[P, R], h func(context.Context, P) (R, error)) {
	handle(x, m, func(ctx context.Context, p P) (any, error) {
		r, err := h(ctx, p)
		return &r, err
	})
}

// HandleThen is Handle for an answer that something follows: the function that h
// returns, if any, runs when the answer is queued, so that what it sends comes behind
// it, in the same write if it comes soon. It must not wait for this connection.
func HandleThen[P, R any](x *Mux, m protocol.Method[P, R], h func(context.Context, P) (R, func(), error)) {
	handle(x, m, func(ctx context.Context, p P) (any, error) {
		r, then, err := h(ctx, p)
		return answerThen{&r, then}, err
	})
}

func handle[P, R any](x *Mux, m protocol.Method[P, R], h func(context.Context, P) (any, error)) {
	x.HandleRaw(m.Spec, m.Lane != nil, func(raw json.RawMessage, data []byte) (string, Run, error) {
		p, err := protocol.DecodeParams[P](raw, bytes.Clone(data))
		if err != nil {
			return "", nil, err
		}
		lane := ""
		if m.Lane != nil {
			lane = m.Lane(p)
		}
		return lane, func(ctx context.Context) (any, error) { return h(ctx, p) }, nil
	})
}

// answerThen is a result with what is to be done behind it.
type answerThen struct {
	result any
	then   func()
}

// Then is what a Run returns for a result that something follows, as in [HandleThen]: then
// runs when the answer is queued, and the result is not looked at any more.
func Then(result any, then func()) any { return answerThen{result, then} }

// HandleNotification answers n with h, one message after another in order of
// arrival. When more than a thousand wait, the oldest is dropped.
func HandleNotification[P any](x *Mux, n protocol.Notification[P], h func(context.Context, P)) {
	x.HandleRaw(n.Spec, true, func(raw json.RawMessage, data []byte) (string, Run, error) {
		p, err := protocol.DecodeParams[P](raw, bytes.Clone(data))
		if err != nil {
			return "", nil, err
		}
		return "", func(ctx context.Context) (any, error) {
			h(ctx, p)
			return nil, nil
		}, nil
	})
}

// HandleRaw is Handle for a method whose types are only known to prepare. laned
// says that prepare returns lanes, so that it runs on the read loop and has to be
// quick. A second handler for one method panics.
func (x *Mux) HandleRaw(spec protocol.Spec, laned bool, prepare Prepare) {
	if _, twice := x.entries[spec.Name]; twice {
		panic(fmt.Sprintf("rpc: two handlers for %s", spec.Name))
	}
	x.entries[spec.Name] = &entry{spec: spec, laned: laned, prepare: prepare}
}

// Refuse answers a method with err.
func (x *Mux) Refuse(spec protocol.Spec, err *protocol.Error) {
	x.HandleRaw(spec, false, func(json.RawMessage, []byte) (string, Run, error) { return "", nil, err })
}

// Handles reports whether the method has a handler.
func (x *Mux) Handles(method string) bool { return x.entries[method] != nil }

// lane runs jobs one after another. It lives in Conn.lanes while it has any.
type lane struct{ jobs []job }

// job is one message on its way to its handler.
type job struct {
	entry *entry
	msg   message
	frame buffer
	run   Run // set when already decoded
}
