package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// renew replaces the credential at 80 % of its life, on the living connection (spec
// section 1.4). What fails is tried again, for as long as the connection lasts: the
// brain closes it when it has had enough. An error ends the connection.
func (c *connection) renew(ctx context.Context) error {
	retry := newResultRetry()
	source := &c.e.creds
	wait, ends := source.renewal()
	for ends {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		given, err := source.get(ctx)
		if err == nil {
			err = c.refresh(ctx, given.Token)
			var refused *protocol.Error
			switch {
			case err == nil:
				retry.Reset()
				wait, ends = source.renewal()
				continue
			case ctx.Err() != nil:
				return nil
			case !errors.As(err, &refused) || errors.Is(err, rpc.ErrClosed): // no answer: the connection is dead
				return err
			case errors.Is(refused, protocol.ErrMethodNotFound): // it does not do this; the next dial has the new one
				c.log.Info("brain takes no new token on a living connection")
				return nil
			case errors.Is(refused, protocol.ErrUnauthorized):
				source.spend()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		limit := retry.NextBackOff()
		wait = max(limit/2+rand.N(limit/2+1), retryFloor(err))
		c.e.noteError(err)
		c.log.Warn("token not renewed", zap.Error(err), zap.Duration("retry_in", wait.Round(time.Millisecond)))
	}
	return nil
}

// refresh gives the brain the new token.
func (c *connection) refresh(ctx context.Context, token string) error {
	ctx, cancel := c.timeout(ctx)
	defer cancel()
	r, err := rpc.Call(ctx, c.rpc, protocol.ExecutorTokenRefresh, protocol.TokenRefreshParams{Token: token})
	var refused *protocol.Error
	if errors.As(err, &refused) && strings.Contains(err.Error(), token) {
		words := *refused
		words.Message = hideToken(words.Message, token)
		err = &words
	}
	if err != nil {
		return fmt.Errorf("token refresh: %w", err)
	}
	c.log.Debug("token renewed", zap.Time("expires_at", r.ExpiresAt.Time))
	return nil
}
