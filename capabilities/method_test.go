package capabilities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

// installed returns the only method that install registers.
func installed(t *testing.T, install func(*Registrar)) RegisteredMethod {
	t.Helper()
	r := NewRegistry(nil)
	require.NoError(t, r.Install(testCapability{"x", func(reg *Registrar) error { install(reg); return nil }}))
	require.Len(t, r.Methods(), 1)
	return r.Methods()[0]
}

func TestHandle(t *testing.T) {
	m := ping
	m.Lane = func(p pingParams) string { return "ping/" + p.SessionID }
	var fail error
	got := installed(t, func(r *Registrar) {
		Handle(r, m, func(_ context.Context, s *Session, p pingParams) (pingResult, error) {
			require.Equal(t, "s1", s.ID())
			return pingResult{p.N + 1}, fail
		})
	})
	require.Equal(t, m.Spec, got.Spec)
	require.Equal(t, "x", got.Capability)
	require.False(t, got.Machine)

	p, err := got.Prepare(json.RawMessage(`{"session_id":"s1","n":1}`), nil)
	require.NoError(t, err)
	require.Equal(t, "s1", p.SessionID)
	require.Equal(t, "ping/s1", p.Lane)
	s := NewSession(t.Context(), SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s1"}})
	result, err := p.Run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, &pingResult{2}, result)

	fail = errors.New("disk on fire")
	result, err = p.Run(t.Context(), s)
	require.Nil(t, result)
	require.Same(t, fail, err)
}

func TestPrepareMethodRefuses(t *testing.T) {
	text := installed(t, func(r *Registrar) { Handle(r, ping, pong) })
	binary := installed(t, func(r *Registrar) {
		Handle(r, protocol.ProcessWrite, func(context.Context, *Session, protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
			return protocol.ProcessWriteResult{}, nil
		})
	})
	ack := installed(t, func(r *Registrar) {
		HandleNotification(r, protocol.ProcessAck, func(context.Context, *Session, protocol.ProcessAckParams) error { return nil })
	})
	for _, tt := range []struct {
		name   string
		m      RegisteredMethod
		params string
		data   []byte
		want   string
	}{
		{"no session", text, `{"n":1}`, nil, "session_id: "},
		{"nothing", text, ``, nil, "session_id: "},
		{"wrong type", text, `{"session_id":"s","n":"1"}`, nil, "n: want an integer, got string"},
		{"malformed", text, `{"session_id"`, nil, "not valid JSON"},
		{"takes no bytes", text, `{"session_id":"s"}`, []byte("x"), "data: "},
		{"check", binary, `{"session_id":"s"}`, nil, "process_id: "},
		{"check with bytes", binary, `{"session_id":"s"}`, []byte("x"), "process_id: "},
		{"wrong type with bytes", binary, `{"session_id":"s","process_id":1}`, []byte("x"), "process_id: want a string, got number"},
		{"malformed with bytes", binary, `{`, []byte("x"), "not valid JSON"},
		{"notification", ack, `{"session_id":""}`, nil, "session_id: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.m.Prepare(json.RawMessage(tt.params), tt.data)
			require.ErrorIs(t, err, protocol.ErrInvalidParams)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// The bytes of a binary message are the params' own, not copied, and in place
// before the check.
func TestPrepareBinary(t *testing.T) {
	var got protocol.ProcessWriteParams
	m := installed(t, func(r *Registrar) {
		Handle(r, protocol.ProcessWrite, func(_ context.Context, _ *Session, p protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
			got = p
			return protocol.ProcessWriteResult{Accepted: true}, nil
		})
	})
	data := []byte("some input")
	p, err := m.Prepare(json.RawMessage(`{"session_id":"s","process_id":"p","data":"b2xk"}`), data)
	require.NoError(t, err)
	require.Equal(t, "process/s/p", p.Lane)
	_, err = p.Run(t.Context(), nil)
	require.NoError(t, err)
	require.Same(t, &data[0], &got.Data[0])

	p, err = m.Prepare(json.RawMessage(`{"session_id":"s","process_id":"p","data":"b2xk"}`), nil)
	require.NoError(t, err)
	_, err = p.Run(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "old", string(got.Data))
}

// A result that is a Blob is seen as one by the host.
func TestResultIsBlob(t *testing.T) {
	m := installed(t, func(r *Registrar) {
		Handle(r, protocol.ProcessRead, func(context.Context, *Session, protocol.ProcessReadParams) (protocol.ProcessReadResult, error) {
			return protocol.ProcessReadResult{Data: []byte("out")}, nil
		})
	})
	p, err := m.Prepare(json.RawMessage(`{"session_id":"s","process_id":"p"}`), nil)
	require.NoError(t, err)
	result, err := p.Run(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "out", string(*result.(protocol.Blob).Blob()))
}

func TestHandleMachine(t *testing.T) {
	m := installed(t, func(r *Registrar) {
		HandleMachine(r, protocol.TerminalClose, func(_ context.Context, s *Session, p protocol.TerminalCloseParams) (protocol.TerminalCloseResult, error) {
			require.Empty(t, s.ID())
			return protocol.TerminalCloseResult{Closed: p.TerminalID == "t"}, nil
		})
	})
	require.True(t, m.Machine)
	p, err := m.Prepare(json.RawMessage(`{"terminal_id":"t"}`), nil)
	require.NoError(t, err)
	require.Empty(t, p.SessionID)
	require.Equal(t, "terminal/t", p.Lane)
	result, err := p.Run(t.Context(), NewSession(t.Context(), SessionConfig{}))
	require.NoError(t, err)
	require.True(t, result.(*protocol.TerminalCloseResult).Closed)
	_, err = m.Prepare(nil, nil)
	require.ErrorContains(t, err, "terminal_id")
}

func TestHandleNotification(t *testing.T) {
	fail := errors.New("unknown process")
	m := installed(t, func(r *Registrar) {
		HandleNotification(r, protocol.ProcessAck, func(_ context.Context, _ *Session, p protocol.ProcessAckParams) error {
			require.Equal(t, int64(7), p.Cursor)
			return fail
		})
	})
	require.True(t, m.Spec.Notify)
	p, err := m.Prepare(json.RawMessage(`{"session_id":"s","process_id":"p","stream":"stdout","cursor":7}`), nil)
	require.NoError(t, err)
	require.Equal(t, "s", p.SessionID)
	require.Equal(t, "process.ack", p.Lane)
	result, err := p.Run(t.Context(), nil)
	require.Nil(t, result)
	require.Same(t, fail, err)
}
