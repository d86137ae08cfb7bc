package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

const (
	// pushPiece is the most bytes in one process.output: it fits, with what is said about it, into one
	// write of the connection.
	pushPiece = 64 << 10
	// pushTime is how long one may take, and pushAgain how long after a failure it is tried again.
	pushTime  = 10 * time.Second
	pushAgain = 100 * time.Millisecond
)

// pieces are what bytes are in between the log and the connection.
var pieces = sync.Pool{New: func() any { return new([pushPiece]byte) }}

// push sends the output of one stream as it comes, as far as the other end has acknowledged. It goes on
// over reconnects: who misses a piece, by its cursor, subscribes again. Its loop is a goroutine of the
// table.
type push struct {
	ring   *stream.Ring
	params protocol.ProcessSubscribeParams
	ctx    context.Context // the session's, until cancel
	cancel context.CancelFunc
	done   chan struct{} // the loop has returned

	acked chan int64 // holds the highest cursor acknowledged that the loop has not seen
}

// subscribe answers process.subscribe. When it has answered, nothing comes of the one before.
func (c *Processes) subscribe(ctx context.Context, s *capabilities.Session, p protocol.ProcessSubscribeParams) (protocol.AcceptedResult, error) {
	var none protocol.AcceptedResult
	t, ch, err := find(ctx, s, p.ProcessID)
	if err != nil {
		return none, err
	}
	if p.Stream == "" {
		p.Stream = protocol.StreamStdout
	}
	ring := ch.ring(p.Stream, p.Cursor)
	if end := ring.End(); p.Cursor > end {
		return none, protocol.Errorf(protocol.CodeInvalidParams, "cursor: %d is beyond the end of %s, which is %d", p.Cursor, p.Stream, end)
	}
	var next *push
	if p.WindowBytes > 0 {
		next = &push{ring: ring, params: p, done: make(chan struct{}), acked: make(chan int64, 1)}
		next.ctx, next.cancel = context.WithCancel(s.Context())
	}
	if before := ch.replacePush(p.Stream, next); before != nil {
		before.cancel()
		select {
		case <-before.done:
		case <-ctx.Done():
			if next != nil { // it never runs
				ch.dropPush(p.Stream, next)
				next.cancel()
				close(next.done)
			}
			return none, ctx.Err()
		}
	}
	if next == nil {
		return protocol.AcceptedResult{Accepted: true}, nil
	}
	ring.Pass(p.Cursor)
	if !t.run(func() { next.loop(s) }) {
		next.cancel()
		close(next.done)
		return none, errSessionEnds
	}
	return protocol.AcceptedResult{Accepted: true}, nil
}

// ack takes in a process.ack.
func (c *Processes) ack(ctx context.Context, s *capabilities.Session, p protocol.ProcessAckParams) error {
	_, ch, err := find(ctx, s, p.ProcessID)
	if err != nil {
		return err
	}
	if p.Stream == "" {
		p.Stream = protocol.StreamStdout
	}
	ring := ch.ring(p.Stream, p.Cursor)
	if end := ring.End(); p.Cursor > end {
		return protocol.Errorf(protocol.CodeInvalidParams, "cursor: %d is beyond the end of %s, which is %d", p.Cursor, p.Stream, end)
	}
	ring.Pass(p.Cursor)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if current := ch.pushes[p.Stream]; current != nil {
		select {
		case older := <-current.acked: // acks come one after another, so there is room now
			p.Cursor = max(p.Cursor, older)
		default:
		}
		current.acked <- p.Cursor
	}
	return nil
}

// replacePush puts a push in the place of the one before, which it returns. nil takes it away.
func (ch *child) replacePush(name string, next *push) (before *push) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	before = ch.pushes[name]
	if ch.pushes == nil {
		ch.pushes = map[string]*push{}
	}
	delete(ch.pushes, name)
	if next != nil {
		ch.pushes[name] = next
	}
	return before
}

// dropPush takes a push away that may have been replaced.
func (ch *child) dropPush(name string, u *push) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.pushes[name] == u {
		delete(ch.pushes, name)
	}
}

// loop sends until the end of the stream, of the session, or of the push.
func (u *push) loop(s *capabilities.Session) {
	defer close(u.done)
	defer u.cancel()
	ctx := u.ctx
	acked := u.params.Cursor
	for cursor := u.params.Cursor; ; {
		for room := acked + int64(u.params.WindowBytes) - cursor; room <= 0; room = acked + int64(u.params.WindowBytes) - cursor {
			select {
			case c := <-u.acked:
				acked = max(acked, c)
			case <-ctx.Done():
				return
			}
		}
		if u.ring.Wait(ctx, cursor, nil) != nil {
			return
		}
		select {
		case c := <-u.acked:
			acked = max(acked, c)
		default:
		}
		room := acked + int64(u.params.WindowBytes) - cursor
		piece := pieces.Get().(*[pushPiece]byte)
		chunk, err := u.ring.ReadInto(cursor, piece[:min(room, pushPiece)])
		// An error does not happen while the cursor comes from the ring itself.
		ok := err == nil && u.send(ctx, s, chunk)
		pieces.Put(piece)
		if !ok || chunk.EOF {
			return
		}
		if chunk.Gap { // what was dropped cannot be acknowledged
			acked = max(acked, chunk.From)
		}
		cursor = chunk.Next
	}
}

// send sends one piece, again and again while it is not taken; false when the push has ended.
func (u *push) send(ctx context.Context, s *capabilities.Session, chunk stream.Chunk) bool {
	for {
		limited, cancel := context.WithTimeout(ctx, pushTime)
		err := capabilities.Notify(limited, s, protocol.ProcessOutput, protocol.ProcessOutputParams{
			SessionID: s.ID(), ProcessID: u.params.ProcessID, Stream: u.params.Stream,
			Cursor: chunk.From, Data: chunk.Data, Gap: chunk.Gap, EOF: chunk.EOF})
		cancel()
		var refused *protocol.Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &refused): // it would be refused again
			s.Logger().Warn("process output was not sent", zap.Error(err))
			return false
		}
		timer := time.NewTimer(pushAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
