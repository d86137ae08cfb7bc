package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// maxRefusedBackoff bounds the delay while nothing listens where the brain should
// be: such an attempt costs nobody anything, and a brain that was restarted is found
// again soon, by each executor at another moment. After refusedOften such attempts the
// bound is maxRefusedLong, which is also that while a proxy answers in the brain's place.
const (
	maxRefusedBackoff = 4 * time.Second
	refusedOften      = 150 // about five minutes
	maxRefusedLong    = 12 * time.Second
)

// healthyAfter is how long a connection must have been ready before its loss starts
// the delays anew, atOnceAfter before the loss of its lease is taken for what happens
// to an executor that was asleep, and not for a brain that gives leases nobody can keep.
const (
	healthyAfter = 30 * time.Second
	atOnceAfter  = 5 * time.Second
)

// errSlept ends an attempt to connect during which the machine was suspended.
var errSlept = errors.New("the machine was suspended meanwhile")

// attempt is how one attempt to connect ended.
type attempt struct {
	err     error
	healthy bool          // it was ready long enough for the next delay to be a short one
	ready   time.Duration // for how long it was, on the lease's clock
}

// connectLoop dials, registers and serves, again and again, until ctx is done (nil)
// or the brain refuses for good.
func (e *Executor) connectLoop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { e.wakes.run(ctx, &e.lease, e.opts.Woken) })

	delays := newDelays(e.opts.MinBackoff, e.opts.MaxBackoff)
	fresh := false // the credential was rejected, and another one is being tried
	failed := 0    // attempts since the last healthy connection
	for {
		e.connecting()
		a := e.connectOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failed++
		if a.healthy {
			delays.reset()
			fresh, failed = false, 0
		}
		e.attempted(a.err, failed)
		if end := permanent(a.err); end != nil {
			if credentialRejected(end) && (!fresh || e.creds.reused()) && e.hasFreshToken(ctx) {
				e.log.Warn("credential rejected, trying the one there is now", zap.Error(a.err))
				fresh = true
				continue
			}
			e.noteError(end)
			return end
		}
		if limit := e.opts.MaxAttempts; limit > 0 && failed >= limit {
			end := fmt.Errorf("%w: %d in a row, the last: %w", ErrAttemptsExhausted, failed, a.err)
			e.noteError(end)
			return end
		}
		delay := delays.after(a)
		if e.door != nil && !errors.Is(a.err, errDoor) {
			delay = 0 // who dials waits
		}
		e.setState(StateWaiting, a.err)
		e.waitsUntil(delay)
		e.log.Warn("not connected", zap.Error(a.err), zap.Duration("retry_in", delay.Round(time.Millisecond)))
		if !e.pause(ctx, delay, retryFloor(a.err)) {
			return nil
		}
	}
}

// connectOnce makes one connection and serves it to its end.
func (e *Executor) connectOnce(ctx context.Context) attempt {
	making, made := e.unlessSlept(ctx)
	c, err := e.connect(making)
	if made(); err != nil {
		if errors.Is(context.Cause(making), errSlept) {
			err = fmt.Errorf("%w: %w", errSlept, err)
		}
		return attempt{err: err}
	}
	since := e.lease.now()
	healthy, err := c.serve(ctx)
	return attempt{err: err, healthy: healthy, ready: e.lease.now().Sub(since)}
}

// connect dials and registers.
func (e *Executor) connect(ctx context.Context) (*connection, error) {
	frames, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := e.newConnection(frames)
	if err := c.register(ctx); err != nil {
		c.end(protocol.CloseNormal, "")
		if lost := c.rpc.Err(); errors.Is(err, rpc.ErrClosed) && lost != nil {
			err = fmt.Errorf("register: %w", lost)
		}
		return nil, err
	}
	return c, nil
}

// unlessSlept is ctx until the machine wakes from a suspend: what was dialled before
// leads nowhere, and would be waited for. stop ends the watch and has to be called.
func (e *Executor) unlessSlept(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	slept, done := e.wakes.afterSleep(), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-slept:
			cancel(errSlept)
		case <-watched.Done():
		}
	}()
	return watched, func() {
		cancel(nil)
		<-done
	}
}

// dial opens the transport with a fresh credential.
func (e *Executor) dial(ctx context.Context) (rpc.Frames, error) {
	if e.door != nil {
		return e.door.accept(ctx, e)
	}
	token := e.next
	if e.next = ""; token == "" {
		var err error
		if token, err = e.token(ctx); err != nil {
			return nil, err
		}
	}
	e.used = token
	return e.open(ctx, token)
}

// hasFreshToken reports whether the source has another credential by now than the
// one that was rejected, which is the one that is dialled with next; or could not say,
// which the next dial ends with.
func (e *Executor) hasFreshToken(ctx context.Context) bool {
	given, err := e.creds.another(ctx)
	if err != nil {
		return true
	}
	if given.Token == e.used {
		return false
	}
	e.takeID(given)
	e.next = given.Token
	return true
}

func (e *Executor) token(ctx context.Context) (string, error) {
	given, err := e.creds.get(ctx)
	if err != nil {
		return "", errCredential{err}
	}
	e.takeID(given)
	return given.Token, nil
}

func (e *Executor) open(ctx context.Context, token string) (rpc.Frames, error) {
	if e.opts.Dial != nil {
		return e.opts.Dial(ctx, token)
	}
	brainURL, err := e.brainURL()
	if err != nil {
		return nil, err
	}
	return e.dialURL(ctx, brainURL, token)
}

func (e *Executor) dialURL(ctx context.Context, url, token string) (rpc.Frames, error) {
	config := e.opts.TLS
	if e.opts.TLSSource != nil {
		var err error
		if config, err = e.opts.TLSSource(); err != nil {
			return nil, err
		}
	}
	return rpc.Dial(ctx, url, rpc.DialOptions{Token: token, TLS: config, Timeout: e.opts.RequestTimeout,
		Subprotocols: rpc.Subprotocols(e.opts.Dialects)})
}

// delays are those between attempts: full jitter, drawn after the cap (spec
// section 3).
type delays struct {
	caps    *backoff.ExponentialBackOff
	base    time.Duration
	refused int // attempts in a row that were refused outright
}

func newDelays(base, limit time.Duration) *delays {
	d := &delays{base: base, caps: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(base), backoff.WithMaxInterval(limit), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))}
	d.reset()
	return d
}

func (d *delays) reset() {
	d.caps.Reset()
	d.refused = 0
}

// after is the delay after an attempt. A lease that ran out is nobody's failure: one
// that was found out here is registered again at once, one that the brain found out,
// which may have been the one asleep and tell many, as after the first failure. But only
// when it was held for a while: else it would be asked for for ever.
func (d *delays) after(a attempt) time.Duration {
	switch {
	case errors.Is(a.err, errSlept):
		return 0
	case a.ready >= atOnceAfter && errors.Is(a.err, errLeaseLost):
		return 0
	case a.ready >= atOnceAfter && closedWith(a.err, protocol.CloseLeaseExpired):
		return max(rand.N(d.base+1), retryFloor(a.err))
	}
	return d.next(a.err)
}

func (d *delays) next(err error) time.Duration {
	limit := d.caps.NextBackOff()
	refused := refusedOutright(err)
	if refused {
		d.refused++
	} else {
		d.refused = 0
	}
	switch {
	case refused && d.refused <= refusedOften:
		limit = min(limit, maxRefusedBackoff)
	case refused, nobodyBehindProxy(err):
		limit = min(limit, maxRefusedLong)
	}
	return max(rand.N(limit+1), retryFloor(err))
}
