package outbox

import "context"

// Settled waits until no result of the session is owed.
func (b *Box) Settled(ctx context.Context, sessionID string) error {
	return b.until(ctx, func() bool {
		for _, e := range b.owed {
			if e.session == sessionID {
				return false
			}
		}
		return true
	})
}

// Drained waits until no result is owed.
func (b *Box) Drained(ctx context.Context) error {
	return b.until(ctx, func() bool { return len(b.owed) == 0 })
}

func (b *Box) until(ctx context.Context, done func() bool) error {
	for {
		b.mu.Lock()
		ok, changed, closed := done(), b.change(), b.closed
		b.mu.Unlock()
		switch {
		case ok:
			return nil
		case closed:
			return context.Canceled
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change is closed at the next change.
func (b *Box) change() <-chan struct{} {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

func (b *Box) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}
