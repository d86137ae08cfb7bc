package capabilitytest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func TestCallOfSession(t *testing.T) {
	s := NewSession(t, newCounter())
	for i, want := range []string{"2", "4"} {
		result, err := Call(t, s, "count", map[string]any{"by": 2})
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, result.Outcome)
		require.Equal(t, want, result.Content[0].Text)
		require.JSONEq(t, `{"total":`+want+`}`, string(result.Structured))
		require.Equal(t, "session-1", result.SessionID)
		require.Equal(t, []string{"call-1", "call-2"}[i], result.ToolCallID)
	}
	require.Equal(t, []counterChanged{{"session-1", 2}, {"session-1", 4}}, Notified(t, s.Host.Peer, counterNews))
	progress := WaitNotified(t, s.Host.Peer, protocol.ToolProgress, func(p protocol.ToolProgressParams) bool { return p.ToolCallID == "call-2" })
	require.Equal(t, "adding", progress.Message)

	_, err := Call(t, s, "counts", nil)
	require.ErrorIs(t, err, protocol.ErrNotFound)
	_, err = Call(t, s, "count", json.RawMessage(`{"bye":1}`))
	require.ErrorContains(t, err, `did you mean "by"?`)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := CallContext(ctx, t, s, "count", map[string]any{"by": 0})
	require.NoError(t, err)
	if result.Outcome != protocol.OutcomeSucceeded { // select may have taken the other way
		require.Equal(t, protocol.OutcomeCanceled, result.Outcome)
	}

	s.End()
	s.End()
	_, err = Call(t, s, "count", map[string]any{"by": 1})
	require.ErrorIs(t, err, protocol.ErrSessionNotActive)
}

func TestDo(t *testing.T) {
	h := NewHost(t, newCounter())
	a, b := h.NewSession(t, Options{}), h.NewSession(t, Options{Env: map[string]string{"A": "1"}})
	require.Equal(t, "session-2", b.ID())
	require.Equal(t, "1", b.Env()["A"])
	require.NotEqual(t, a.Workspace().Dir(), b.Workspace().Dir())

	_, err := Call(t, a, "count", map[string]any{"by": 3})
	require.NoError(t, err)
	for _, tt := range []struct {
		s    *Session
		want int
	}{{a, 3}, {b, 0}} {
		result, err := Do(t.Context(), tt.s, counterRead, counterReadParams{tt.s.ID()})
		require.NoError(t, err)
		require.Equal(t, tt.want, result.Total)
	}
	require.NoError(t, Send(t.Context(), a, counterReset, counterReadParams{a.ID()}))
	result, err := Do(t.Context(), a, counterRead, counterReadParams{a.ID()})
	require.NoError(t, err)
	require.Zero(t, result.Total)

	hello, err := Do(t.Context(), a, counterHello, counterParams{"you"})
	require.NoError(t, err)
	require.Equal(t, "hello you", hello.Name)

	_, err = Do(t.Context(), a, counterRead, counterReadParams{b.ID()})
	require.ErrorIs(t, err, protocol.ErrSessionNotActive)
	_, err = Do(t.Context(), a, counterRead, counterReadParams{})
	require.ErrorIs(t, err, protocol.ErrInvalidParams)
	_, err = Do(t.Context(), a, protocol.ProcessList, protocol.ProcessListParams{})
	require.ErrorIs(t, err, protocol.ErrMethodNotFound)
}

func TestResultOf(t *testing.T) {
	text := protocol.Text("so far")
	for _, tt := range []struct {
		err     error
		outcome string
		reason  string
	}{
		{nil, protocol.OutcomeSucceeded, ""},
		{errors.New("plain"), protocol.OutcomeFailed, "internal_error"},
		{protocol.Errorf(protocol.CodeConflict, "stale").WithReason(protocol.ReasonStaleFile), protocol.OutcomeFailed, "stale_file"},
		{context.DeadlineExceeded, protocol.OutcomeFailed, "timeout"},
		{context.Canceled, protocol.OutcomeCanceled, "canceled"},
		{protocol.ErrCanceled, protocol.OutcomeCanceled, "canceled"},
	} {
		r := resultOf(text, tt.err)
		require.Equal(t, tt.outcome, r.Outcome)
		require.Equal(t, "so far", r.Content[0].Text)
		require.Equal(t, tt.err != nil, r.IsError)
		if tt.err != nil {
			require.Equal(t, tt.reason, r.Error.Reason)
			require.Len(t, r.Content, 2)
		}
	}
	require.Len(t, text.Content, 1)
	for want, r := range map[string]protocol.ToolResultParams{
		"no type":       {Content: []protocol.Content{{}}},
		"UTF-8":         {Content: []protocol.Content{{Type: "text", Text: "\xff"}}},
		"U+0000":        {Content: []protocol.Content{{Type: "text", Text: "\x00"}}},
		"not an object": {Structured: json.RawMessage(`[]`)},
	} {
		require.ErrorContains(t, checkResult(r), want)
	}
}

func TestUpload(t *testing.T) {
	type none struct{}
	h := NewHost(t, capabilities.Func("shot", "d", func(ctx context.Context, c *capabilities.Call, _ none) (protocol.ToolOutput, error) {
		a, err := c.Artifact(ctx, "a.png", "image/png", strings.NewReader("png"))
		return protocol.ToolOutput{Artifacts: []protocol.Artifact{a}}, err
	}))
	s := h.NewSession(t, Options{Upload: func(_ context.Context, _ *capabilities.Call, name, _ string, r io.Reader) (protocol.Artifact, error) {
		data, err := io.ReadAll(r)
		return protocol.Artifact{ArtifactID: string(data), Name: name}, err
	}})
	result, err := Call(t, s, "shot", nil)
	require.NoError(t, err)
	require.Equal(t, []protocol.Artifact{{ArtifactID: "png", Name: "a.png"}}, result.Artifacts)
	result, err = Call(t, h.NewSession(t, Options{}), "shot", nil)
	require.NoError(t, err)
	require.Equal(t, "capability_unavailable", result.Error.Reason)
}
