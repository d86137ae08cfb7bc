package brain

import (
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// A wake is handed on until it is taken, and once after that, also when it comes again meanwhile.
func TestWake(t *testing.T) {
	var seen []string
	var refuse error
	var hold chan struct{}
	o := Options{OnWake: func(p protocol.SessionWakeParams) error {
		seen = append(seen, p.WakeID)
		<-hold
		return refuse
	}}
	in(t, o, func(t *testing.T, b *bench) {
		hold = make(chan struct{}, 1) // of this bubble
		h, s := b.session(nil)
		wake := func(session, id string) error {
			r, err := rpc.Call(b.ctx, h.connection(), protocol.SessionWake, protocol.SessionWakeParams{SessionID: session, WakeID: id})
			require.Equal(t, err == nil, r.Accepted)
			return err
		}
		hold <- struct{}{}
		refuse = protocol.Errorf(protocol.CodeResourceUnavailable, "later")
		require.ErrorIs(t, wake(s.ID(), "w"), protocol.ErrResourceUnavailable)
		refuse = nil

		answers := make(chan error, 2)
		for range 2 {
			go func() { answers <- wake(s.ID(), "w") }()
		}
		synctest.Wait()
		require.Empty(t, answers)
		hold <- struct{}{}
		require.NoError(t, <-answers)
		require.NoError(t, <-answers)
		require.NoError(t, wake(s.ID(), "w"))
		require.Equal(t, []string{"w", "w"}, seen)

		require.ErrorIs(t, wake("not mine", "x"), protocol.ErrSessionNotActive)
		require.ErrorIs(t, wake(s.ID(), ""), protocol.ErrInvalidParams)
		for range maxWakes + 10 { // what is remembered is bounded
			hold <- struct{}{}
			require.NoError(t, wake(s.ID(), uuid.NewString()))
		}
		require.Len(t, s.wakes.all, maxWakes)
		require.Len(t, s.wakes.order, maxWakes)
	})
}

func TestWakeNobodyWants(t *testing.T) {
	in(t, Options{}, func(t *testing.T, b *bench) {
		h, s := b.session(nil)
		_, err := rpc.Call(b.ctx, h.connection(), protocol.SessionWake, protocol.SessionWakeParams{SessionID: s.ID(), WakeID: "w"})
		require.ErrorIs(t, err, protocol.ErrMethodNotFound)
	})
}
