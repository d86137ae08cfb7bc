package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// What an idle executor is measured beside: the least that a Go program is, and the least
// that holds a WebSocket and says something over it every ten seconds.
const (
	helloSource = `package main
import ("fmt"; "time")
func main() { fmt.Println("hello, world"); time.Sleep(time.Hour) }
`
	holderSource = `package main
import ("os"; "time"; "github.com/gorilla/websocket")
func main() {
	c, _, err := (&websocket.Dialer{}).Dial(os.Args[1], nil)
	if err != nil { panic(err) }
	for { if c.WriteMessage(websocket.TextMessage, []byte("{}")) != nil { return }; time.Sleep(10 * time.Second) }
}
`
	idleFor    = time.Minute
	burstCalls = 100
)

// built builds a program as it is packed: static and stripped.
func built(b *testing.B, dir, name string, what ...string) string {
	b.Helper()
	out := filepath.Join(dir, name)
	c := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, what...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := c.CombinedOutput()
	require.NoError(b, err, "%s", text)
	return out
}

// started starts a program that ends with the benchmark.
func started(b *testing.B, home, program string, args ...string) *exec.Cmd {
	b.Helper()
	p := exec.Command(program, args...)
	p.Dir, p.Env = home, append(benchEnv(), "HOME="+home)
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		late.Stop()
	})
	return p
}

// residentKB is what of a process is in memory.
func residentKB(b *testing.B, pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(b, err)
	return kb
}

// cpuOfThreads is the CPU time of a process, to the nanosecond.
func cpuOfThreads(b *testing.B, pid int) (total time.Duration) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(b, err)
	for _, path := range tasks {
		if raw, err := os.ReadFile(path); err == nil {
			ns, _ := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
			total += time.Duration(ns)
		}
	}
	return total
}

// BenchmarkIdle is an executor that waits for work. Goals: resident ≤ 2 times a hello
// world; 60 s after a burst of work ≤ 1.3 times what it was at first; ≤ 30 ms of CPU in a
// minute; from the start until it is registered ≤ 60 ms; the program ≤ 20 MB.
func BenchmarkIdle(b *testing.B) {
	dir := b.TempDir()
	source := func(name, text string) string {
		path := filepath.Join(dir, name+".go")
		require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	program := built(b, dir, "executor", ".")
	hello, holder := built(b, dir, "hello", source("hello", helloSource)), built(b, dir, "holder", source("holder", holderSource))
	info, err := os.Stat(program)
	require.NoError(b, err)

	came := make(chan *brain.Executor, 100)
	x := brain.New(brain.Options{OnExecutor: func(e *brain.Executor, connected bool) {
		if connected {
			came <- e
		}
	}})
	defer x.Close("")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	mux := http.NewServeMux()
	mux.Handle("/executor", x)
	mux.HandleFunc("/bare", func(rw http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(rw, r, nil)
		for err == nil {
			_, _, err = ws.ReadMessage()
		}
	})
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Close()
	url := "ws://" + l.Addr().String() + "/executor"

	for range b.N {
		f := newFigures(b)
		f.add("program-MB", float64(info.Size())/1e6)
		var p *exec.Cmd
		var there *brain.Executor
		for i := range benchRounds {
			home := b.TempDir()
			began := time.Now()
			p = started(b, home, program, "run", "--brain", url, "--state-dir", filepath.Join(home, "state"), "--log-level", "error")
			there = <-came
			f.add("registered-ms", float64(time.Since(began).Microseconds())/1000)
			f.add("registered-cpu-ms", float64(cpuOfThreads(b, p.Process.Pid).Microseconds())/1000)
			if i < benchRounds-1 {
				require.NoError(b, p.Process.Signal(syscall.SIGTERM))
				_, _ = p.Process.Wait()
			}
		}
		h, w := started(b, dir, hello), started(b, dir, holder, "ws://"+l.Addr().String()+"/bare")
		time.Sleep(38 * time.Second) // it has looked twice whether the start is over
		first := residentKB(b, p.Process.Pid)
		cpu := cpuOfThreads(b, p.Process.Pid)
		time.Sleep(idleFor)
		f.add("cpu-ms/minute", float64((cpuOfThreads(b, p.Process.Pid)-cpu).Microseconds())/1000)
		idle := residentKB(b, p.Process.Pid)
		f.add("resident-MB", idle/1024)
		f.add("resident-over-hello", idle/residentKB(b, h.Process.Pid))
		f.add("resident-over-bare-websocket", idle/residentKB(b, w.Process.Pid))

		s, err := there.Assign(b.Context(), protocol.SessionAssignParams{})
		require.NoError(b, err)
		for range burstCalls {
			_, err := s.Call(b.Context(), "bash", object{"command": "head -c 500000 /dev/zero | tr '\\0' x"})
			require.NoError(b, err)
		}
		f.add("burst-MB", residentKB(b, p.Process.Pid)/1024)
		time.Sleep(idleFor)
		f.add("after-burst-over-first", residentKB(b, p.Process.Pid)/first)
		f.report()
	}
}
