package capabilitytest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func TestPeer(t *testing.T) {
	s := NewSession(t, newCounter())
	peer := s.Host.Peer
	_, err := capabilities.Request(t.Context(), s.Session, protocol.SessionWake, protocol.SessionWakeParams{WakeID: "w"})
	require.ErrorIs(t, err, protocol.ErrMethodNotFound)
	_, err = s.Open(t.Context(), protocol.ChannelTarget{Channel: protocol.ChannelMCP})
	require.ErrorIs(t, err, protocol.ErrResourceUnavailable)

	peer.OnCall = func(_ context.Context, method string, params json.RawMessage) (any, error) {
		require.Equal(t, "session.wake", method)
		require.Contains(t, string(params), `"wake_id":"w"`)
		return protocol.AcceptedResult{Accepted: true}, nil
	}
	got, err := capabilities.Request(t.Context(), s.Session, protocol.SessionWake, protocol.SessionWakeParams{WakeID: "w"})
	require.NoError(t, err)
	require.True(t, got.Accepted)

	peer.OnNotify = func(context.Context, string, any) error { return context.Canceled }
	require.ErrorIs(t, capabilities.Notify(t.Context(), s.Session, counterNews, counterChanged{}), context.Canceled)
	require.Empty(t, Notified(t, peer, counterNews))
	peer.OnNotify = nil

	waited := make(chan counterChanged)
	go func() {
		waited <- WaitNotified(t, peer, counterNews, func(c counterChanged) bool { return c.Total == 3 })
	}()
	for total := range 4 {
		require.NoError(t, capabilities.Notify(t.Context(), s.Session, counterNews, counterChanged{"s", total}))
	}
	require.Equal(t, counterChanged{"s", 3}, <-waited)
	require.Len(t, Notified(t, peer, counterNews), 4)
	require.Equal(t, 0, WaitNotified(t, peer, counterNews, nil).Total)
}

func TestPipe(t *testing.T) {
	a, b := Pipe()
	go func() {
		frame := []byte("ping")
		_ = a.WriteFrame(context.Background(), frame)
		frame[0] = 'x'
		_ = a.Close(protocol.CloseMCPServerExited, "exit status 1")
	}()
	frame, err := b.ReadFrame(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ping", string(frame))
	_, err = b.ReadFrame(t.Context())
	want := capabilities.ChannelClosed{Code: 4010, Reason: "exit status 1"}
	var closed *capabilities.ChannelClosed
	require.ErrorAs(t, err, &closed)
	require.Equal(t, want, *closed)
	require.ErrorAs(t, b.WriteFrame(t.Context(), nil), &closed)
	require.NoError(t, b.Close(1000, ""))

	c, _ := Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.ReadFrame(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, c.WriteFrame(ctx, nil), context.Canceled)
}
