package brain

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

var nothing = protocol.Method[struct{}, struct{}]{Spec: protocol.Spec{Name: "x.nothing"}}

// BenchmarkCall is a tool call over the loopback, and two bare round trips beside
// it.
func BenchmarkCall(b *testing.B) {
	brain := New(Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{Handler: brain}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	defer brain.Close("")

	mux := rpc.NewMux(0)
	rpc.Handle(mux, nothing, func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	rpc.Handle(mux, protocol.SessionAssign, func(ctx context.Context, p protocol.SessionAssignParams) (protocol.SessionAssignResult, error) {
		go func() {
			_, _ = rpc.Call(context.Background(), rpc.FromContext(ctx), protocol.SessionReady, protocol.SessionReadyParams{SessionID: p.SessionID})
		}()
		return protocol.SessionAssignResult{Accepted: true}, nil
	})
	owed := make(chan protocol.ToolCallParams, 64)
	rpc.Handle(mux, protocol.ToolCall, func(_ context.Context, p protocol.ToolCallParams) (protocol.AcceptedResult, error) {
		owed <- p
		return protocol.AcceptedResult{Accepted: true}, nil
	})
	f, err := rpc.Dial(b.Context(), "ws://"+l.Addr().String()+"/", rpc.DialOptions{})
	require.NoError(b, err)
	c := rpc.NewConn(f, mux, nil)
	c.Start()
	defer c.Close()
	_, err = rpc.Call(b.Context(), c, protocol.ExecutorRegister, protocol.RegisterParams{Protocol: protocol.Version1})
	require.NoError(b, err)
	go func() {
		for p := range owed {
			_, _ = rpc.Call(context.Background(), c, protocol.ToolResult, echo(p))
		}
	}()
	defer close(owed)
	x, err := brain.WaitExecutor(b.Context())
	require.NoError(b, err)
	s, err := x.Assign(b.Context(), protocol.SessionAssignParams{})
	require.NoError(b, err)

	b.Run("call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Call(b.Context(), "echo", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("two round trips", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for range 2 {
				if _, err := Do(b.Context(), x, nothing, struct{}{}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
