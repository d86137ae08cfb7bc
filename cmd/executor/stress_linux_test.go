package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// The tests of this file are short. EXECUTOR_STRESS=1 makes them as long as they should be before a release:
// a thousand processes of each kind, ten seconds of `yes`, 100 MB there and back.

// stress is how much is done: little, or all with EXECUTOR_STRESS.
func stress[T any](little, all T) T {
	if os.Getenv("EXECUTOR_STRESS") != "" {
		return all
	}
	return little
}

// stressed is a rig with its executor connected.
func stressed(t *testing.T) (*rig, context.Context) {
	r := newRig(t)
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return r, ctx
}

// descriptors counts what a process has open; 0 where only root may see that of an executor.
func descriptors(t *testing.T, pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if errors.Is(err, fs.ErrPermission) {
		return 0
	}
	require.NoError(t, err)
	return len(entries)
}

// childrenOf are the processes, also ended ones, whose parent that is.
func childrenOf(pid int) (lines []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			lines = append(lines, string(text))
		}
	}
	return lines
}

// filesBelow lists the files below a directory, without those of the journal, which comes and goes.
func filesBelow(t *testing.T, dir string) (files []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !strings.Contains(path, "journal") {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// Many short processes with pipes and with PTYs, and 100 at once or 200: no descriptor, no goroutine, no
// process, no zombie, no file and no control group of them is left. (cases 14, 137)
func TestManyProcesses(t *testing.T) {
	r, ctx := stressed(t)
	s, err := r.current(ctx)
	require.NoError(t, err)
	pid := r.executor.Process.Pid
	start := func(s *brain.Session, p protocol.ProcessStartParams) (protocol.ProcessState, error) {
		p.SessionID = s.ID()
		return brain.Do(ctx, s.Executor(), protocol.ProcessStart, p)
	}
	short := func(n int, mode string) {
		var all sync.WaitGroup
		for lane := range 8 {
			all.Go(func() {
				for i := lane; i < n; i += 8 {
					p := protocol.ProcessStartParams{ProcessID: fmt.Sprint(mode, " ", i), Argv: []string{"sh", "-c", "echo done"}, IOMode: mode, WaitMS: 60_000}
					if i%2 == 0 {
						p.Stdin = protocol.StdinOpen
					}
					state, err := start(s, p)
					if !assert.NoError(t, err) || !assert.Equal(t, protocol.ProcessExited, state.State) {
						return
					}
					want := int64(len("done\n"))
					if mode == protocol.IOModePTY {
						want++ // a terminal's own line end
					}
					assert.Equal(t, want, state.Cursors.Stdout)
				}
			})
		}
		all.Wait()
	}
	short(8, protocol.IOModePipes)
	short(8, protocol.IOModePTY)
	before, files := descriptors(t, pid), filesBelow(t, r.home)
	n := stress(40, 1000)
	began := time.Now()
	for _, mode := range []string{"pipes", "pty"} {
		for i := 0; i < n; i += 100 { // ids are for one process each
			s = r.another(ctx, s)
			short(min(100, n-i), mode)
		}
	}
	took := time.Since(began)

	const each = 29
	sessions := stress(4, 7)
	var many []*brain.Session
	for range sessions {
		x, err := s.Executor().Assign(ctx, protocol.SessionAssignParams{})
		require.NoError(t, err)
		many = append(many, x)
	}
	for _, x := range many {
		for i := range each {
			state, err := start(x, protocol.ProcessStartParams{ProcessID: fmt.Sprint(i), Argv: []string{"cat"}, Stdin: protocol.StdinOpen})
			require.NoError(t, err)
			require.Equal(t, protocol.ProcessRunning, state.State)
		}
	}
	require.GreaterOrEqual(t, len(childrenOf(pid)), sessions*each, "all at once")
	for _, x := range many[1:] { // the processes of the first end with their session
		for i := range each {
			_, err := brain.Do(ctx, x.Executor(), protocol.ProcessWrite, protocol.ProcessWriteParams{SessionID: x.ID(), ProcessID: fmt.Sprint(i), Data: []byte("x"), CloseStdin: true})
			require.NoError(t, err)
		}
	}
	for _, x := range append(many, s) {
		require.NoError(t, x.Stop(ctx, "done"))
	}
	var after int
	assert.Eventually(t, func() bool {
		after = descriptors(t, pid)
		return after <= before+5 && len(childrenOf(pid)) == 0
	}, 20*time.Second, 50*time.Millisecond)
	assert.LessOrEqual(t, after, before+5, "descriptors")
	assert.Empty(t, childrenOf(pid), "processes and zombies")
	for _, file := range filesBelow(t, r.home) {
		if strings.HasSuffix(file, ".json.tmp") { // the state is being written
			continue
		}
		assert.True(t, slices.Contains(files, file), "%s was not there before", file)
	}
	if group, _ := r.logLines("child processes are kept hold of")[0]["cgroup"].(string); group != "" {
		below, err := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
		require.NoError(t, err)
		assert.Empty(t, below, "control groups")
	}
	t.Logf("%d processes in %v, %d at once; %d descriptors before, %d after", 2*n, took.Round(time.Millisecond), sessions*each, before, after)

	r.signal(syscall.SIGQUIT) // which shows all goroutines
	<-r.ended
	raw, err := os.ReadFile(r.log)
	require.NoError(t, err)
	_, dump, found := bytes.Cut(raw, []byte("SIGQUIT: quit"))
	require.True(t, found)
	assert.NotContains(t, string(dump), "capabilities/process.", "goroutines of processes")
	assert.NotContains(t, string(dump), "spawn.(*Process)", "goroutines of processes")
	assert.NotContains(t, string(dump), "spawn.(*pump)", "goroutines of processes")
	assert.Less(t, bytes.Count(dump, []byte("\ngoroutine ")), 50, "goroutines")
}

// another ends a session and returns the next.
func (r *rig) another(ctx context.Context, s *brain.Session) *brain.Session {
	r.t.Helper()
	require.NoError(r.t, s.Stop(ctx, "done"))
	next, err := r.current(ctx)
	require.NoError(r.t, err)
	return next
}

// A program that prints without end to nobody does not make the executor grow; the log goes on, and who
// reads is told what is lost. (cases 43, 44)
func TestYes(t *testing.T) {
	r, ctx := stressed(t)
	s, err := r.current(ctx)
	require.NoError(t, err)
	_, err = s.Call(ctx, "bash", object{"command": "true"})
	require.NoError(t, err)
	pid := r.executor.Process.Pid
	before := statusOf(pid, "VmRSS")
	p, err := s.Process(ctx, protocol.ProcessStartParams{Argv: []string{"yes"}})
	require.NoError(t, err)
	read := func(cursor int64) protocol.ProcessReadResult {
		t.Helper()
		got, err := brain.Do(ctx, s.Executor(), protocol.ProcessRead, protocol.ProcessReadParams{SessionID: s.ID(), ProcessID: p.ID(), Cursor: cursor})
		require.NoError(t, err)
		return got
	}
	most, last := 0, protocol.ProcessReadResult{}
	for ends := time.After(stress(time.Second, 10*time.Second)); ; {
		most = max(most, statusOf(pid, "VmRSS"))
		got := read(last.NextCursor)
		require.GreaterOrEqual(t, got.EarliestCursor, last.EarliestCursor)
		require.Equal(t, got.FromCursor > last.NextCursor, got.Gap)
		if len(got.Data) > 3 {
			require.Equal(t, "y\n", string(got.Data[got.FromCursor%2:][:2]))
		}
		last = got
		select {
		case <-ends:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	require.True(t, read(0).Gap, "bytes were dropped")
	require.Positive(t, last.EarliestCursor)
	_, err = p.Terminate(ctx, nil)
	require.NoError(t, err)
	t.Logf("%d MB printed, RSS %d kB before, at most %d kB", last.NextCursor>>20, before, most)
	assert.LessOrEqual(t, most-before, 8<<10, "kB more than before")
	r.stopExecutor(syscall.SIGTERM)
}

// through is what comes out of a program, which is told how much that is so far.
type through struct {
	sum   hash.Hash
	n     int64
	every func(n int64)
}

func (w *through) Write(p []byte) (int, error) {
	_, _ = w.sum.Write(p)
	w.n += int64(len(p))
	w.every(w.n)
	return len(p), nil
}

// Megabytes there and back with `brain exec`, byte by byte the same and with the program's exit code, over
// a connection that is cut three times meanwhile. (cases 25, 112)
func TestExecOverCuts(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	network := newRelay(t, s.addr)
	p := s.start("executor", "run", "--brain", "ws://"+network.addr()+"/executor", "--token-file", s.tokenFile(), "--min-backoff", "10ms", "--max-backoff", "100ms")
	require.Eventually(t, func() bool {
		out, _, code := s.brain("executors")
		return code == 0 && strings.Contains(out, "connected")
	}, 20*time.Second, 100*time.Millisecond)

	size := stress(int64(4<<20), 100<<20)
	sent, got := sha256.New(), &through{sum: sha256.New()}
	cuts := 0
	got.every = func(n int64) {
		if cuts < 3 && n > size*int64(cuts+1)/4 {
			cuts++
			network.cut()
		}
	}
	x := exec.Command(filepath.Join(s.bin, "brain"), "exec", "--", "sh", "-c", "cat; exit 7")
	x.Env, x.Dir = p.cmd.Env, s.work
	x.Stdin = io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{7}), size), sent)
	var errs bytes.Buffer
	x.Stdout, x.Stderr = got, &errs
	began := time.Now()
	require.NoError(t, x.Start())
	late := time.AfterFunc(2*patience, func() { _ = x.Process.Kill() })
	err := x.Wait()
	late.Stop()
	took := time.Since(began)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", errs.String())
	assert.Equal(t, 7, exit.ExitCode(), "%s", errs.String())
	assert.Empty(t, errs.String())
	assert.Equal(t, size, got.n)
	assert.Equal(t, sent.Sum(nil), got.sum.Sum(nil), "the same bytes")
	assert.Equal(t, 3, cuts)
	t.Logf("%d MB there and back in %v, %.0f MB/s, over %d cuts", size>>20, took.Round(time.Millisecond), float64(size)/1e6/took.Seconds(), cuts)
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 0, p.exit())
}
