package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// errLeaseLost ends a connection whose lease ran out, as it does while the machine is
// suspended or the process stopped: it registers again at once.
var errLeaseLost = errors.New("the lease ran out")

// heartbeat renews the lease, every interval ±10 %. An error ends the connection.
func (c *connection) heartbeat(ctx context.Context) error {
	for {
		jitter := 0.9 + 0.2*rand.Float64()
		select {
		case <-time.After(time.Duration(float64(c.interval) * jitter)):
		case <-ctx.Done():
			return nil
		}
		if !c.e.lease.valid() {
			return errLeaseLost
		}
		if err := c.beat(ctx); err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
	}
}

func (c *connection) beat(ctx context.Context) error {
	ctx, cancel := c.timeout(ctx)
	defer cancel()
	c.e.mu.Lock()
	active := c.e.activeSessions()
	c.e.mu.Unlock()
	sent := leaseNow()
	r, err := rpc.Call(ctx, c.rpc, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: c.id, ActiveSessions: active, Load: c.e.loadNow()})
	var refused *protocol.Error
	switch {
	case errors.As(err, &refused) && refused.Data.Retryable:
		c.log.Warn("heartbeat refused for now", zap.Error(err)) // the lease runs on
		return nil
	case err != nil:
		return err
	}
	c.beats++
	c.e.lease.renew(sent, leaseTTL(r.LeaseTTLMS))
	if r.Drain {
		c.e.beginDrain("the brain asked for it", 0)
	}
	return nil
}
