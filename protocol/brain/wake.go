package brain

import (
	"context"

	"github.com/agent-executor/executor/protocol"
)

// maxWakes is how many wakes of a session are remembered, so that a repeat of one is not taken for
// another.
const maxWakes = 256

// wakes are those of one session, under its lock.
type wakes struct {
	all   map[string]*wake
	order []string // the ids of those that were taken, by age
}

type wake struct {
	done chan struct{} // closed when it was taken or refused
	err  error         // set before that
}

// sessionWake hands a wake on, and acknowledges it when it was taken. It is handled only where somebody
// wants to know.
func (b *Brain) sessionWake(ctx context.Context, c *connection, p protocol.SessionWakeParams) (protocol.AcceptedResult, error) {
	s := b.sessionOf(c, p.SessionID)
	if s == nil {
		return protocol.AcceptedResult{}, protocol.Errorf(protocol.CodeSessionNotActive, "the session is not one of this executor's")
	}
	if err := s.wake(ctx, p, b.opts.OnWake); err != nil {
		return protocol.AcceptedResult{}, err
	}
	return protocol.AcceptedResult{Accepted: true}, nil
}

// wake calls take once for a wake that is taken, however often it comes.
func (s *Session) wake(ctx context.Context, p protocol.SessionWakeParams, take func(protocol.SessionWakeParams) error) error {
	s.mu.Lock()
	w, known := s.wakes.all[p.WakeID]
	if !known {
		if s.wakes.all == nil {
			s.wakes.all = map[string]*wake{}
		}
		w = &wake{done: make(chan struct{}), err: protocol.Errorf(protocol.CodeInternalError, "the wake was not taken")}
		s.wakes.all[p.WakeID] = w
	}
	s.mu.Unlock()
	if known { // it came again, perhaps over another connection while the first is being taken
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { // also when take panics
		s.mu.Lock()
		defer s.mu.Unlock()
		close(w.done)
		if w.err != nil { // the next try is another chance
			delete(s.wakes.all, p.WakeID)
			return
		}
		s.wakes.order = append(s.wakes.order, p.WakeID)
		if len(s.wakes.order) > maxWakes {
			delete(s.wakes.all, s.wakes.order[0])
			s.wakes.order = s.wakes.order[1:]
		}
	}()
	w.err = take(p)
	return w.err
}
