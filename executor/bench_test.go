package executor

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// trivial is the request that calls are measured beside.
var trivial = protocol.Method[anything, anything]{Spec: protocol.Spec{Name: "bench.trivial", From: protocol.Brain}}

type benchMethods struct{}

func (benchMethods) Name() string { return "bench" }

func (benchMethods) Install(r *capabilities.Registrar) error {
	capabilities.HandleMachine(r, trivial, func(_ context.Context, _ *capabilities.Session, p anything) (anything, error) {
		return p, nil
	})
	return nil
}

// benchExecutor is the other process: an executor with a tool that does nothing, until
// its standard input ends.
func benchExecutor(url string) {
	ex, err := New(Options{URL: url})
	if err == nil {
		err = ex.Register(benchMethods{}, tool("nothing", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{}, nil
		}))
	}
	if err != nil {
		panic(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		leave()
	}()
	if err := ex.Run(ctx); err != nil {
		panic(err)
	}
}

// BenchmarkToolCall is the whole of a tool that does nothing, between two processes:
// tool.call, its acceptance, tool.result and its acknowledgement, beside a trivial
// request between the same two. The runs of both alternate; the medians are printed.
// Goal: ≥ 0.4 of the requests' rate, one after another.
func BenchmarkToolCall(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	br := brain.New(brain.Options{})
	server := &http.Server{Handler: br}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	defer br.Close("")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXECUTOR_BENCH_BRAIN=ws://"+l.Addr().String()+"/")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	x, err := br.WaitExecutor(b.Context())
	require.NoError(b, err)
	s, err := x.Assign(b.Context(), protocol.SessionAssignParams{})
	require.NoError(b, err)

	calls := func() error {
		_, err := s.Call(b.Context(), "nothing", nil)
		return err
	}
	requests := func() error {
		_, err := brain.Do(b.Context(), x, trivial, anything{Text: "some text"})
		return err
	}
	rate := func(workers, total int, do func() error) float64 {
		began := time.Now()
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range total / workers {
					if err := do(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return float64(total) / time.Since(began).Seconds()
	}
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	for range b.N {
		b.ReportMetric(0, "ns/op")
		for _, load := range []struct {
			name                     string
			workers, calls, requests int
		}{{"seq", 1, 3000, 6000}, {"64x", 64, 12800, 25600}} {
			var ratios, rates []float64
			rate(load.workers, load.calls, calls)
			for range 7 {
				r, c := rate(load.workers, load.requests, requests), rate(load.workers, load.calls, calls)
				ratios, rates = append(ratios, c/r), append(rates, c)
			}
			b.ReportMetric(median(ratios), load.name+"-ratio")
			b.ReportMetric(median(rates), load.name+"-calls/s")
		}
	}
}
