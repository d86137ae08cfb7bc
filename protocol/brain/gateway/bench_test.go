package gateway_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// BenchmarkServerThroughGateway is a tools/call through gateway, brain and executor to an
// MCP server of the machine, as a multiple of the same call straight to such a server.
// Rounds of both take turns; the medians are compared.
func BenchmarkServerThroughGateway(b *testing.B) {
	const rounds, calls = 7, 200
	w := newWorld(b, gateway.Options{})
	defer w.end()
	w.executor("one", servers(own(b, "own")))
	w.ready(1)
	through := w.client(nil)
	require.Contains(b, w.tools(through), "own__pid")
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "GATEWAY_TEST_SERVER=1")
	straight, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(b, err)
	defer straight.Close()
	round := func(c *mcp.ClientSession, tool string) time.Duration {
		began := time.Now()
		for range calls {
			r, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: tool})
			require.NoError(b, err)
			require.NotEmpty(b, r.Content)
		}
		return time.Since(began) / calls
	}
	for b.Loop() {
		var far, near []time.Duration
		for range rounds {
			near = append(near, round(straight, "pid"))
			far = append(far, round(through, "own__pid"))
		}
		slices.Sort(near)
		slices.Sort(far)
		b.ReportMetric(float64(far[rounds/2])/float64(near[rounds/2]), "x-straight")
		b.ReportMetric(float64(far[rounds/2].Microseconds()), "µs/call")
		b.ReportMetric(float64(near[rounds/2].Microseconds()), "µs/straight")
	}
}
