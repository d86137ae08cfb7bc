package rpc

import (
	"context"
	"io"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// pipeDepth is how many frames wait for a reader that is slow.
const pipeDepth = 64

// Pipe returns two connected Frames in memory, for tests and for a brain in the
// same process. What one end writes, the other reads.
func Pipe() (Frames, Frames) {
	shared := &pipe{done: make(chan struct{})}
	ab, ba := make(chan []byte, pipeDepth), make(chan []byte, pipeDepth)
	return &pipeEnd{pipe: shared, in: ba, out: ab}, &pipeEnd{pipe: shared, in: ab, out: ba}
}

// pipe is what the two ends share: that, and how, one of them closed.
type pipe struct {
	once   sync.Once
	done   chan struct{}
	closer *pipeEnd
	end    CloseError
}

type pipeEnd struct {
	*pipe
	in, out chan []byte
}

func (p *pipeEnd) Subprotocol() string { return protocol.Version1 }

func (p *pipeEnd) more() bool { return len(p.in) > 0 }

// ReadFrame returns what was written before the other end closed, then why.
func (p *pipeEnd) ReadFrame(ctx context.Context) ([]byte, error) {
	select {
	case f := <-p.in:
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
	}
	if p.closer == p {
		return nil, io.ErrClosedPipe
	}
	select {
	case f := <-p.in:
		return f, nil
	default:
		end := p.end
		return nil, &end
	}
}

func (p *pipeEnd) WriteFrame(ctx context.Context, frame []byte) error {
	select {
	case <-p.done:
		return io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- append([]byte(nil), frame...):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return io.ErrClosedPipe
	}
}

func (p *pipeEnd) Close(code int, reason string) error {
	p.once.Do(func() {
		p.closer, p.end = p, CloseError{Code: code, Reason: reason}
		close(p.done)
	})
	return nil
}
