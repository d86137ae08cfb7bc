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

// nothing is two tools that do nothing, of which one says that it only reads.
type nothing struct{}

func (nothing) Name() string { return "nothing" }

func (nothing) Install(r *capabilities.Registrar) error {
	h := func(context.Context, *capabilities.Call, anything) (protocol.ToolOutput, error) {
		return protocol.ToolOutput{}, nil
	}
	capabilities.AddTool(r, capabilities.Tool{Name: "nothing", Description: "Does nothing."}, h)
	capabilities.AddTool(r, capabilities.Tool{Name: "look", Description: "Does nothing.", Annotations: protocol.Annotations{ReadOnly: true}}, h)
	return nil
}

// benchExecutor is the other process: an executor with tools that do nothing, until
// its standard input ends.
func benchExecutor(url string) {
	ex, err := New(Options{URL: url, StateDir: os.Getenv("EXECUTOR_BENCH_STATE")})
	if err == nil {
		err = ex.Register(benchMethods{}, nothing{})
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

// benchSession is a session on an executor in another process, with the state
// directory, if any.
func benchSession(b *testing.B, state string) *brain.Session {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	br := brain.New(brain.Options{})
	server := &http.Server{Handler: br}
	go func() { _ = server.Serve(l) }()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXECUTOR_BENCH_BRAIN=ws://"+l.Addr().String()+"/", "EXECUTOR_BENCH_STATE="+state)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
		_ = br.Close("")
		_ = server.Close()
	})
	x, err := br.WaitExecutor(b.Context())
	require.NoError(b, err)
	s, err := x.Assign(b.Context(), protocol.SessionAssignParams{})
	require.NoError(b, err)
	return s
}

// rate is how often a second workers do something together.
func rate(b *testing.B, workers, total int, do func() error) float64 {
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

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// BenchmarkToolCall is the whole of a tool that does nothing, between two processes:
// tool.call, its acceptance, tool.result and its acknowledgement, beside a trivial
// request between the same two. The runs of both alternate; the medians are printed.
// Goal: ≥ 0.4 of the requests' rate, one after another.
func BenchmarkToolCall(b *testing.B) {
	s := benchSession(b, "")
	calls := func() error {
		_, err := s.Call(b.Context(), "nothing", nil)
		return err
	}
	requests := func() error {
		_, err := brain.Do(b.Context(), s.Executor(), trivial, anything{Text: "some text"})
		return err
	}
	for range b.N {
		b.ReportMetric(0, "ns/op")
		for _, load := range []struct {
			name                     string
			workers, calls, requests int
		}{{"seq", 1, 3000, 6000}, {"64x", 64, 12800, 25600}} {
			var ratios, rates []float64
			rate(b, load.workers, load.calls, calls)
			for range 7 {
				r, c := rate(b, load.workers, load.requests, requests), rate(b, load.workers, load.calls, calls)
				ratios, rates = append(ratios, c/r), append(rates, c)
			}
			b.ReportMetric(median(ratios), load.name+"-ratio")
			b.ReportMetric(median(rates), load.name+"-calls/s")
		}
	}
}

// BenchmarkDurableCall is how much longer a call takes that is recorded on disk than
// one that is recorded in memory, of a tool that only reads, whose records are not
// waited for to be on the disk, and of one that does more. The runs alternate; the
// medians are printed. Goal: ≤ 1.5 for tools that only read.
func BenchmarkDurableCall(b *testing.B) {
	memory, disk := benchSession(b, ""), benchSession(b, b.TempDir())
	for range b.N {
		b.ReportMetric(0, "ns/op")
		for _, load := range []struct {
			name, tool     string
			workers, calls int
		}{{"read-only-seq", "look", 1, 3000}, {"read-only-64x", "look", 64, 12800}, {"other-seq", "nothing", 1, 300}, {"other-64x", "nothing", 64, 6400}} {
			call := func(s *brain.Session) func() error {
				return func() error {
					_, err := s.Call(b.Context(), load.tool, nil)
					return err
				}
			}
			var ratios, rates []float64
			rate(b, load.workers, load.calls, call(disk))
			for range 7 {
				m, d := rate(b, load.workers, load.calls, call(memory)), rate(b, load.workers, load.calls, call(disk))
				ratios, rates = append(ratios, m/d), append(rates, d)
			}
			b.ReportMetric(median(ratios), load.name+"-ratio")
			b.ReportMetric(median(rates), load.name+"-calls/s")
		}
	}
}
