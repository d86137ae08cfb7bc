package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
)

// asker is a host that is asked about calls.
type asker struct {
	mu     sync.Mutex
	wishes []capabilities.Wish
	ends   map[string]string // by id: how it ended
	decide chan error        // of those that wait
}

func (a *asker) ask(_ *capabilities.Session, w capabilities.Wish) capabilities.Permission {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wishes = append(a.wishes, w)
	ended := func(begun bool, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		text := "done"
		if err != nil {
			text = err.Error()
		}
		if !begun {
			text = "not begun: " + text
		}
		a.ends[w.ID] += text
	}
	switch w.Name {
	case "mcp.files.delete":
		return capabilities.Permission{Refused: protocol.Errorf(protocol.CodeForbidden, "the policy denies it")}
	case "mcp.files.write":
		return capabilities.Permission{Ended: ended, Wait: func(ctx context.Context) error {
			select {
			case err := <-a.decide:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	}
	return capabilities.Permission{Ended: ended}
}

func (a *asker) ended(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ends[id]
}

// guardSeat is a guard between a brain and a run.
func guardSeat(t *testing.T) (*asker, *guard, capabilities.Channel) {
	a := &asker{ends: map[string]string{}, decide: make(chan error)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	session := capabilities.NewSession(ctx, capabilities.SessionConfig{Peer: &capabilitytest.Peer{}, Ask: a.ask})
	here, there := capabilitytest.Pipe()
	g := (&server{t: &table{session: session, ctx: ctx}, key: "files"}).guarded(here)
	t.Cleanup(g.end)
	return a, g, there
}

func toolCall(id any, tool string) []byte {
	raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool}})
	return raw
}

// Calls of a server's tools are asked about like calls of the executor's own; what else the brain says is not.
func TestGuard(t *testing.T) {
	a, g, brain := guardSeat(t)
	ctx := g.ctx
	write := func(frame []byte) { require.NoError(t, brain.WriteFrame(ctx, frame)) }
	type answer struct {
		ID    json.RawMessage
		Error *struct {
			Code    protocol.Code
			Message string
		}
	}
	read := func() (r answer) {
		frame, err := brain.ReadFrame(ctx)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(frame, &r))
		return r
	}
	came := make(chan []byte, 10)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			frame, err := g.ReadFrame(ctx)
			if err != nil {
				return
			}
			came <- frame
		}
	})
	defer reading.Wait()
	defer g.leave()

	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	write(ping)
	require.Equal(t, ping, <-came)
	write(toolCall(2, "read"))
	require.Equal(t, toolCall(2, "read"), <-came)
	require.Empty(t, a.ended("2"))
	go func() { _ = g.WriteFrame(ctx, []byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)) }()
	require.Equal(t, "2", string(read().ID))
	require.Eventually(t, func() bool { return a.ended("2") == "done" }, 10*time.Second, time.Millisecond)

	write(toolCall("d", "delete"))
	refused := read()
	require.Equal(t, `"d"`, string(refused.ID))
	require.Equal(t, protocol.CodeForbidden, refused.Error.Code)
	require.Equal(t, "the policy denies it", refused.Error.Message)

	// One that waits holds up nobody, and goes on when it is allowed; or is refused, or given up.
	write(toolCall(3, "write"))
	write(ping)
	require.Equal(t, ping, <-came)
	a.decide <- nil
	require.Equal(t, toolCall(3, "write"), <-came)
	write(toolCall(4, "write"))
	a.decide <- protocol.Errorf(protocol.CodeForbidden, "no").WithReason(protocol.ReasonLocalConfirmationDenied)
	require.Equal(t, "no", read().Error.Message)
	write(toolCall(5, "write"))
	write([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`))
	require.Eventually(t, func() bool { return a.ended("5") == "not begun: "+protocol.ErrCanceled.Error() }, 10*time.Second, time.Millisecond)

	// There is no way around it.
	for _, frame := range []string{`[{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"delete"}}]`,
		`{"jsonrpc":"2.0","id":6,"method":"tools\/call","params":{"name":"delete"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","Method":"ping","params":{"name":"delete"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"delete","Name":"read"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"Name":"read"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[1]}`,
		`{"jsonrpc":"2.0","id":6,"Method":"tools/call","params":{"name":"delete"}}`} {
		write([]byte(frame))
		require.NotNil(t, read().Error, frame)
	}
	write([]byte(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete"}}`)) // a notification
	write(ping)
	require.Equal(t, ping, <-came)
	require.Empty(t, came)

	write(toolCall(7, "read"))
	<-came
	g.end()
	require.Equal(t, errServerGone.Error(), a.ended("7"))
	require.Equal(t, errServerGone.Error(), a.ended("3"))
}
