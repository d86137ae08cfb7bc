package capabilitytest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Peer plays the brain: it records notifications and answers as it is told to. It
// may be used concurrently; the functions are set before the first use.
type Peer struct {
	// OnCall answers requests; nil: method_not_found.
	OnCall func(ctx context.Context, method string, params json.RawMessage) (result any, err error)
	// OnNotify is asked before a notification is recorded; an error fails it. nil: none does.
	OnNotify func(ctx context.Context, method string, params any) error
	// OnOpen opens channels; nil: resource_unavailable. See Pipe.
	OnOpen func(ctx context.Context, t protocol.ChannelTarget) (capabilities.Channel, error)

	mu       sync.Mutex
	notified []notification
	changed  chan struct{} // closed by the next notification; nil when nobody waits
}

type notification struct {
	method string
	params json.RawMessage
}

var _ capabilities.Peer = (*Peer)(nil)

// Notify records the notification. It never waits, so ctx makes no difference to it.
func (p *Peer) Notify(ctx context.Context, method string, params any) error {
	if p.OnNotify != nil {
		if err := p.OnNotify(ctx, method, params); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("marshal params of %s: %w", method, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notified = append(p.notified, notification{method, raw})
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	return nil
}

// Call answers with OnCall; params and result go through JSON.
func (p *Peer) Call(ctx context.Context, method string, params, result any) error {
	if p.OnCall == nil {
		return protocol.Errorf(protocol.CodeMethodNotFound, "the test answers no %s", method)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("marshal params of %s: %w", method, err)
	}
	answer, err := p.OnCall(ctx, method, raw)
	if err != nil {
		return err
	}
	if raw, err = json.Marshal(answer); err != nil {
		return fmt.Errorf("marshal result of %s: %w", method, err)
	}
	return json.Unmarshal(raw, result)
}

// Open opens with OnOpen.
func (p *Peer) Open(ctx context.Context, t protocol.ChannelTarget) (capabilities.Channel, error) {
	if p.OnOpen == nil {
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "the test opens no %s channel", t.Channel)
	}
	return p.OnOpen(ctx, t)
}

// since returns the notifications of one method from the i-th of all on, and a
// channel that is closed by the next one.
func (p *Peer) since(method string, i int) (found []json.RawMessage, next int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notified[i:] {
		if n.method == method {
			found = append(found, n.params)
		}
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return found, len(p.notified), p.changed
}

// Notified returns the notifications of one method so far, in order.
func Notified[P any](t testing.TB, p *Peer, n protocol.Notification[P]) []P {
	t.Helper()
	raw, _, _ := p.since(n.Name, 0)
	all := make([]P, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &all[i]); err != nil {
			t.Fatalf("notification %s: %v", n.Name, err)
		}
	}
	return all
}

// waitLimit is how long a test waits for what should come at once.
const waitLimit = 10 * time.Second

// WaitNotified waits for a notification that is wanted, among those so far too,
// and fails the test when none comes in 10 s. wanted may be nil: any.
func WaitNotified[P any](t testing.TB, p *Peer, n protocol.Notification[P], wanted func(P) bool) P {
	t.Helper()
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	for next := 0; ; {
		found, end, changed := p.since(n.Name, next)
		next = end
		for _, raw := range found {
			var params P
			if err := json.Unmarshal(raw, &params); err != nil {
				t.Fatalf("notification %s: %v", n.Name, err)
			}
			if wanted == nil || wanted(params) {
				return params
			}
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("no such notification %s came", n.Name)
		}
	}
}

// Pipe returns the two ends of a channel in memory. A frame is written when it is
// read. Closing either end ends both with the same code and reason.
func Pipe() (a, b capabilities.Channel) {
	p := &pipe{closed: make(chan struct{})}
	there, back := make(chan []byte), make(chan []byte)
	return &pipeEnd{pipe: p, in: back, out: there}, &pipeEnd{pipe: p, in: there, out: back}
}

type pipe struct {
	once   sync.Once
	closed chan struct{}
	err    *capabilities.ChannelClosed
}

type pipeEnd struct {
	*pipe
	in, out chan []byte
}

func (e *pipeEnd) ReadFrame(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-e.in:
		return frame, nil
	case <-e.closed:
		return nil, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *pipeEnd) WriteFrame(ctx context.Context, frame []byte) error {
	select {
	case e.out <- append([]byte(nil), frame...):
		return nil
	case <-e.closed:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *pipeEnd) Close(code int, reason string) error {
	e.once.Do(func() {
		e.err = &capabilities.ChannelClosed{Code: code, Reason: reason}
		close(e.closed)
	})
	return nil
}
