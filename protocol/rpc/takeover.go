package rpc

import (
	"sync"
	"sync/atomic"
	"time"
)

// A request that comes alone is handled by the goroutine that read it: to hand it
// over costs more than most requests. Should the handler take longer than this, or
// block, another goroutine takes over the reading.
const takeoverAfter = time.Millisecond

// A clock that ticks so often costs as much as all the rest when the handlers of much
// output are called, thousands a second. So when many in a row took less, the next is
// given longer, until one does not.
const (
	manyQuick     = 32
	takeoverLater = 10 * time.Millisecond
)

// quietTurns is after how many turns of the clock without a request it stops.
const quietTurns = 1

// takeover decides who reads. While the reader handles a request itself the turn is
// odd; whoever moves it on first, the reader that comes back or the clock, decides
// whether the reader goes on reading.
type takeover struct {
	c    *Conn
	turn atomic.Uint64

	quick atomic.Int32 // handlers in a row that were; at most manyQuick

	mu      sync.Mutex
	clock   *time.Timer // nil while it stands still
	seen    uint64
	quiet   int
	stopped bool
}

// run handles a task on the reader's goroutine; false when another goroutine reads by
// now.
func (t *takeover) run(k task) (reading bool) {
	n := t.turn.Add(1)
	t.start()
	began := time.Now()
	t.c.do(&k)
	took := time.Since(began)
	if !t.turn.CompareAndSwap(n, n+1) {
		return false
	}
	switch quick := t.quick.Load(); {
	case took >= takeoverAfter:
		t.quick.Store(0)
		if quick == manyQuick {
			t.hurry()
		}
	case quick < manyQuick:
		t.quick.Store(quick + 1)
	}
	return true
}

// hurry makes the clock tick soon.
func (t *takeover) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock != nil && t.clock.Stop() { // else it ticks right now
		t.clock.Reset(takeoverAfter)
	}
}

// period is the time until the next tick.
func (t *takeover) period() time.Duration {
	if t.quick.Load() == manyQuick {
		return takeoverLater
	}
	return takeoverAfter
}

// start starts the clock. The reader calls it, which keeps the connection's count of
// goroutines above zero; the running clock is one more of them.
func (t *takeover) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock == nil && !t.stopped {
		t.c.work.Add(1)
		t.seen, t.quiet = 0, 0
		t.clock = time.AfterFunc(takeoverAfter, t.tick)
	}
}

func (t *takeover) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.turn.Load()
	switch {
	case t.stopped:
	case n != t.seen:
		t.seen, t.quiet = n, 0
	case n%2 == 1:
		if t.turn.CompareAndSwap(n, n+1) {
			t.quick.Store(0)
			t.c.work.Add(1)
			go func() {
				defer t.c.work.Done()
				t.c.readLoop()
			}()
		}
	default:
		t.quiet++
	}
	if t.stopped || t.quiet > quietTurns {
		t.clock = nil
		t.c.work.Done()
		return
	}
	t.clock.Reset(t.period())
}

// stop ends the clock with the connection. A handler that still runs finds its
// reading taken over by nobody, and ends.
func (t *takeover) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.clock != nil && t.clock.Stop() {
		t.clock = nil
		t.c.work.Done()
	}
}
