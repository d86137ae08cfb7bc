//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// rig is a brain in this process and an executor that is a process of its own, on one
// state directory, and what is known of the calls that were made. The tests that use it
// end the one and the other in the middle of their work, and then ask the ledger.
type rig struct {
	*site
	state string // the executor's state directory
	log   string // what all its executors have logged
	dial  string // where executors find the brain
	ledger

	executor *exec.Cmd
	started  int64         // where its log begins
	ended    chan struct{} // closed when the executor has

	address  string // of the brain
	server   *http.Server
	assigned chan struct{} // one token: held while a session is assigned

	mu      sync.Mutex
	serving *brain.Brain
	session *brain.Session
	events  map[string]chan struct{} // closed when the next one comes
}

// What a rig tells of.
const (
	eventRegistered = "registered"
	eventSent       = "call sent"
	eventAccepted   = "call accepted"
	eventStored     = "result stored"
)

// newRig starts a brain. A test starts the executor.
func newRig(t *testing.T) *rig {
	t.Helper()
	s := newSite(t)
	r := &rig{site: s, state: filepath.Join(s.home, "state"), log: filepath.Join(s.home, "log"),
		assigned: make(chan struct{}, 1), events: map[string]chan struct{}{}, address: "127.0.0.1:0"}
	r.counter, r.calls, r.stored = filepath.Join(s.work, "counter"), map[string]*record{}, map[string]string{}
	r.results, r.onPut = map[string]protocol.ToolResultParams{}, func() { r.tell(eventStored) }
	require.NoError(t, os.WriteFile(filepath.Join(s.work, "constant"), []byte("this does not change\n"), 0o600))
	r.startBrain()
	r.dial = r.address
	t.Cleanup(func() {
		if r.executor != nil {
			_ = r.executor.Process.Kill()
			<-r.ended
		}
		r.stopBrain()
		if t.Failed() {
			raw, _ := os.ReadFile(r.log)
			t.Logf("the executors' log, its end:\n%s", raw[max(0, len(raw)-16<<10):])
		}
	})
	return r
}

// startBrain starts a brain that knows nothing but the results, where the last one was.
func (r *rig) startBrain() {
	r.t.Helper()
	var l net.Listener
	require.Eventually(r.t, func() bool {
		var err error
		l, err = net.Listen("tcp", r.address)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "the brain's address")
	b := brain.New(brain.Options{Results: &r.ledger, HeartbeatInterval: 300 * time.Millisecond, LeaseTTL: 10 * time.Second,
		OnExecutor: func(_ *brain.Executor, connected bool) {
			if connected {
				r.tell(eventRegistered)
			}
		}})
	r.address = l.Addr().String()
	r.server = &http.Server{Handler: b}
	go func() { _ = r.server.Serve(l) }() // until stopBrain
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serving, r.session = b, nil
}

func (r *rig) stopBrain() {
	_ = r.server.Close()
	r.mu.Lock()
	r.session = nil // callers wait for the next one
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(r.t, r.serving.Shutdown(ctx))
}

func (r *rig) tell(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.events[event]; c != nil {
		close(c)
		delete(r.events, event)
	}
}

// next is closed when an event comes the next time.
func (r *rig) next(event string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events[event] == nil {
		r.events[event] = make(chan struct{})
	}
	return r.events[event]
}

// startExecutor starts the program on the state directory.
func (r *rig) startExecutor(args ...string) {
	r.t.Helper()
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(r.t, err)
	defer log.Close()
	p := exec.Command(filepath.Join(r.bin, "executor"), append([]string{"run", "--brain", "ws://" + r.dial + "/executor", "--state-dir", r.state,
		"--min-backoff", "50ms", "--max-backoff", "500ms", "--log-format", "json"}, args...)...)
	p.Dir = r.work
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "SHELL=/bin/sh", "TMPDIR=" + r.home}
	p.Stdout, p.Stderr = log, log
	r.started = r.logged()
	require.NoError(r.t, p.Start())
	ended := make(chan struct{})
	r.executor, r.ended = p, ended
	go func() {
		_ = p.Wait()
		close(ended)
	}()
}

func (r *rig) signal(s syscall.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.executor.Process.Signal(s))
}

// stopExecutor sends a signal and waits for the end.
func (r *rig) stopExecutor(s syscall.Signal) {
	r.t.Helper()
	r.signal(s)
	select {
	case <-r.ended:
	case <-time.After(60 * time.Second):
		r.t.Fatalf("the executor did not end on %v", s)
	}
	if s != syscall.SIGKILL {
		how := r.executor.ProcessState.Sys().(syscall.WaitStatus)
		early := how.Signaled() && how.Signal() == s && r.owed(r.started) < 0 // it did not handle signals yet
		require.True(r.t, how.ExitStatus() == 0 || early, "%v of an executor that was asked to end", r.executor.ProcessState)
	}
}

// logged is how long the log is.
func (r *rig) logged() int64 {
	info, err := os.Stat(r.log)
	require.NoError(r.t, err)
	return info.Size()
}

// owed is what the executor that registered behind that point of the log said it owed;
// -1 when there is none yet.
func (r *rig) owed(behind int64) int {
	raw, err := os.ReadFile(r.log)
	require.NoError(r.t, err)
	owed := -1
	for line := range strings.Lines(string(raw[behind:])) {
		var entry struct {
			Msg  string `json:"msg"`
			Owed int    `json:"results_owed"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "registered" {
			owed = entry.Owed
		}
	}
	return owed
}

// current is the session to work in; when it has ended another one is assigned, also by
// the next brain.
func (r *rig) current(ctx context.Context) (*brain.Session, error) {
	select {
	case r.assigned <- struct{}{}:
		defer func() { <-r.assigned }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		r.mu.Lock()
		b, s := r.serving, r.session
		r.mu.Unlock()
		if s != nil && s.Err() == nil {
			return s, nil
		}
		s, err := assign(ctx, b)
		switch {
		case err == nil:
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.serving == b {
				r.session = s
			}
			return s, nil
		case !errors.Is(err, brain.ErrClosed) && !errors.Is(err, brain.ErrForgotten):
			return nil, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func assign(ctx context.Context, b *brain.Brain) (*brain.Session, error) {
	x, err := b.WaitExecutor(ctx)
	if err != nil {
		return nil, err
	}
	return x.Assign(ctx, protocol.SessionAssignParams{})
}

// task is a call that is to be made.
type task struct {
	tool     string
	input    any
	effect   bool          // it adds its id to the counter
	cancelAt time.Duration // 0: it is not cancelled
	holds    string        // what the text of its result holds
}

// patience is how long a call may take at most, whatever happens to both ends.
const patience = 100 * time.Second

// make makes a call and waits for what becomes of it.
func (r *rig) make(id string, job task) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := r.open(id, job)
	s, err := r.current(ctx)
	if err != nil {
		r.close(c, nil, err)
		return
	}
	r.tell(eventSent)
	p, err := s.Start(ctx, protocol.ToolCallParams{ToolCallID: id, Tool: job.tool, Input: inputOf(job.input)})
	if err != nil {
		r.close(c, nil, err)
		return
	}
	c.accepted.Store(true)
	r.tell(eventAccepted)
	if job.cancelAt > 0 {
		after, cancel := context.WithTimeout(ctx, job.cancelAt)
		if _, err := p.Result(after); errors.Is(err, context.DeadlineExceeded) {
			_, _ = p.Cancel(ctx, "not wanted any more") // the result says what came of it
		}
		cancel()
	}
	result, err := p.Result(ctx)
	r.close(c, &result, err)
}

func inputOf(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// settle ends what a test has begun: nothing is wrong any more, and all that is owed
// has time to arrive.
func (r *rig) settle(workers *sync.WaitGroup) {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience + 10*time.Second):
		r.t.Fatal("a call hangs")
	}
	require.Eventually(r.t, func() bool {
		return slices.ContainsFunc(r.serving.Executors(), (*brain.Executor).Connected)
	}, 60*time.Second, 10*time.Millisecond, "the executor does not connect any more")
	r.stopExecutor(syscall.SIGTERM) // which delivers what is owed
	r.startExecutor()
	require.Eventually(r.t, func() bool { return r.owed(r.started) >= 0 }, 20*time.Second, 10*time.Millisecond, "the executor did not come back")
	require.Zero(r.t, r.owed(r.started), "results owed in the end")
}

// ledger is the results as a careful brain stores them, and the calls they belong to.
type ledger struct {
	counter string
	onPut   func()
	refuse  atomic.Bool // nothing is stored

	lock    sync.Mutex
	calls   map[string]*record
	stored  map[string]string // results by call, as JSON
	results map[string]protocol.ToolResultParams
	again   int // results that came more than once
	wrong   []string
}

// record is one call and what its caller was told.
type record struct {
	id       string
	job      task
	accepted atomic.Bool
	told     *protocol.ToolResultParams
	err      error
	ended    bool
}

func (l *ledger) Put(_ context.Context, p protocol.ToolResultParams) (fresh bool, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	if l.refuse.Load() {
		l.onPut()
		return false, errors.New("nothing is stored just now")
	}
	l.lock.Lock()
	before, known := l.stored[p.ToolCallID]
	switch {
	case known && before != string(raw):
		l.wrong = append(l.wrong, fmt.Sprintf("two results: %.300s\nand %.300s", before, raw))
	case known:
		l.again++
	case l.calls[p.ToolCallID] == nil:
		l.wrong = append(l.wrong, "a result of a call that was never made: "+p.ToolCallID)
	}
	if !known {
		l.stored[p.ToolCallID], l.results[p.ToolCallID] = string(raw), p
	}
	l.lock.Unlock()
	l.onPut()
	return !known, nil
}

func (l *ledger) open(id string, job task) *record {
	l.lock.Lock()
	defer l.lock.Unlock()
	c := &record{id: id, job: job}
	l.calls[id] = c
	return c
}

func (l *ledger) record(id string) *record {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.calls[id]
}

// ran counts how often a call's side effect is there.
func (l *ledger) ran(t *testing.T, id string) (n int) {
	t.Helper()
	raw, err := os.ReadFile(l.counter)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	for line := range strings.FieldsSeq(string(raw)) {
		if line == id {
			n++
		}
	}
	return n
}

func (l *ledger) close(c *record, told *protocol.ToolResultParams, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	c.ended, c.err = true, err
	if err == nil {
		c.told = told
	}
}

// audit compares what was asked for, what was told, what was stored and what was done.
// It returns how many calls had which fate.
func (l *ledger) audit(t *testing.T) map[string]int {
	t.Helper()
	l.lock.Lock()
	defer l.lock.Unlock()
	done := map[string]int{}
	raw, err := os.ReadFile(l.counter)
	require.NoError(t, err)
	for id := range strings.FieldsSeq(string(raw)) {
		done[id]++
	}
	fates := map[string]int{"calls": len(l.calls), "results that came again": l.again}
	wrong := slices.Clone(l.wrong)
	for id, c := range l.calls {
		r, stored := l.results[id]
		fault := c.check(done[id], r, stored)
		if fault == "" && c.told != nil && string(inputOf(c.told)) != l.stored[id] {
			fault = "its caller was told otherwise than what was stored"
		}
		if fault != "" {
			wrong = append(wrong, fmt.Sprintf("call %s (%s): %s; ran %d times; told error: %v; stored: %.300s", id, c.job.tool, fault, done[id], c.err, l.stored[id]))
		}
		fate := "no result: " + reasonOf(c.err)
		if stored {
			fate = r.Outcome
			if r.Error != nil {
				fate += " " + r.Error.Reason
			}
		}
		fates[fate]++
		delete(done, id)
	}
	require.Empty(t, done, "side effects of calls that were never made")
	slices.Sort(wrong)
	require.Empty(t, wrong[:min(len(wrong), 10)], "%d faults; the first", len(wrong))
	return fates
}

// check says what is wrong with a call.
func (c *record) check(ran int, r protocol.ToolResultParams, stored bool) string {
	switch {
	case ran > 1:
		return "it ran more than once"
	case !c.ended:
		return "its caller still waits"
	case reasonOf(c.err) == "":
		return "its caller was told an error without a name"
	case c.accepted.Load() && !stored:
		return "it was accepted, and its result was lost"
	case c.told != nil && !stored:
		return "its caller was told a result that was never stored"
	case !stored && ran > 0:
		return "it ran, and nobody was told"
	case stored && c.told == nil && c.err == nil:
		return "its caller was told nothing"
	case stored && r.Outcome == protocol.OutcomeSucceeded && c.job.effect && ran != 1:
		return "it is said to have succeeded, and did not run"
	case stored && r.Outcome == protocol.OutcomeSucceeded && !holds(r, c.job.holds):
		return "it is said to have succeeded, and its result is another one"
	}
	return ""
}

func holds(r protocol.ToolResultParams, text string) bool {
	return slices.ContainsFunc(r.Content, func(c protocol.Content) bool { return strings.Contains(c.Text, text) })
}

// reasonOf is the name of an error; "" when it has none a caller could act on.
func reasonOf(err error) string {
	var e *protocol.Error
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &e):
		return e.Reason()
	case errors.Is(err, brain.ErrClosed):
		return "brain closed"
	case errors.Is(err, brain.ErrForgotten):
		return "executor forgotten"
	case errors.Is(err, rpc.ErrClosed):
		return "connection closed"
	}
	return ""
}

// told is a summary of fates, in order.
func told(fates map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(fates)) {
		parts = append(parts, fmt.Sprintf("%s: %d", k, fates[k]))
	}
	return strings.Join(parts, ", ")
}

// seeded are random numbers that can be had again: by EXECUTOR_SEED, which is printed.
func seeded(t *testing.T) (seed uint64, stream func(n uint64) *rand.Rand) {
	t.Helper()
	seed = rand.Uint64N(1_000_000)
	if text := os.Getenv("EXECUTOR_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "EXECUTOR_SEED")
	}
	t.Logf("EXECUTOR_SEED=%d", seed)
	return seed, func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
}

func span(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
