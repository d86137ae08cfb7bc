//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// The benchmarks of commands and processes. A brain in this process, an executor in another one with all
// that it has by default (a state directory, children that are kept hold of), a WebSocket over loopback.
// Beside each thing that is measured the same is done by hand; the runs of both alternate, and what is
// printed are the medians of the ratios of each round.

// benchRounds is how often what is compared is run, one after the other.
const benchRounds = 7

// benchSeat is a brain and an executor.
type benchSeat struct {
	b    *testing.B
	work string
	pid  int // of the executor
	url  string
	*brain.Session

	output atomic.Pointer[func(ctx context.Context, p protocol.ProcessOutputParams)] // takes process.output on the reading loop
	ids    atomic.Int64
}

// newBenchSeat starts both. heap is how many megabytes the executor holds beside what it needs.
func newBenchSeat(b *testing.B, heap int) *benchSeat {
	s := &benchSeat{b: b}
	x := brain.New(brain.Options{Handle: s.handle})
	b.Cleanup(func() { _ = x.Close("") })
	s.serve(x, heap)
	there, err := x.WaitExecutor(b.Context())
	require.NoError(b, err)
	s.Session, err = there.Assign(b.Context(), protocol.SessionAssignParams{})
	require.NoError(b, err)
	return s
}

// serve starts an executor that finds its brain in h.
func (s *benchSeat) serve(h http.Handler, heap int) {
	b := s.b
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	home := b.TempDir()
	s.work, s.url = filepath.Join(home, "work"), "ws://"+l.Addr().String()
	require.NoError(b, os.Mkdir(s.work, 0o700))
	p := benchRole("executor", "run", "--brain", s.url+"/executor", "--state-dir", filepath.Join(home, "state"), "--log-format", "json", "--log-level", "error")
	p.Dir = s.work
	p.Env = append(benchEnv(), "HOME="+home, "BENCH_ROLE=executor", "BENCH_HEAP="+strconv.Itoa(heap))
	p.Stderr = os.Stderr
	require.NoError(b, p.Start())
	s.pid = p.Process.Pid
	b.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		late.Stop()
		_ = server.Close()
		serving.Wait()
		tidy(home)
	})
}

// handle takes process.output without copying its data.
func (s *benchSeat) handle(x *rpc.Mux) {
	x.HandleRaw(protocol.ProcessOutput.Spec, true, func(raw json.RawMessage, data []byte) (string, rpc.Run, error) {
		p, err := protocol.DecodeParams[protocol.ProcessOutputParams](raw, data)
		return "", func(ctx context.Context) (any, error) {
			if f := s.output.Load(); f != nil {
				(*f)(ctx, p)
			}
			return nil, nil
		}, err
	})
}

// onOutput sets what takes process.output. It is called for one piece after another.
func (s *benchSeat) onOutput(f func(ctx context.Context, p protocol.ProcessOutputParams)) {
	s.output.Store(&f)
}

func (s *benchSeat) ack(ctx context.Context, p protocol.ProcessOutputParams) {
	_ = rpc.Notify(ctx, rpc.FromContext(ctx), protocol.ProcessAck, protocol.ProcessAckParams{
		SessionID: p.SessionID, ProcessID: p.ProcessID, Stream: p.Stream, Cursor: p.Cursor + int64(len(p.Data))})
}

// ask makes a request of the executor.
func ask[P, R any](s *benchSeat, m protocol.Method[P, R], p P) R {
	r, err := brain.Do(s.b.Context(), s.Executor(), m, p)
	require.NoError(s.b, err)
	return r
}

// begin starts a process with a new id.
func (s *benchSeat) begin(p protocol.ProcessStartParams) protocol.ProcessState {
	p.SessionID, p.ProcessID = s.ID(), "p"+strconv.FormatInt(s.ids.Add(1), 10)
	return ask(s, protocol.ProcessStart, p)
}

func (s *benchSeat) terminate(id string, grace int64) protocol.ProcessState {
	return ask(s, protocol.ProcessTerminate, protocol.ProcessSignalParams{SessionID: s.ID(), ProcessID: id, GraceMS: &grace})
}

// cpu is what the executor and this process have used, in seconds.
func (s *benchSeat) cpu() float64 { return cpuOf(s.pid) + cpuOf(os.Getpid()) }

// benchEnv is the environment of what is compared.
func benchEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "SHELL=/bin/sh"}
}

// benchRole is this program in another role.
func benchRole(role string, args ...string) *exec.Cmd {
	p := exec.Command(os.Args[0], args...)
	p.Env = append(benchEnv(), "BENCH_ROLE="+role)
	return p
}

// playRole is what a process that benchRole has started does, in place of the tests.
func playRole(role string) {
	switch role {
	case "executor":
		megabytes, _ := strconv.Atoi(os.Getenv("BENCH_HEAP"))
		held := make([][]byte, megabytes)
		for i := range held {
			held[i] = make([]byte, 1<<20)
			for at := 0; at < len(held[i]); at += 4096 {
				held[i][at] = 1
			}
		}
		go func() {
			<-make(chan struct{})
			runtime.KeepAlive(held)
		}()
		main()
	case "mcpserver":
		playMCPServer()
	case "clock":
		tellTime()
	default:
		playFloor(role, os.Args[1])
	}
	os.Exit(0)
}

// timings is how long something took, again and again, sorted.
type timings []time.Duration

// timed does something n times.
func timed(n int, do func()) timings {
	s := make(timings, n)
	for i := range s {
		began := time.Now()
		do()
		s[i] = time.Since(began)
	}
	return s.sorted()
}

// behindCall is do right behind a trivial call: with the processors' caches as a call leaves them,
// which is what no executor can do better than. The call itself is a part of each time.
func (s *benchSeat) behindCall(n int, do func()) timings {
	return timed(n, func() {
		ask(s, protocol.ProcessList, protocol.ProcessListParams{SessionID: s.ID()})
		do()
	})
}

func (s timings) sorted() timings { slices.Sort(s); return s }

func (s timings) at(percent int) float64 { return float64(s[(len(s)-1)*percent/100]) }
func (s timings) mean() float64 {
	var sum time.Duration
	for _, t := range s {
		sum += t
	}
	return float64(sum) / float64(len(s))
}

func (s timings) p50() float64 { return s.at(50) }
func (s timings) p99() float64 { return s.at(99) }

// inFlight is how often a second workers do something together.
func inFlight(workers, total int, do func()) float64 {
	began := time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range total / workers {
				do()
			}
		})
	}
	all.Wait()
	return float64(total) / time.Since(began).Seconds()
}

// figures are the values of each round, by name.
type benchFigures struct {
	b      *testing.B
	names  []string
	values map[string][]float64
}

func newFigures(b *testing.B) *benchFigures {
	return &benchFigures{b: b, values: map[string][]float64{}}
}

func (f *benchFigures) add(name string, v float64) {
	if f.values[name] == nil {
		f.names = append(f.names, name)
	}
	f.values[name] = append(f.values[name], v)
}

// times adds p50 and p99 in milliseconds.
func (f *benchFigures) times(name string, s timings) {
	f.add(name+"-p50-ms", s.p50()/1e6)
	f.add(name+"-p99-ms", s.p99()/1e6)
}

// over adds the ratios of two samples.
func (f *benchFigures) over(name string, s, floor timings) {
	f.add(name+"-p50", s.p50()/floor.p50())
	f.add(name+"-p99", s.p99()/floor.p99())
}

func (f *benchFigures) median(name string) float64 {
	v := slices.Sorted(slices.Values(f.values[name]))
	return v[len(v)/2]
}

// report prints the medians.
func (f *benchFigures) report() {
	f.b.Helper()
	f.b.ReportMetric(0, "ns/op")
	for _, name := range f.names {
		f.b.ReportMetric(f.median(name), name)
	}
}

// cpuOf is what a process itself has used, in seconds.
func cpuOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// statusOf is a line of /proc/PID/status, such as VmRSS in kilobytes.
func statusOf(pid int, name string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}
