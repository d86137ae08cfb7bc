package capabilities

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func newCall(t *testing.T, peer Peer, config CallConfig) *Call {
	t.Helper()
	config.Session = NewSession(t.Context(), SessionConfig{
		Assign: protocol.SessionAssignParams{SessionID: "s1"}, Peer: peer, Workspace: newWorkspace(t)})
	if config.ID == "" {
		config.ID = "c1"
	}
	c := NewCall(config)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestCall(t *testing.T) {
	tool := &RegisteredTool{}
	c := newCall(t, nil, CallConfig{Tool: tool, Input: json.RawMessage(`{"a":1}`)})
	require.Equal(t, "c1", c.ID())
	require.Same(t, tool, c.Tool())
	require.Equal(t, `{"a":1}`, string(c.Input()))
	require.Equal(t, "s1", c.Session().ID())
	for _, absent := range []string{"", "null"} {
		require.Equal(t, `{}`, string(newCall(t, nil, CallConfig{Input: json.RawMessage(absent)}).Input()))
	}
}

func TestProgress(t *testing.T) {
	peer := &recordingPeer{}
	c := newCall(t, peer, CallConfig{})
	c.Progress("half")
	c.Progress("")
	c.Progress("a\xff\x00")
	c.Progress(strings.Repeat("ä", maxProgressMessage))
	c.Output(protocol.StreamStderr, []byte("oops"))
	c.Output(protocol.StreamStdout, nil)
	require.NoError(t, c.Close())
	c.Progress("too late")

	require.Len(t, peer.notified, 4)
	got := make([]protocol.ToolProgressParams, 4)
	for i, n := range peer.notified {
		got[i] = *n.(*protocol.ToolProgressParams)
		require.Equal(t, "s1", got[i].SessionID)
		require.Equal(t, "c1", got[i].ToolCallID)
	}
	require.Equal(t, "half", got[0].Message)
	require.Equal(t, "a\uFFFD\uFFFD", got[1].Message)
	require.Equal(t, strings.Repeat("ä", maxProgressMessage/2), got[2].Message)
	require.Equal(t, "stderr", got[3].Stream)
	require.Equal(t, "oops", string(got[3].Data))
}

func TestOutputInPieces(t *testing.T) {
	peer := &recordingPeer{}
	data := bytes.Repeat([]byte("0123456789"), maxProgressData/4)
	newCall(t, peer, CallConfig{}).Output(protocol.StreamStdout, data)
	var all []byte
	for _, n := range peer.notified {
		piece := *n.(protocol.Blob).Blob()
		require.LessOrEqual(t, len(piece), maxProgressData)
		all = append(all, piece...)
	}
	require.Len(t, peer.notified, 3)
	require.Equal(t, data, all)
}

// stuckPeer takes a notification only when its context is done.
type stuckPeer struct {
	recordingPeer
	tries int
}

func (p *stuckPeer) Notify(ctx context.Context, _ string, _ any) error {
	p.tries++
	<-ctx.Done()
	return ctx.Err()
}

// A stalled connection costs a tool a tenth of its time at most.
func TestProgressOfStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &stuckPeer{}
		c := NewCall(CallConfig{ID: "c", Session: NewSession(t.Context(), SessionConfig{Peer: peer})})
		much := make([]byte, 1<<20)
		start := time.Now()
		for range 1000 {
			c.Progress("tick")
			c.Output(protocol.StreamStdout, much)
			time.Sleep(10 * time.Millisecond)
		}
		work := 1000 * 10 * time.Millisecond
		require.Less(t, time.Since(start)-work, work/8)
		require.InDelta(t, 10, peer.tries, 2)
		require.NoError(t, c.Close())
	})
}

func TestArtifact(t *testing.T) {
	_, err := newCall(t, nil, CallConfig{}).Artifact(t.Context(), "a.txt", "text/plain", strings.NewReader("x"))
	require.ErrorIs(t, err, protocol.ErrCapabilityUnavailable)
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "artifacts.upload", e.Data.Capability)

	var c *Call
	c = newCall(t, nil, CallConfig{Upload: func(_ context.Context, of *Call, name, mimeType string, r io.Reader) (protocol.Artifact, error) {
		require.Same(t, c, of)
		data, err := io.ReadAll(r)
		return protocol.Artifact{ArtifactID: "art", Name: name, MIMEType: mimeType, SizeBytes: int64(len(data))}, err
	}})
	got, err := c.Artifact(t.Context(), "a.txt", "text/plain", strings.NewReader("12345"))
	require.NoError(t, err)
	require.Equal(t, protocol.Artifact{ArtifactID: "art", Name: "a.txt", MIMEType: "text/plain", SizeBytes: 5}, got)
	require.NoError(t, c.Close())
	_, err = c.Artifact(t.Context(), "a.txt", "text/plain", strings.NewReader("12345"))
	require.ErrorIs(t, err, protocol.ErrCanceled)
}

func TestCleanText(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aä", 2, "a"}, {"a😀", 4, "a"}, {"a😀", 5, "a😀"},
		{"\xff\xff\xff\xff\xff", 4, "\uFFFD"}, {"a\x00b", 9, "a\uFFFDb"}, {"", 3, ""},
	} {
		got := cleanText(tt.in, tt.limit)
		require.Equal(t, tt.want, got)
		require.True(t, utf8.ValidString(got))
	}
}
