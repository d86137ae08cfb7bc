package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// delivery sends what is owed over one connection, oldest first, a few at a time. A
// result leaves the outbox only when the brain has accepted it, or has refused it for
// good. One that it refuses for now rests for a while, and the others go on. While all
// goes well it needs no goroutine: whoever records a result sends it, unless enough are
// under way, and the acknowledgement of one of those sends the next.
type delivery struct {
	c      *connection
	retry  *backoff.ExponentialBackOff // of all, when all are refused
	failed chan error                  // what ends the connection
	work   sync.WaitGroup              // trouble

	mu       sync.Mutex
	ctx      context.Context // of the connection's loops; nil before start and after stop
	underWay map[callID]*shipment
	bytes    int       // of those under way, about
	unheard  int       // those under way that have no answer
	late     *lateness // no answer to any of these by then: the connection is dead
	sending  bool      // somebody is in next
	more     bool      // and is to look once more
	held     bool      // one waits for the brain to read
	resting  map[callID]*rest
	inARow   int         // refusals for now since the last acceptance
	pausing  bool        // because of them
	wake     *time.Timer // for what rests
	replayed bool        // every result has been tried once
}

type callID struct{ session, call string }

// shipment is a result on its way.
type shipment struct {
	result protocol.ToolResultParams
	bytes  int
}

// So much is under way before the brain has answered: enough that many small results
// do not wait for each other's round trip, and little enough that a big one does not
// bring others with it, which a cut would have sent for nothing.
const (
	maxShipments    = 32
	maxShippedBytes = 64 << 10
)

// rest is the pause of one result that was refused for now.
type rest struct {
	until  time.Time
	delays *backoff.ExponentialBackOff
}

// refusedInARow is how many results may be refused for now before it is taken for
// something that is wrong with all of them.
const refusedInARow = 3

// deliver starts the delivery and waits until ctx is done or it has failed. An error
// ends the connection; the next one goes on.
func (c *connection) deliver(ctx context.Context) error {
	d := &c.delivery
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	d.next()
	defer d.stop()
	select {
	case err := <-d.failed:
		return fmt.Errorf("deliver result: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// deliverNow sends a result that was just recorded, if there is a connection.
func (e *Executor) deliverNow() {
	e.mu.Lock()
	c := e.conn
	e.mu.Unlock()
	if c != nil {
		c.delivery.next()
	}
}

// next sends the oldest results until enough are under way. None is sent under a lease
// that ran out: somebody else may have been given the work.
func (d *delivery) next() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sending { // one at a time, so that the order holds
		d.more = true
		return
	}
	d.sending = true
	for d.more = true; d.more; {
		d.more = false
		for s := d.load(); s != nil; s = d.load() {
			d.mu.Unlock()
			d.ship(s)
			d.mu.Lock()
		}
	}
	d.sending = false
}

// load takes the next result to be sent; nil when there is none or none may be. d.mu is
// held.
func (d *delivery) load() *shipment {
	if d.ctx == nil || d.held || d.c.rpc.Err() != nil || d.bytes >= maxShippedBytes {
		return nil
	}
	if n := len(d.underWay); n >= maxShipments || n > 0 && d.inARow > 0 { // a brain that refuses is asked for one at a time
		return nil
	}
	r, ok := d.c.e.box.Peek(d.waits)
	if !ok {
		d.tried()
		return nil
	}
	if !d.c.owns() {
		return nil
	}
	s := &shipment{result: r, bytes: sizeOf(r)}
	d.underWay[idOf(r)] = s
	d.bytes += s.bytes
	if d.unheard++; d.unheard == 1 {
		d.late = d.c.whenLate(d.c.e.opts.RequestTimeout, d.fail)
	}
	return s
}

func (d *delivery) ship(s *shipment) {
	err := rpc.Send(d.c.rpc, protocol.ToolResult, s.result, func(a protocol.AcceptedResult, err error) {
		if err == nil && !a.Accepted {
			err = errNotAccepted(protocol.ToolResult.Name)
		}
		d.answered(s, err)
	})
	if err != nil {
		d.answered(s, err)
	}
}

// arrived takes a result out of those under way. d.mu is held.
func (d *delivery) arrived(r protocol.ToolResultParams) {
	if s := d.underWay[idOf(r)]; s != nil {
		delete(d.underWay, idOf(r))
		d.bytes -= s.bytes
	}
}

// heard puts off the end: a brain may take its time with each result, as long as it
// goes on. d.mu is held.
func (d *delivery) heard() {
	d.late.stop()
	if d.unheard--; d.unheard > 0 && d.ctx != nil {
		d.late = d.c.whenLate(d.c.e.opts.RequestTimeout, d.fail)
	}
}

func idOf(r protocol.ToolResultParams) callID { return callID{r.SessionID, r.ToolCallID} }

// sizeOf is about what a result takes on the wire.
func sizeOf(r protocol.ToolResultParams) int {
	n := len(r.Structured)
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data)
	}
	return n
}

// waits reports whether a result is to be left alone for now. d.mu is held.
func (d *delivery) waits(session, call string) bool {
	id := callID{session, call}
	if d.underWay[id] != nil {
		return true
	}
	r := d.resting[id]
	return r != nil && time.Now().Before(r.until)
}

// tried is called when nothing is left that may be sent now. d.mu is held.
func (d *delivery) tried() {
	if !d.replayed && len(d.underWay) == 0 {
		d.replayed = true
		close(d.c.replayed)
	}
	var first time.Time
	for _, r := range d.resting {
		if first.IsZero() || r.until.Before(first) {
			first = r.until
		}
	}
	if first.IsZero() {
		return
	}
	if d.wake != nil {
		d.wake.Stop()
	}
	d.wake = time.AfterFunc(time.Until(first), d.next)
}

// refused lets a result rest, and returns how long all of them have to.
func (d *delivery) refused(r protocol.ToolResultParams) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := idOf(r)
	if d.resting[id] == nil {
		d.resting[id] = &rest{delays: newResultRetry()}
	}
	d.resting[id].until = time.Now().Add(d.resting[id].delays.NextBackOff())
	if d.inARow++; d.inARow <= refusedInARow || d.pausing {
		return 0
	}
	d.pausing = true
	return d.retry.NextBackOff()
}

// answered goes on after an acknowledgement, and hands anything else to a goroutine of
// its own: it is called on the connection's read loop.
func (d *delivery) answered(s *shipment, err error) {
	r := s.result
	d.mu.Lock()
	d.heard()
	if err != nil {
		if d.ctx != nil && !errors.Is(err, rpc.ErrClosed) { // stop sees to the rest
			ctx := d.ctx
			d.work.Go(func() { d.trouble(ctx, r, err) })
		}
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.settled(r)
}

// settled takes a result out of the outbox, which the brain has accepted or will never
// accept, and sends the next.
func (d *delivery) settled(r protocol.ToolResultParams) {
	if err := d.c.e.box.Ack(r.SessionID, r.ToolCallID); err != nil {
		d.fail(err)
		return
	}
	d.mu.Lock()
	delete(d.resting, idOf(r))
	d.inARow = 0
	d.retry.Reset()
	d.arrived(r)
	d.mu.Unlock()
	d.next()
}

// again gives a result back, to be sent once more when its turn comes.
func (d *delivery) again(r protocol.ToolResultParams) {
	d.mu.Lock()
	d.arrived(r)
	d.mu.Unlock()
	d.next()
}

func (d *delivery) hold(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = on
}

// trouble is what is done about a result that was not accepted.
func (d *delivery) trouble(ctx context.Context, r protocol.ToolResultParams, err error) {
	c := d.c
	if errors.Is(err, rpc.ErrNoRoom) { // the brain reads slowly: wait for it, here
		if !c.owns() {
			return
		}
		d.hold(true)
		err = c.send(ctx, r)
		d.hold(false)
		if err == nil {
			d.settled(r)
			return
		}
	}
	var refused *protocol.Error
	switch {
	case errors.Is(err, protocol.ErrPayloadTooLarge):
		if d.replace(r) {
			d.again(r)
			return
		}
		d.settled(r)
	case ctx.Err() != nil:
	case errors.As(err, &refused) && refused.Data.Retryable:
		c.log.Debug("result refused for now", zap.String("session", r.SessionID), zap.String("call", r.ToolCallID), zap.Error(err))
		if pause := d.refused(r); pause > 0 {
			select { // it counts as under way, and no other is sent
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			d.mu.Lock()
			d.pausing = false
			d.mu.Unlock()
		}
		d.again(r)
	case errors.As(err, &refused):
		c.e.resultLost(r, refused)
		d.settled(r)
	default:
		d.fail(err)
	}
}

// replace puts a notice in the place of a result that the brain does not take; false
// when it is such a notice already, which has to make room for the others.
func (d *delivery) replace(r protocol.ToolResultParams) bool {
	if isTooLarge(r) {
		d.c.e.resultLost(r, protocol.Errorf(protocol.CodePayloadTooLarge, "the brain does not even take the notice that the result was too large"))
		return false
	}
	if err := d.c.e.box.Put(d.c.e.tooLarge(r, keepTooLarge)); err != nil {
		d.fail(err)
	}
	return true
}

func (d *delivery) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

// stop ends the delivery. When the brain has closed the connection over a result's
// size, the biggest of those under way is replaced, so that the next connection does not
// end the same way.
func (d *delivery) stop() {
	d.mu.Lock()
	d.ctx = nil
	if d.late != nil {
		d.late.stop()
	}
	if d.wake != nil {
		d.wake.Stop()
	}
	d.mu.Unlock()
	d.work.Wait()
	if !closedTooBig(d.c.rpc.Err()) {
		return
	}
	d.mu.Lock()
	var biggest *shipment
	for _, s := range d.underWay {
		if biggest == nil || s.bytes > biggest.bytes {
			biggest = s
		}
	}
	d.mu.Unlock()
	if biggest != nil && !d.replace(biggest.result) {
		_ = d.c.e.box.Ack(biggest.result.SessionID, biggest.result.ToolCallID)
	}
}

// send is one attempt. No answer within the request timeout is an error that ends
// the connection.
func (c *connection) send(ctx context.Context, r protocol.ToolResultParams) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.whenLate(c.e.opts.RequestTimeout, cancel).stop()
	answer, err := rpc.Call(ctx, c.rpc, protocol.ToolResult, r)
	if err == nil && !answer.Accepted {
		err = errNotAccepted(protocol.ToolResult.Name)
	}
	return causeOfEnd(ctx, err)
}

func closedTooBig(err error) bool { return closedWith(err, protocol.CloseTooBig) }

// newResultRetry are the delays after a retryable refusal: 1 s doubling to 30 s.
func newResultRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(protocol.DefaultResultRetryMin), backoff.WithMaxInterval(protocol.DefaultResultRetryMax),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
}

func (e *Executor) resultLost(r protocol.ToolResultParams, why *protocol.Error) {
	e.lost.Add(1)
	e.log.Error("result refused for good", zap.String("session", r.SessionID), zap.String("call", r.ToolCallID), zap.Error(why))
	if e.opts.OnResultLost != nil {
		e.opts.OnResultLost(r, why)
	}
}
