package process

import (
	"context"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// tellAgain is how long after a failure, there being no connection, a process.status is tried
	// again; it doubles up to tellAgainMost.
	tellAgain     = 200 * time.Millisecond
	tellAgainMost = 5 * time.Second
	// tellTime is how long one may take.
	tellTime = time.Second
)

// teller sends process.status of processes that have ended, in order, also after a time without a
// connection.
type teller struct {
	table *table

	mu    sync.Mutex
	queue []*child
	runs  bool
}

// tell sends it soon.
func (n *teller) tell(ch *child) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, ch)
	if !n.runs {
		n.runs = n.table.run(n.loop)
	}
}

func (n *teller) loop() {
	session := n.table.session.Context()
	for pause := tellAgain; ; {
		ch := n.first()
		if ch == nil {
			return
		}
		if n.send(session, ch) == nil {
			n.pop()
			pause = tellAgain
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-session.Done():
			timer.Stop()
			return // finish tries once more
		}
		pause = min(2*pause, tellAgainMost)
	}
}

// finish sends what is left when the session ends, if there is a connection.
func (n *teller) finish() {
	for ch := n.first(); ch != nil; ch = n.first() {
		if n.send(context.Background(), ch) != nil {
			return
		}
		n.pop()
	}
}

// first is the next to be told; without one the loop has ended.
func (n *teller) first() *child {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		n.runs = false
		return nil
	}
	return n.queue[0]
}

func (n *teller) pop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = n.queue[1:]
}

func (n *teller) send(ctx context.Context, ch *child) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	s := ch.snapshot()
	return capabilities.Notify(ctx, n.table.session, protocol.ProcessStatus, protocol.ProcessStatusParams{
		SessionID: n.table.session.ID(), ProcessID: ch.id, State: s.State,
		ExitCode: s.ExitCode, ExitSignal: s.ExitSignal, Reason: s.Reason, EndedAt: s.EndedAt,
		ObservedAt: protocol.At(time.Now()),
	})
}
