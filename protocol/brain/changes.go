package brain

import "sync"

// changes wakes those who look at the executors again when something about them is
// another.
type changes struct {
	mu sync.Mutex
	ch chan struct{} // nil when nobody waits
}

func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}

// Changed returns a channel that is closed at the next change of what Executors says:
// one has come, is gone, is forgotten or has other capabilities. Who gets the channel
// first and looks then misses nothing:
//
//	for {
//		changed := b.Changed()
//		look(b.Executors())
//		<-changed
//	}
func (b *Brain) Changed() <-chan struct{} { return b.changes.next() }
