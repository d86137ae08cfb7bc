//go:build unix

package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	jsonrpc2ws "github.com/sourcegraph/jsonrpc2/websocket"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

const bulk = 200 << 20 // bytes

// printer prints bulk, as fast as it is taken.
var printer = []string{"dd", "if=/dev/zero", "bs=128k", "count=" + strconv.Itoa(bulk>>17), "status=none"}

// spent is what moving bulk has cost.
type spent struct{ seconds, cpu float64 }

func spending(b *testing.B, cpu func() float64, move func() (moved int)) spent {
	began, before := time.Now(), cpu()
	require.Equal(b, bulk, move())
	return spent{time.Since(began).Seconds(), cpu() - before}
}

// report adds how many times as fast ours is, and what it costs.
func (f *benchFigures) moved(ours, floor spent) {
	f.add("rate-over-floor", floor.seconds/ours.seconds)
	f.add("MB/s", bulk/1e6/ours.seconds)
	f.add("floor-MB/s", bulk/1e6/floor.seconds)
	f.add("cpu-s/GB", ours.cpu/bulk*1e9)
	f.add("floor-cpu-s/GB", floor.cpu/bulk*1e9)
}

// pushed has a program's output pushed to its end.
func (s *benchSeat) pushed(argv []string, env map[string]string, window int, take func(protocol.ProcessOutputParams)) {
	done := make(chan struct{})
	var acked int64
	s.onOutput(func(ctx context.Context, p protocol.ProcessOutputParams) {
		take(p)
		switch end := p.Cursor + int64(len(p.Data)); {
		case p.EOF:
			close(done)
		case end-acked >= int64(window)/4:
			acked = end
			s.ack(ctx, p)
		}
	})
	state := s.begin(protocol.ProcessStartParams{Argv: argv, Env: env, OnFull: protocol.OnFullBlock, Stderr: protocol.StderrMerge})
	ask(s, protocol.ProcessSubscribe, protocol.ProcessSubscribeParams{SessionID: s.ID(), ProcessID: state.ProcessID, WindowBytes: window})
	<-done
}

// BenchmarkPush is 200 MB of output pushed in binary messages, beside the same in bare binary WebSocket
// frames: pipe, ring, frame. Goals: rate ≥ 0.75; ≤ 2 CPU seconds for a GB at both ends together.
func BenchmarkPush(b *testing.B) {
	s, bare := newBenchSeat(b, 0), newFloor(b, "binary")
	ours := func() (n int) {
		s.pushed(printer, nil, 1<<20, func(p protocol.ProcessOutputParams) { n += len(p.Data) })
		return n
	}
	floor := func() (n int) {
		bare.start(printer...)
		bare.pushed(func(p []byte) { n += len(p) })
		return n
	}
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			f.moved(spending(b, s.cpu, ours), spending(b, bare.cpu, floor))
		}
		f.report()
	}
}

// BenchmarkRead is 200 MB of output read piece by piece in base64, by a brain that takes no binary messages,
// beside the same written by hand. Goal: rate ≥ 0.75.
func BenchmarkRead(b *testing.B) {
	s, c := newTextSeat(b)
	bare := newFloor(b, "base64")
	n := 0
	ours := func() (moved int) {
		n++
		id := "r" + strconv.Itoa(n)
		_, err := rpc.Call(b.Context(), c, protocol.ProcessStart, protocol.ProcessStartParams{
			SessionID: "s", ProcessID: id, Argv: printer, OnFull: protocol.OnFullBlock, Stderr: protocol.StderrMerge})
		require.NoError(b, err)
		var r protocol.ProcessReadResult
		for cursor := int64(0); ; {
			require.NoError(b, rpc.CallInto(b.Context(), c, protocol.ProcessRead, protocol.ProcessReadParams{
				SessionID: "s", ProcessID: id, Cursor: cursor, MaxBytes: 256 << 10, WaitMS: 20_000}, &r))
			moved += len(r.Data)
			if cursor = r.NextCursor; r.EOF {
				return moved
			}
		}
	}
	floor := func() (moved int) {
		bare.start(printer...)
		bare.polled(func(p []byte) { moved += len(p) })
		return moved
	}
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			f.moved(spending(b, s.cpu, ours), spending(b, bare.cpu, floor))
		}
		f.report()
	}
}

// newTextSeat is an executor whose brain, written by hand, takes no binary messages, and its connection,
// with a session "s".
func newTextSeat(b *testing.B) (*benchSeat, *rpc.Conn) {
	ready := make(chan *rpc.Conn, 1)
	x := rpc.NewMux(0)
	rpc.HandleThen(x, protocol.ExecutorRegister, func(ctx context.Context, _ protocol.RegisterParams) (protocol.RegisterResult, func(), error) {
		c := rpc.FromContext(ctx)
		return protocol.RegisterResult{ConnectionID: "c", ExecutorID: "e", Protocol: protocol.Version1, HeartbeatIntervalMS: 10_000,
				LeaseTTLMS: 30_000, MaxControlFrameBytes: protocol.DefaultMaxControlFrame}, func() {
				go func() {
					_, _ = rpc.Call(c.Context(), c, protocol.SessionAssign, protocol.SessionAssignParams{SessionID: "s", WorkID: "w", Lease: protocol.Lease{Token: "t", FencingToken: 1}})
				}()
			}, nil
	})
	rpc.Handle(x, protocol.ExecutorHeartbeat, func(context.Context, protocol.HeartbeatParams) (protocol.HeartbeatResult, error) {
		return protocol.HeartbeatResult{LeaseTTLMS: 30_000}, nil
	})
	rpc.HandleThen(x, protocol.SessionReady, func(ctx context.Context, _ protocol.SessionReadyParams) (protocol.AcceptedResult, func(), error) {
		c := rpc.FromContext(ctx)
		return protocol.AcceptedResult{Accepted: true}, func() { ready <- c }, nil
	})
	rpc.Handle(x, protocol.SessionEnded, func(context.Context, protocol.SessionEndedParams) (protocol.AcceptedResult, error) {
		return protocol.AcceptedResult{Accepted: true}, nil
	})
	s := &benchSeat{b: b}
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := rpc.Accept(w, r, rpc.AcceptOptions{})
		if err != nil {
			return
		}
		rpc.NewConn(f, x, nil).Start()
	}), 0)
	return s, <-ready
}

// BenchmarkLine is the time from a program's write of a line until the brain has it, beside the same over
// a pipe and a WebSocket frame.
func BenchmarkLine(b *testing.B) {
	s, bare := newBenchSeat(b, 0), newFloor(b, "binary")
	const lines = 500
	late := func(to *timings) func([]byte) {
		return func(p []byte) {
			now := monotonic()
			for line := range bytes.Lines(p) {
				then, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
				require.NoError(b, err)
				*to = append(*to, time.Duration(now-then))
			}
		}
	}
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			var own, floor timings
			take := late(&own)
			s.pushed([]string{os.Args[0], strconv.Itoa(lines)}, map[string]string{"BENCH_ROLE": "clock"}, 1<<20,
				func(p protocol.ProcessOutputParams) { take(p.Data) })
			bare.start(os.Args[0], strconv.Itoa(lines))
			bare.pushed(late(&floor))
			require.Len(b, own, lines)
			f.over("over-bare", own.sorted(), floor.sorted())
			f.times("ours", own)
			f.times("bare", floor)
		}
		f.report()
	}
}

// flooded is a program that prints without end, pushed with a window of 256 KB to a brain that reads 50 MB
// a second. It has begun when flooded returns; stop ends it.
func (s *benchSeat) flooded() (stop func() (moved int64)) {
	const window, perSecond = 256 << 10, 50e6
	var moved, acked int64
	began := time.Now()
	begun, ended := make(chan struct{}), make(chan struct{})
	var begin, end sync.Once
	s.onOutput(func(ctx context.Context, p protocol.ProcessOutputParams) {
		moved += int64(len(p.Data))
		if early := time.Duration(float64(moved)/perSecond*1e9) - time.Since(began); early > 0 {
			time.Sleep(early)
		}
		if moved > 1<<20 {
			begin.Do(func() { began = time.Now(); moved = 0; close(begun) })
		}
		if p.EOF {
			end.Do(func() { close(ended) })
			return
		}
		if end := p.Cursor + int64(len(p.Data)); end-acked >= window/2 {
			acked = end
			s.ack(ctx, p)
		}
	})
	state := s.begin(protocol.ProcessStartParams{Argv: []string{"yes"}, OnFull: protocol.OnFullBlock, Stderr: protocol.StderrMerge})
	ask(s, protocol.ProcessSubscribe, protocol.ProcessSubscribeParams{SessionID: s.ID(), ProcessID: state.ProcessID, WindowBytes: window})
	<-begun
	return func() int64 {
		s.terminate(state.ProcessID, 0)
		<-ended
		return moved
	}
}

// BenchmarkBesideFlood is a trivial request beside a flood of output. Goals: p50 ≤ 5 ms; the executor grows
// by ≤ 10 MB, and has ≤ 1.3 times of what it had before a minute later.
func BenchmarkBesideFlood(b *testing.B) {
	s := newBenchSeat(b, 0)
	trivial := func() { ask(s, protocol.ProcessList, protocol.ProcessListParams{SessionID: s.ID()}) }
	for range b.N {
		f := newFigures(b)
		alone := timed(1000, trivial)
		before := statusOf(s.pid, "VmRSS")
		most := 0
		stop, began := s.flooded(), time.Now()
		for range benchRounds {
			f.times("beside-flood", timed(1000, func() {
				trivial()
				most = max(most, statusOf(s.pid, "VmRSS"))
			}))
			f.times("alone", alone)
		}
		took := time.Since(began)
		f.add("flood-MB/s", float64(stop())/1e6/took.Seconds())
		f.add("RSS-growth-MB", float64(most-before)/1024)
		time.Sleep(time.Minute)
		f.add("RSS-a-minute-later-ratio", float64(statusOf(s.pid, "VmRSS"))/float64(before))
		f.report()
	}
}

// BenchmarkKeystroke is a key that is typed until its echo is there, through a PTY, beside the same over the
// stock connection of sourcegraph/jsonrpc2. Goal: p50 ≤ 0.9.
func BenchmarkKeystroke(b *testing.B) {
	s, bare := newBenchSeat(b, 0), newFloor(b, "stock")
	const keys = 1000
	echoes := make(chan byte, 1)
	s.onOutput(func(ctx context.Context, p protocol.ProcessOutputParams) {
		if len(p.Data) > 0 {
			echoes <- p.Data[0]
			s.ack(ctx, p)
		}
	})
	state := s.begin(protocol.ProcessStartParams{Argv: []string{"cat"}, IOMode: protocol.IOModePTY, Stdin: protocol.StdinOpen})
	ask(s, protocol.ProcessSubscribe, protocol.ProcessSubscribeParams{SessionID: s.ID(), ProcessID: state.ProcessID, WindowBytes: 64 << 10})
	stock := jsonrpc2.NewConn(b.Context(), jsonrpc2ws.NewObjectStream(bare.ws), jsonrpc2.HandlerWithError(
		func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			d, err := protocol.DecodeParams[stockData](*r.Params, nil)
			if len(d.Data) > 0 {
				echoes <- d.Data[0]
			}
			return nil, err
		}))
	defer stock.Close()
	// press types keys; a line is ended before it is too long for a terminal.
	press := func(write func(key []byte) error) timings {
		i := 0
		return timed(keys, func() {
			key := []byte{'a' + byte(i%26)}
			i++
			answered := make(chan error, 1)
			go func() { answered <- write(key) }()
			require.Equal(b, key[0], <-echoes)
			require.NoError(b, <-answered)
		})
	}
	ours := func(key []byte) error {
		_, err := brain.Do(b.Context(), s.Executor(), protocol.ProcessWrite, protocol.ProcessWriteParams{SessionID: s.ID(), ProcessID: state.ProcessID, Data: key})
		return err
	}
	byStock := func(key []byte) error { return stock.Call(b.Context(), "write", stockData{key}, nil) }
	// erase empties the line that a terminal keeps, which has no room for all the keys.
	erase := func(write func([]byte) error) {
		require.NoError(b, write([]byte{'\x15'}))
		quiet := time.NewTimer(100 * time.Millisecond)
		for {
			select {
			case <-echoes:
			case <-quiet.C:
				return
			}
		}
	}
	for range b.N {
		f := newFigures(b)
		for range benchRounds {
			own, floor := press(ours), press(byStock)
			erase(ours)
			erase(byStock)
			f.over("over-stock", own, floor)
			f.times("ours", own)
			f.times("stock", floor)
		}
		f.report()
	}
}
