package process

import (
	"context"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// write answers process.write. The writes of one process come in order. It is answered when the bytes
// are taken, which is before the program reads them.
func (c *Processes) write(ctx context.Context, s *capabilities.Session, p protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
	var none protocol.ProcessWriteResult
	_, ch, err := find(ctx, s, p.ProcessID)
	most := lower(c.options.MaxWrite, s.Limits().MaxProcessWriteBytes)
	switch {
	case err != nil:
		return none, err
	case len(p.Data) > most:
		return none, protocol.Errorf(protocol.CodePayloadTooLarge, "data: %d bytes are more than the most, %d; write them in pieces", len(p.Data), most)
	case ch.former:
		return none, errEnded
	case ch.input == nil:
		return none, protocol.Errorf(protocol.CodeConflict, "the process was started with stdin closed")
	}
	taken, err := ch.input.put(ctx, p.Data, p.Offset, p.CloseStdin, c.options.InputWait)
	switch {
	case err != nil && ctx.Err() != nil:
		return none, givenUp(ctx, s)
	case err != nil:
		return none, err
	}
	return protocol.ProcessWriteResult{Accepted: true, Offset: &taken}, nil
}
