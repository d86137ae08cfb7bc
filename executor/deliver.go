package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// deliver sends what is owed, oldest first, one at a time, until ctx is done. A
// result leaves the outbox only when the brain has accepted it, or has refused it for
// good. An error ends the connection; the next one goes on.
func (c *connection) deliver(ctx context.Context) error {
	box := c.e.box
	retry := newResultRetry()
	for acked := 0; ; {
		r, err := box.Next(ctx)
		if err != nil {
			return nil // the connection or the executor ends
		}
		if c.rpc.Err() != nil {
			return nil // so that no result is judged by a close it had no part in
		}
		err = c.send(ctx, r)
		var refused *protocol.Error
		switch {
		case err == nil:
			retry.Reset()
			err = box.Ack(r.SessionID, r.ToolCallID)
		case errors.Is(err, protocol.ErrPayloadTooLarge), closedTooBig(c.rpc.Err()):
			if !isTooLarge(r) {
				err = box.Put(c.e.tooLarge(r))
				if err == nil && c.rpc.Err() == nil {
					continue
				}
				return err
			}
			// Not even the notice is taken: it has to make room for the others.
			c.e.resultLost(r, protocol.Errorf(protocol.CodePayloadTooLarge, "the brain does not even take the notice that the result was too large"))
			err = box.Ack(r.SessionID, r.ToolCallID)
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Data.Retryable:
			c.log.Debug("result refused for now", zap.String("session", r.SessionID), zap.String("call", r.ToolCallID), zap.Error(err))
			select {
			case <-time.After(retry.NextBackOff()):
			case <-ctx.Done():
				return nil
			}
			continue
		case errors.As(err, &refused):
			c.e.resultLost(r, refused)
			err = box.Ack(r.SessionID, r.ToolCallID)
		}
		if err != nil {
			return fmt.Errorf("deliver result: %w", err)
		}
		if acked++; acked == c.replay {
			close(c.replayed)
		}
	}
}

// send is one attempt. No answer within the request timeout is an error that ends
// the connection.
func (c *connection) send(ctx context.Context, r protocol.ToolResultParams) error {
	ctx, cancel := c.timeout(ctx)
	defer cancel()
	answer, err := rpc.Call(ctx, c.rpc, protocol.ToolResult, r)
	if err == nil && !answer.Accepted {
		err = errNotAccepted(protocol.ToolResult.Name)
	}
	return err
}

func closedTooBig(err error) bool {
	var closed *rpc.CloseError
	return errors.As(err, &closed) && !closed.Local && closed.Code == protocol.CloseTooBig
}

// newResultRetry are the delays after a retryable refusal: 1 s doubling to 30 s.
func newResultRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(protocol.DefaultResultRetryMin), backoff.WithMaxInterval(protocol.DefaultResultRetryMax),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
}

// tooLarge is what is sent in place of a result that the brain cannot take (spec
// section 14.4).
func (e *Executor) tooLarge(r protocol.ToolResultParams) protocol.ToolResultParams {
	size := 0
	for _, b := range r.Content {
		size += len(b.Text) + len(b.Data)
	}
	cause := protocol.Errorf(protocol.CodePayloadTooLarge, "the result of %d bytes is larger than the brain takes", size+len(r.Structured))
	if cut := spilledTo(r); cut != "" {
		cause.Message += "; the whole text is in " + cut
	}
	small := protocol.ToolResultParams{
		SessionID: r.SessionID, ToolCallID: r.ToolCallID, Outcome: protocol.OutcomeFailed, IsError: true,
		Content:    []protocol.Content{{Type: protocol.ContentText, Text: cause.Message}},
		DurationMS: r.DurationMS, Error: toolError(cause),
	}
	if len(r.Mutations) <= maxMutationsTooLarge {
		small.Mutations = r.Mutations
	}
	return small
}

// maxMutationsTooLarge is how many changed paths go with the notice that a result was
// too large.
const maxMutationsTooLarge = 20

// isTooLarge reports whether a result is itself such a notice.
func isTooLarge(r protocol.ToolResultParams) bool {
	return r.Error != nil && r.Error.Code == protocol.CodePayloadTooLarge && r.Structured == nil && len(r.Content) == 1
}

func (e *Executor) resultLost(r protocol.ToolResultParams, why *protocol.Error) {
	e.lost.Add(1)
	e.log.Error("result refused for good", zap.String("session", r.SessionID), zap.String("call", r.ToolCallID), zap.Error(why))
	if e.opts.OnResultLost != nil {
		e.opts.OnResultLost(r, why)
	}
}

func toolError(e *protocol.Error) *protocol.ToolError {
	return &protocol.ToolError{Code: e.Code, Reason: e.Reason(), Message: e.Message, Retryable: e.Data.Retryable}
}

// spilledTo finds the path that a spilled result names.
func spilledTo(r protocol.ToolResultParams) string {
	var s struct {
		OutputFile string `json:"output_file"` // of a tool that spills by itself
	}
	_ = json.Unmarshal(r.Structured, &s)
	if s.OutputFile != "" {
		return s.OutputFile
	}
	for _, b := range r.Content {
		if _, after, ok := strings.Cut(b.Text, spillMark); ok {
			path, _, _ := strings.Cut(after, spillMarkEnd)
			return path
		}
	}
	return ""
}
