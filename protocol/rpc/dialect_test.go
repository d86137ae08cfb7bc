package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Two ends of one dialect understand each other, and the other accepted spellings
// reach the same handler.
func TestDialect(t *testing.T) {
	d := rpc.Dialect{Subprotocol: "x.v1", Names: map[string]string{echo.Name: "x.echo"}}
	a, b := rpc.Pipe()
	got := make(chan string, 1)
	x := echoMux(0)
	rpc.Handle(x, protocol.ExecutorTokenRefresh, func(_ context.Context, p protocol.TokenRefreshParams) (protocol.TokenRefreshResult, error) {
		got <- p.Token
		return protocol.TokenRefreshResult{}, nil
	})
	c, s := rpc.NewConn(a, rpc.NewMux(0), &rpc.Options{Dialect: d}), rpc.NewConn(b, x, &rpc.Options{Dialect: d})
	c.Start()
	s.Start()
	t.Cleanup(func() { c.Close(); s.Close() })
	r, err := rpc.Call(t.Context(), c, echo, echoParams{N: 3})
	require.NoError(t, err)
	require.Equal(t, 3, r.N)
	other := protocol.ExecutorTokenRefresh
	other.Name = "executor.token.refresh"
	_, err = rpc.Call(t.Context(), c, other, protocol.TokenRefreshParams{Token: "t"})
	require.NoError(t, err)
	require.Equal(t, "t", <-got)
}

func TestDialectsAreOffered(t *testing.T) {
	require.Equal(t, []string{"executor.v1", "bma.executor.v1.1", "bma.executor.v1"}, rpc.Subprotocols(rpc.BMA()))
	require.Equal(t, "bma.executor.v1", rpc.DialectOf(rpc.BMA(), "bma.executor.v1").Subprotocol)
	require.Equal(t, protocol.Version1, rpc.DialectOf(rpc.BMA(), "").Subprotocol)
}
