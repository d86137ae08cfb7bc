package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// maxRefusedBackoff bounds the delay while nothing listens where the brain should
// be: such an attempt costs nobody anything, and a brain that was restarted is found
// again soon.
const maxRefusedBackoff = 12 * time.Second

// healthyAfter is how long a connection must have been ready before its loss starts
// the delays anew.
const healthyAfter = 30 * time.Second

// connectLoop dials, registers and serves, again and again, until ctx is done (nil)
// or the brain refuses for good.
func (e *Executor) connectLoop(ctx context.Context) error {
	delays := newDelays(e.opts.MinBackoff, e.opts.MaxBackoff)
	fresh := false // the credential was rejected, and another one is being tried
	for {
		e.setState(StateConnecting, nil)
		healthy, err := e.connectOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if healthy {
			delays.reset()
			fresh = false
		}
		if end := permanent(err); end != nil {
			if credentialRejected(end) && (!fresh || e.creds.reused()) && e.hasFreshToken(ctx) {
				e.log.Warn("credential rejected, trying the one there is now", zap.Error(err))
				fresh = true
				continue
			}
			e.noteError(end)
			return end
		}
		delay := delays.next(err)
		e.setState(StateWaiting, err)
		e.log.Warn("not connected", zap.Error(err), zap.Duration("retry_in", delay.Round(time.Millisecond)))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

// connectOnce makes one connection and serves it to its end. healthy says that it
// was ready long enough for the next delay to be a short one.
func (e *Executor) connectOnce(ctx context.Context) (healthy bool, err error) {
	frames, err := e.dial(ctx)
	if err != nil {
		return false, err
	}
	c := e.newConnection(frames)
	if err := c.register(ctx); err != nil {
		c.end(protocol.CloseNormal, "")
		if lost := c.rpc.Err(); errors.Is(err, rpc.ErrClosed) && lost != nil {
			err = fmt.Errorf("register: %w", lost)
		}
		return false, err
	}
	return c.serve(ctx)
}

// dial opens the transport with a fresh credential.
func (e *Executor) dial(ctx context.Context) (rpc.Frames, error) {
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
		return "", err
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
	return rpc.Dial(ctx, brainURL, rpc.DialOptions{Token: token, TLS: e.opts.TLS, Timeout: e.opts.RequestTimeout,
		Subprotocols: rpc.Subprotocols(e.opts.Dialects)})
}

// delays are those between attempts: full jitter, drawn after the cap (spec
// section 3).
type delays struct {
	caps *backoff.ExponentialBackOff
}

func newDelays(base, limit time.Duration) *delays {
	d := &delays{caps: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(base), backoff.WithMaxInterval(limit), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))}
	d.reset()
	return d
}

func (d *delays) reset() { d.caps.Reset() }

func (d *delays) next(err error) time.Duration {
	if errors.Is(err, errLeaseLost) {
		return 0 // asleep, not refused
	}
	limit := d.caps.NextBackOff()
	if refusedOutright(err) {
		limit = min(limit, maxRefusedBackoff)
	}
	return max(rand.N(limit+1), retryFloor(err))
}
