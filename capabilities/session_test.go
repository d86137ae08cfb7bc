package capabilities

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

// recordingPeer is a brain that writes down what it gets.
type recordingPeer struct {
	mu       sync.Mutex
	notified []any
	opened   protocol.ChannelTarget
	err      error
}

func (p *recordingPeer) Notify(ctx context.Context, method string, params any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.notified = append(p.notified, params)
	}
	return p.err
}

func (p *recordingPeer) Call(_ context.Context, method string, params, result any) error {
	if p.err != nil {
		return p.err
	}
	raw, err := json.Marshal(map[string]any{"n": 1 + params.(*pingParams).N})
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

func (p *recordingPeer) Open(_ context.Context, t protocol.ChannelTarget) (Channel, error) {
	p.opened = t
	return nil, p.err
}

func TestSession(t *testing.T) {
	env := map[string]string{"A": "1"}
	ctx, cancel := context.WithCancel(t.Context())
	assign := protocol.SessionAssignParams{SessionID: "s1", AgentID: "a1"}
	w := newWorkspace(t)
	s := NewSession(ctx, SessionConfig{Assign: assign, Workspace: w, Env: env, Peer: &recordingPeer{}})

	require.Equal(t, "s1", s.ID())
	require.Equal(t, assign, s.Assign())
	require.Same(t, w, s.Workspace())
	require.NotNil(t, s.Logger())
	env["A"] = "2"
	s.Env()["A"] = "3"
	require.Equal(t, map[string]string{"A": "1"}, s.Env())
	require.NotNil(t, NewSession(ctx, SessionConfig{}).Env(), "may be written to")
	require.NoError(t, s.Context().Err())
	cancel()
	require.ErrorIs(t, s.Context().Err(), context.Canceled)
}

func TestSessionValues(t *testing.T) {
	type key struct{}
	type other struct{}
	a, b := NewSession(t.Context(), SessionConfig{}), NewSession(t.Context(), SessionConfig{})
	require.Nil(t, a.Value(key{}))
	a.SetValue(key{}, 1)
	require.Equal(t, 1, a.Value(key{}))
	require.Nil(t, a.Value(other{}))
	require.Nil(t, b.Value(key{}))

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a.SetValue(i, i)
			require.Equal(t, i, a.Value(i))
		})
	}
	wg.Wait()
}

func TestSessionPeer(t *testing.T) {
	peer := &recordingPeer{}
	s := NewSession(t.Context(), SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s1"}, Peer: peer})

	_, err := s.Open(t.Context(), protocol.ChannelTarget{Channel: protocol.ChannelMCP, ServerKey: "k"})
	require.NoError(t, err)
	require.Equal(t, protocol.ChannelTarget{Channel: protocol.ChannelMCP, SessionID: "s1", ServerKey: "k"}, peer.opened)

	require.NoError(t, Notify(t.Context(), s, protocol.ProcessOutput, protocol.ProcessOutputParams{Data: []byte("x")}))
	require.Equal(t, "x", string(*peer.notified[0].(protocol.Blob).Blob()), "the host sees a Blob")

	result, err := Request(t.Context(), s, ping, pingParams{N: 1})
	require.NoError(t, err)
	require.Equal(t, pingResult{2}, result)
	peer.err = protocol.ErrConflict
	_, err = Request(t.Context(), s, ping, pingParams{N: 1})
	require.ErrorIs(t, err, protocol.ErrConflict)
	require.False(t, errors.Is(err, protocol.ErrNotFound))
}
