package process

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

const (
	// pushPiece is the most bytes in one process.output, and minPushPiece how many may be in one however
	// small the window is; else it is a quarter of the window, so that the other end acknowledges some
	// while others are on their way.
	pushPiece    = 256 << 10
	minPushPiece = 64 << 10
	// leastPushPiece is to what they are made smaller for a brain that takes no such messages.
	leastPushPiece = 4 << 10
	// pushTime is how long one may take, and pushAgain how long after a failure it is tried again.
	pushTime  = 10 * time.Second
	pushAgain = 100 * time.Millisecond
)

// pieces are what bytes are in between the log and the connection.
var pieces = sync.Pool{New: func() any { return new([pushPiece]byte) }}

// push sends the output of one stream as it comes, as far as the other end has acknowledged. It goes on
// over reconnects: who misses a piece, by its cursor, subscribes again.
//
// As a rule it is the writer of the ring who sends, with what it has just written, as long as nothing has to
// be waited for: to wake another goroutine for each piece costs as much as the piece. What has to be waited
// for, the window or the connection, its loop waits for, a goroutine of the table.
type push struct {
	session *capabilities.Session
	ring    *stream.Ring
	params  protocol.ProcessSubscribeParams
	ctx     context.Context // the session's, until cancel
	cancel  context.CancelFunc
	done    chan struct{} // the loop has returned

	acked atomic.Int64  // the highest cursor acknowledged
	news  chan struct{} // holds one when acked has changed
	more  chan struct{} // holds one when the loop is to look

	turn   chan struct{} // holds one while somebody sends, who has what follows
	cursor int64
	most   int  // bytes in a piece
	over   bool // nothing is to be sent any more
}

func newPush(s *capabilities.Session, ring *stream.Ring, p protocol.ProcessSubscribeParams) *push {
	u := &push{session: s, ring: ring, params: p, done: make(chan struct{}), news: make(chan struct{}, 1), more: make(chan struct{}, 1),
		turn: make(chan struct{}, 1), cursor: p.Cursor, most: min(max(p.WindowBytes/4, minPushPiece), pushPiece)}
	u.acked.Store(p.Cursor)
	u.ctx, u.cancel = context.WithCancel(s.Context())
	return u
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
		next = newPush(s, ring, p)
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
	if !t.run(next.loop) {
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
		current.passed(p.Cursor)
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

// passed notes that every byte before the cursor was taken.
func (u *push) passed(cursor int64) {
	for {
		before := u.acked.Load()
		if cursor <= before {
			return
		}
		if u.acked.CompareAndSwap(before, cursor) {
			signal(u.news)
			return
		}
	}
}

// signal says something to who looks at it next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// progress is how far a push has come.
type progress int

const (
	caughtUp   progress = iota // all that is there was sent
	windowFull                 // the window is used up
	held                       // the connection has to be waited for
	finished                   // that was all, or it has been ended
)

// loop sends what has to be waited for, until the end of the stream, of the session, or of the push.
func (u *push) loop() {
	defer close(u.done)
	defer u.cancel()
	defer u.ring.Follow(nil)
	u.turn <- struct{}{} // kept in the end, so that nothing comes any more
	u.ring.Follow(u.follow)
	for {
		wake := u.more
		switch u.advance(u.send) {
		case finished:
			return
		case held: // it would be again
			if u.ctx.Err() == nil {
				u.session.Logger().Warn("process output was not sent", zap.String("process", u.params.ProcessID))
			}
			return
		case windowFull:
			wake = u.news
		case caughtUp:
			<-u.turn
		}
		select {
		case <-wake:
		case <-u.ctx.Done():
		}
		if wake == u.more {
			u.turn <- struct{}{}
		}
	}
}

// follow sends what has come, on the goroutine of who has written it, as far as that need not wait.
func (u *push) follow() {
	select {
	case u.turn <- struct{}{}:
	default:
		signal(u.more)
		return
	}
	p := u.advance(func(c stream.Chunk) error { return u.notify(atOnce, c) })
	<-u.turn
	if p != caughtUp {
		signal(u.more)
	}
}

// atOnce is a context for what is not to wait.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// advance sends as far as it may. Who calls it has the turn.
func (u *push) advance(send func(stream.Chunk) error) progress {
	for !u.over && u.ctx.Err() == nil {
		room := u.acked.Load() + int64(u.params.WindowBytes) - u.cursor
		if room <= 0 {
			return windowFull
		}
		piece := pieces.Get().(*[pushPiece]byte)
		chunk, err := u.ring.ReadInto(u.cursor, piece[:min(room, int64(u.most))])
		// An error does not happen while the cursor comes from the ring itself.
		something := err == nil && (len(chunk.Data) > 0 || chunk.EOF || chunk.Next > u.cursor)
		if something {
			err = send(chunk)
		}
		pieces.Put(piece)
		var refused *protocol.Error
		switch {
		case errors.As(err, &refused) && refused.Code == protocol.CodePayloadTooLarge && len(chunk.Data) > leastPushPiece:
			u.most = max(len(chunk.Data)/2, leastPushPiece)
			continue
		case err != nil:
			return held
		case !something:
			return caughtUp
		}
		if chunk.Gap { // what was dropped cannot be acknowledged
			u.passed(chunk.From)
		}
		u.cursor, u.over = chunk.Next, chunk.EOF
	}
	return finished
}

func (u *push) notify(ctx context.Context, chunk stream.Chunk) error {
	return capabilities.Notify(ctx, u.session, protocol.ProcessOutput, protocol.ProcessOutputParams{
		SessionID: u.session.ID(), ProcessID: u.params.ProcessID, Stream: u.params.Stream,
		Cursor: chunk.From, Data: chunk.Data, Gap: chunk.Gap, EOF: chunk.EOF})
}

// send sends one piece, again and again while it is not taken. The error is that of the push's end, or a
// refusal, which would come again.
func (u *push) send(chunk stream.Chunk) error {
	for {
		limited, cancel := context.WithTimeout(u.ctx, pushTime)
		err := u.notify(limited, chunk)
		cancel()
		var refused *protocol.Error
		if err == nil || errors.As(err, &refused) {
			return err
		}
		timer := time.NewTimer(pushAgain)
		select {
		case <-timer.C:
		case <-u.ctx.Done():
			timer.Stop()
			return u.ctx.Err()
		}
	}
}
