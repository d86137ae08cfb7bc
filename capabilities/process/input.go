package process

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// heldWrites is how many writes of the largest size are held for a program that does not read.
const heldWrites = 4

// way is how input gets to a program.
type way struct {
	write func([]byte) error
	end   func()       // says that no more comes
	abort func() error // makes a write that hangs return, and all later ones
}

// pipeInput is the way through a pipe, which input owns from now on.
func pipeInput(pipe *os.File) way {
	return way{
		write: func(p []byte) error { _, err := pipe.Write(p); return err },
		end:   func() { _ = pipe.Close() },
		abort: pipe.Close,
	}
}

// input passes what is written on to a program, which may read it slowly or never: a bounded part is
// held, and who writes more waits. run is its loop, stop ends it.
type input struct {
	to    way
	limit int // bytes held at most

	mu      sync.Mutex
	held    []byte
	taken   int64 // bytes taken since the start
	closing bool  // close_stdin was asked for
	broken  bool  // the program does not read any more
	stopped bool  // the program has ended
	changed chan struct{}
}

func newInput(to way, maxWrite int) *input {
	return &input{to: to, limit: heldWrites * maxWrite, changed: make(chan struct{})}
}

// run carries what is held to the program until there is no more, or nobody who reads it.
func (in *input) run() {
	for {
		in.mu.Lock()
		part, changed := in.held, in.changed
		switch {
		case in.stopped || in.broken:
			in.mu.Unlock()
			return
		case len(part) == 0 && in.closing:
			in.mu.Unlock()
			in.to.end()
			return
		case len(part) == 0:
			in.mu.Unlock()
			<-changed
			continue
		}
		part = part[:min(len(part), 32<<10)]
		in.mu.Unlock()
		err := in.to.write(part) // held is only appended to meanwhile
		in.mu.Lock()
		switch {
		case in.stopped: // nothing is held any more
		case err != nil:
			in.broken, in.held = true, nil
		case len(part) == len(in.held):
			in.held = nil
		default:
			in.held = in.held[len(part):]
		}
		in.wake()
		in.mu.Unlock()
	}
}

// stop says that the program has ended: nothing is written any more.
func (in *input) stop() {
	in.mu.Lock()
	in.stopped, in.held = true, nil
	in.wake()
	in.mu.Unlock()
	_ = in.to.abort()
}

// put takes all of p, or nothing of it. With an offset, what was taken before is not taken again. It
// waits while there is no room, at most for a time. It returns the offset behind all that was taken.
func (in *input) put(ctx context.Context, p []byte, offset *int64, end bool, wait time.Duration) (int64, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		fresh := p
		if offset != nil {
			seen := in.taken - *offset
			if seen < 0 {
				return 0, protocol.Errorf(protocol.CodeConflict, "offset: %d leaves a gap behind the %d bytes taken so far", *offset, in.taken)
			}
			fresh = p[min(seen, int64(len(p))):]
			if len(fresh) == 0 && (!end || in.closing) {
				return in.taken, nil // a repeat, also after the end
			}
		}
		switch {
		case in.stopped:
			return 0, protocol.Errorf(protocol.CodeConflict, "the process has ended")
		case in.closing:
			return 0, protocol.Errorf(protocol.CodeConflict, "standard input was closed with close_stdin")
		case in.broken && len(fresh) > 0:
			return 0, protocol.Errorf(protocol.CodeConflict, "the program has closed its standard input")
		case len(in.held) == 0 || len(in.held)+len(fresh) <= in.limit:
			in.held = append(in.held, fresh...)
			in.taken += int64(len(fresh))
			in.closing = end
			in.wake()
			return in.taken, nil
		}
		changed := in.changed
		in.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-timer.C:
			err = protocol.Errorf(protocol.CodeExecutorBusy, "the program does not read its input; %d bytes wait for it", in.limit)
		case <-ctx.Done():
			err = ctx.Err()
		}
		in.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
}

// wake tells those who wait. in.mu is held.
func (in *input) wake() {
	close(in.changed)
	in.changed = make(chan struct{})
}
