//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// runTrue starts a program and waits for its end, in one request.
func (s *benchSeat) runTrue(argv ...string) {
	state := s.begin(protocol.ProcessStartParams{Argv: argv, WaitMS: 10_000})
	if state.ExitCode == nil || *state.ExitCode != 0 {
		s.b.Errorf("%+v", state)
	}
}

// execTrue does the same with os/exec.
func execTrue(b *testing.B, argv ...string) {
	var out, errs bytes.Buffer
	p := exec.Command(argv[0], argv[1:]...)
	p.Env, p.Stdout, p.Stderr = benchEnv(), &out, &errs
	if err := p.Run(); err != nil {
		b.Error(err)
	}
}

// BenchmarkStart is process.start of a program that ends at once, with the wait for its end, beside
// posix_spawn with pipes in C and os/exec with pipes, and beside those right behind a trivial call. Goals: p50 ≤ 1.5 times that of C; 8 in flight ≥ 1.3
// times as many as one after another; beside a heap of 1 GB in the executor ≤ 1.1 times that without.
func BenchmarkStart(b *testing.B) {
	const program = "/bin/true"
	c := cSpawner(b, program)
	others := make([]func(int) timings, 8)
	for i := range others {
		others[i] = cSpawner(b, program)
	}
	s, heavy := newBenchSeat(b, 0), newBenchSeat(b, 1024)
	ours := func() { s.runTrue(program) }
	for range b.N {
		f := newFigures(b)
		timed(100, ours)
		timed(50, func() { heavy.runTrue(program) })
		c(50)
		for range benchRounds {
			own, bare, std := timed(200, ours), c(200), timed(200, func() { execTrue(b, program) })
			f.over("over-c", own, bare)
			f.over("over-os/exec", own, std)
			f.over("over-call-and-c", own, s.behindCall(50, func() { c(1) }))
			f.times("ours", own)
			f.times("c", bare)
			one, eight, many := inFlight(1, 160, ours), inFlight(8, 320, ours), inFlight(32, 320, ours)
			f.add("8x-over-seq-rate", eight/one)
			f.add("32x-over-seq-rate", many/one)
			f.add("8x-over-c-rate", eight*bare.p50()/1e9)
			f.add("c-8x-over-seq-rate", allAtOnce(others, 40)/(1e9/bare.mean()))
			f.add("8x-starts/s", eight)
			f.over("1GB-heap-over-none", timed(160, func() { heavy.runTrue(program) }), timed(160, ours))
		}
		f.report()
	}
}

// allAtOnce is how many starts a second several loops in C make beside one another.
func allAtOnce(loops []func(int) timings, each int) float64 {
	began := time.Now()
	var all sync.WaitGroup
	for _, c := range loops {
		all.Go(func() { c(each) })
	}
	all.Wait()
	return float64(len(loops)*each) / time.Since(began).Seconds()
}

// BenchmarkBashTool is the tool bash with `true`, recorded on disk before it runs and after it, beside
// os/exec of the same. Goal: p50 ≤ 1.2.
func BenchmarkBashTool(b *testing.B) {
	s := newBenchSeat(b, 0)
	ours := func() { s.tool("bash", object{"command": "true"}) }
	for range b.N {
		f := newFigures(b)
		timed(100, ours)
		for range benchRounds {
			own, std := timed(100, ours), timed(100, func() { execTrue(b, "bash", "-c", "true") })
			f.over("over-os/exec", own, std)
			f.over("over-call-and-os/exec", own, s.behindCall(100, func() { execTrue(b, "bash", "-c", "true") }))
			f.times("ours", own)
			f.times("os/exec", std)
			one, eight := inFlight(1, 80, ours), inFlight(8, 160, ours)
			f.add("8x-over-seq-rate", eight/one)
		}
		f.report()
	}
}

// tool calls a tool that has to succeed.
func (s *benchSeat) tool(name string, input any) {
	r, err := s.Call(s.b.Context(), name, input)
	if err != nil || r.Outcome != protocol.OutcomeSucceeded || r.IsError {
		s.b.Errorf("%s: %v %+v", name, err, r)
	}
}

// BenchmarkRunShell is the shell that stays, beside starting a bash each time, and beside a bash that
// reads the same commands from a pipe. Goals: p50 of a builtin ≤ 0.1 of a bash's start; of a program
// ≤ 1.15 of the bare shell's.
func BenchmarkRunShell(b *testing.B) {
	s := newBenchSeat(b, 0)
	tools, err := s.Executor().Capabilities().Tools()
	require.NoError(b, err)
	if !slices.ContainsFunc(tools, func(t protocol.ToolInfo) bool { return t.Name == "run_shell" }) {
		b.Skip("there is no tool run_shell")
	}
	bare := bareShell(b, s.work)
	run := func(command string) func() {
		return func() { s.tool("run_shell", object{"command": command}) }
	}
	for range b.N {
		f := newFigures(b)
		timed(100, run(":"))
		for range benchRounds {
			builtin, bash := timed(200, run(":")), timed(100, func() { execTrue(b, "bash", "-c", "true") })
			f.over("builtin-over-bash", builtin, bash)
			f.times("builtin", builtin)
			program, by := timed(100, run("/bin/true")), timed(100, func() { bare("/bin/true") })
			f.over("program-over-bare-shell", program, by)
			f.over("program-over-call-and-bare-shell", program, s.behindCall(100, func() { bare("/bin/true") }))
			f.over("builtin-over-call-and-bare-shell", builtin, s.behindCall(100, func() { bare(":") }))
			f.times("program", program)
			f.times("bare-shell", by)
		}
		f.report()
	}
}

// grove is a command that is a tree of three processes.
var grove = []string{"sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait"}

// BenchmarkTerminate is process.terminate, until the whole tree is gone, beside kill and wait by hand.
func BenchmarkTerminate(b *testing.B) {
	s := newBenchSeat(b, 0)
	up := make(chan string, 1)
	s.onOutput(func(_ context.Context, p protocol.ProcessOutputParams) {
		if len(p.Data) > 0 {
			up <- p.ProcessID
		}
	})
	ours := func() time.Duration {
		id := s.begin(protocol.ProcessStartParams{Argv: grove}).ProcessID
		ask(s, protocol.ProcessSubscribe, protocol.ProcessSubscribeParams{SessionID: s.ID(), ProcessID: id, WindowBytes: 1 << 10})
		<-up
		began := time.Now()
		s.terminate(id, 5000)
		return time.Since(began)
	}
	byHand := func() time.Duration {
		r, w, err := os.Pipe()
		require.NoError(b, err)
		defer r.Close()
		p := exec.Command(grove[0], grove[1:]...)
		p.Env, p.Stdout, p.SysProcAttr = benchEnv(), w, &syscall.SysProcAttr{Setsid: true}
		require.NoError(b, p.Start())
		_ = w.Close()
		buf := make([]byte, 10)
		_, _ = r.Read(buf)
		began := time.Now()
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGTERM)
		_ = p.Wait()
		_, _ = r.Read(buf) // the end: nobody has it open any more
		return time.Since(began)
	}
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			var own, hand timings
			for range 20 {
				own, hand = append(own, ours()), append(hand, byHand())
			}
			f.over("over-by-hand", own.sorted(), hand.sorted())
			f.times("ours", own)
			f.times("by-hand", hand)
		}
		f.report()
	}
}
