package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// errLeaseLost ends a connection whose lease ran out, as it does while the machine is
// suspended or the process stopped: it registers again at once.
var errLeaseLost = errors.New("the lease ran out")

// wakeTimeout is for the heartbeat behind a suspend: a connection that does not answer
// it by then is most likely one that only this end still knows.
const wakeTimeout = 5 * time.Second

// heartbeat renews the lease, every interval ±10 %, and at once when this process was
// away. An error ends the connection.
func (c *connection) heartbeat(ctx context.Context) error {
	away := c.e.wakes.afterAway()
	for {
		jitter := 0.9 + 0.2*rand.Float64()
		timeout := c.e.opts.RequestTimeout
		timer := time.NewTimer(time.Duration(float64(c.interval) * jitter))
		select {
		case <-timer.C:
		case <-away:
			away = c.e.wakes.afterAway()
			timeout = min(timeout, wakeTimeout)
			c.log.Info("this process was away, looking whether the brain is still there", zap.Duration("lease_left", c.e.lease.left()))
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
		c.e.recoverState()
		if !c.e.lease.valid() {
			return errLeaseLost
		}
		// Its answer is of no use when the lease is over: then one registers anew.
		timeout = min(timeout, max(c.e.lease.left(), minHeartbeat))
		if err := c.beat(ctx, timeout, away); err != nil {
			if errors.Is(err, context.DeadlineExceeded) && !c.e.lease.valid() {
				return fmt.Errorf("heartbeat: %w: %w", errLeaseLost, err)
			}
			return fmt.Errorf("heartbeat: %w", err)
		}
	}
}

// beat sends one heartbeat. One that is under way when away is closed has only
// wakeTimeout left. To a brain that takes no parts it may have to wait for a large
// message, which is no reason to send that once more, over another connection.
func (c *connection) beat(ctx context.Context, timeout time.Duration, away <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	defer c.whenLate(timeout, cancel).stop()
	watch.Go(func() {
		select {
		case <-away:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(wakeTimeout):
			cancel(errNoAnswer(wakeTimeout))
		case <-ctx.Done():
		}
	})
	c.e.mu.Lock()
	active := c.e.activeSessions()
	c.e.mu.Unlock()
	sent, told := c.e.lease.now(), c.e.notices.mark()
	r, err := rpc.Call(ctx, c.rpc, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: c.id, ActiveSessions: active, Load: c.e.loadNow()})
	var refused *protocol.Error
	switch {
	case errors.As(err, &refused) && refused.Data.Retryable:
		c.e.contact(c.nextContact())
		c.log.Warn("heartbeat refused for now", zap.Error(err)) // the lease runs on
		return nil
	case err != nil:
		return causeOfEnd(ctx, err)
	}
	c.beats++
	c.e.contact(c.nextContact())
	c.e.notices.read(c, told)
	c.e.lease.renew(sent, leaseTTL(r.LeaseTTLMS))
	if r.Drain {
		c.e.beginDrain("the brain asked for it", 0)
	}
	return nil
}
