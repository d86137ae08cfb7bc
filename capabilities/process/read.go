package process

import (
	"context"
	"errors"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// answers are what the bytes of an answer are in until it is written down.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// read answers process.read.
func (c *Processes) read(ctx context.Context, s *capabilities.Session, p protocol.ProcessReadParams) (protocol.ProcessReadResult, error) {
	var none protocol.ProcessReadResult
	_, ch, err := find(ctx, s, p.ProcessID)
	if err != nil {
		return none, err
	}
	if p.Stream == "" {
		p.Stream = protocol.StreamStdout
	}
	limit := p.MaxBytes
	if most := lower(c.options.MaxReadBytes, s.Limits().MaxProcessReadBytes); limit <= 0 || limit > most {
		limit = most
	}
	ring := ch.ring(p.Stream, p.Cursor)
	ring.Pass(p.Cursor)
	memory := answers.Get().(*[]byte)
	capabilities.AfterAnswer(ctx, func() { answers.Put(memory) })
	state, chunk, err := look(ch, ring, p.Cursor, limit, memory)
	if err == nil && p.WaitMS > 0 && len(chunk.Data) == 0 && !chunk.EOF {
		if err := c.wait(ctx, s, ch, ring, p); err != nil {
			return none, err
		}
		state, chunk, err = look(ch, ring, p.Cursor, limit, memory)
	}
	var beyond *stream.RangeError
	switch {
	case errors.As(err, &beyond):
		return none, protocol.Errorf(protocol.CodeInvalidParams, "cursor: %d is beyond the end of %s, which is %d", beyond.Cursor, p.Stream, beyond.End)
	case err != nil:
		return none, err
	}
	return protocol.ProcessReadResult{
		ProcessID: ch.id, Stream: p.Stream,
		Data: chunk.Data, FromCursor: chunk.From, NextCursor: chunk.Next, EarliestCursor: chunk.Earliest,
		Gap: chunk.Gap, EOF: chunk.EOF, Truncated: chunk.More,
		State: state.State, ExitCode: state.ExitCode, ExitSignal: state.ExitSignal, Reason: state.Reason, EndedAt: state.EndedAt,
	}, nil
}

// look takes the state before the bytes: once it is final, all that was printed before is there.
func look(ch *child, ring *stream.Ring, cursor int64, limit int, memory *[]byte) (protocol.ProcessState, stream.Chunk, error) {
	state := ch.snapshot()
	if n := min(int64(limit), ring.End()-cursor); int64(cap(*memory)) < n {
		*memory = make([]byte, n)
	}
	chunk, err := ring.ReadInto(cursor, (*memory)[:min(limit, cap(*memory))])
	return state, chunk, err
}

// wait waits for bytes at the cursor, the end of the stream, the end of the process if that is still to
// come, or the time that the caller allows.
func (c *Processes) wait(ctx context.Context, s *capabilities.Session, ch *child, ring *stream.Ring, p protocol.ProcessReadParams) error {
	if n := c.waiting.Add(1); n > int64(lower(c.options.MaxReads, s.Limits().MaxConcurrentProcessReads)) {
		c.waiting.Add(-1)
		return protocol.Errorf(protocol.CodeExecutorBusy, "%d reads wait already, which is the limit", n-1)
	}
	defer c.waiting.Add(-1)
	bounded, cancel := context.WithTimeout(ctx, protocol.Millis(p.WaitMS))
	defer cancel()
	ended := ch.ended
	if ch.hasEnded() {
		ended = nil // it is the stream that is waited for
	}
	_ = ring.Wait(bounded, p.Cursor, ended)
	if ctx.Err() != nil {
		return givenUp(ctx, s)
	}
	return nil
}
