package rpc

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	// firstCredit is how many bytes of bulk may be on their way before the peer has
	// read them, to begin with; minCredit and maxCredit bound what becomes of it. Kernels
	// hold megabytes for a peer that reads slowly, and whatever is written behind those
	// comes as late as they are read.
	firstCredit = 256 << 10
	minCredit   = 64 << 10
	maxCredit   = 8 << 20
	// quickPong and slowPong say when the credit is doubled and when it is halved: what
	// is on its way should be read within about a second.
	quickPong = 500 * time.Millisecond
	slowPong  = 2 * time.Second
	// pongPatience is how long a pong is waited for. A peer that never sends one is sent
	// to without credit.
	pongPatience = 30 * time.Second
	// quickBytes a second is what a peer reads that may be sent wideBatch at once: what is
	// small and comes behind waits for that about 5 ms.
	quickBytes = 64 << 20
)

// pace measures how much of what was sent the peer has read: with pings behind bulk data,
// which every peer answers when it comes to them in what it reads.
type pace struct {
	ping   func(payload []byte) // adds a ping behind what was added so far
	resume func()               // more may be written; no lock is held

	mu      sync.Mutex
	off     bool
	sent    int64
	read    int64 // of sent, as far as is known
	credit  int64
	marks   uint64 // pings so far
	mark    int64  // what was sent before the ping that is not answered; 0 = none
	at      time.Time
	changed chan struct{} // closed at the next change; nil while nobody waits
	quick   bool          // it reads quickBytes a second
}

// wrote counts bulk that was added to the output.
func (p *pace) wrote(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return
	}
	p.sent += int64(n)
	p.measure()
}

// measure sends a ping when half of the credit is used. p.mu is held.
func (p *pace) measure() {
	if p.mark != 0 || p.sent-p.read < p.credit/2 {
		return
	}
	p.marks++
	p.mark, p.at = p.sent, time.Now()
	p.ping(binary.BigEndian.AppendUint64([]byte("pace"), p.marks))
}

// moved is how much has been sent and read so far: it changes as long as the peer reads.
func (p *pace) moved() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent + p.read
}

// ready reports whether more bulk may be written.
func (p *pace) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isReady()
}

func (p *pace) isReady() bool { return p.off || p.sent-p.read < p.credit }

// isQuick reports whether the peer reads so fast that nobody waits long for a large frame.
func (p *pace) isQuick() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quick
}

// wait returns nil when more bulk may be written, else what is closed when to look again.
func (p *pace) wait() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isReady() {
		return nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// pong takes the answer to a ping.
func (p *pace) pong(payload string) {
	p.mu.Lock()
	if p.mark == 0 || len(payload) != 12 || payload[:4] != "pace" || binary.BigEndian.Uint64([]byte(payload[4:])) != p.marks {
		p.mu.Unlock()
		return
	}
	took := time.Since(p.at)
	p.quick = took > 0 && float64(p.mark-p.read) >= quickBytes*took.Seconds()
	switch {
	case took < quickPong:
		p.credit = min(2*p.credit, maxCredit)
	case took > slowPong:
		p.credit = max(p.credit/2, minCredit)
	}
	p.read, p.mark = p.mark, 0
	p.measure()
	p.change()
}

// late gives up on pongs when one has not come for long.
func (p *pace) late() {
	p.mu.Lock()
	if p.mark == 0 || time.Since(p.at) < pongPatience {
		p.mu.Unlock()
		return
	}
	p.off = true
	p.change()
}

// change frees who waits. p.mu is held, and let go.
func (p *pace) change() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	p.mu.Unlock()
	if p.resume != nil {
		p.resume()
	}
}
