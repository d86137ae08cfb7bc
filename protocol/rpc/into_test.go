package rpc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// The memory of the answer before is used again, and nothing else of it; in text and binary messages.
func TestCallInto(t *testing.T) {
	for name, binary := range map[string]bool{"text": false, "binary": true} {
		t.Run(name, func(t *testing.T) {
			x := rpc.NewMux(0)
			rpc.HandleThen(x, protocol.ProcessRead, func(_ context.Context, p protocol.ProcessReadParams) (protocol.ProcessReadResult, func(), error) {
				r := protocol.ProcessReadResult{ProcessID: p.ProcessID, NextCursor: p.Cursor, Data: []byte(strings.Repeat("x", p.MaxBytes)), EOF: p.MaxBytes == 0}
				return r, func() { clear(r.Data) }, nil
			})
			c, srv := pair(t, x, nil)
			srv.SetBinary(binary)
			var r protocol.ProcessReadResult
			ask := func(n int) error {
				return rpc.CallInto(t.Context(), c, protocol.ProcessRead, protocol.ProcessReadParams{SessionID: "s", ProcessID: "p", Cursor: 7, MaxBytes: n}, &r)
			}
			require.NoError(t, ask(1000))
			memory := &r.Data[0]
			require.NoError(t, ask(500))
			require.Equal(t, strings.Repeat("x", 500), string(r.Data))
			require.Same(t, memory, &r.Data[0])
			require.EqualValues(t, 7, r.NextCursor)
			require.NoError(t, ask(0))
			require.Empty(t, r.Data)
			require.True(t, r.EOF)
			require.NoError(t, ask(2000))
			require.Equal(t, strings.Repeat("x", 2000), string(r.Data))
			require.False(t, r.EOF)
		})
	}
}
