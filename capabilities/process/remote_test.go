//go:build unix

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/process"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// remote is a real executor with the capability and a real brain, over a network that can be cut.
type remote struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	faults *rpctest.Faults
	ex     *executor.Executor
	*brain.Session
}

func newRemote(t *testing.T, o process.Options, handle ...func(*rpc.Mux)) *remote {
	t.Helper()
	o.LoginEnv = map[string]string{}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r := &remote{t: t, ctx: ctx, dir: t.TempDir(), faults: rpctest.NewFaults()}
	network := rpctest.Listen()
	b := brain.New(brain.Options{HeartbeatInterval: time.Second, Handle: func(x *rpc.Mux) {
		for _, h := range handle {
			h(x)
		}
	}})
	server := &http.Server{Handler: b}
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(network) })

	ex, err := executor.New(executor.Options{
		Name: "test", Workspace: executor.Workspace{Roots: []capabilities.Root{{Path: r.dir}}},
		Dial: func(ctx context.Context, _ string) (rpc.Frames, error) {
			return r.faults.Dial(ctx, "ws://brain/", network.DialOptions())
		},
		MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	require.NoError(t, ex.Register(process.New(o)))
	r.ex = ex
	run, leave := context.WithCancel(context.Background())
	work.Go(func() { assert.NoError(t, ex.Run(run)) })
	t.Cleanup(func() {
		leave()
		r.faults.CutNow()
		assert.NoError(t, b.Close("test ends"))
		_ = server.Close()
		_ = network.Close()
		work.Wait()
		cancel()
	})
	x, err := b.WaitExecutor(ctx)
	require.NoError(t, err)
	r.Session, err = x.Assign(ctx, protocol.SessionAssignParams{})
	require.NoError(t, err)
	return r
}

func (r *remote) start(p protocol.ProcessStartParams) *brain.Process {
	r.t.Helper()
	x, err := r.Process(r.ctx, p)
	require.NoError(r.t, err)
	return x
}

func script(text string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{Argv: []string{"bash", "-c", text}}
}

// cutting cuts the connection again and again until the test is through with it, each a while after it
// was made: a slow machine gets something done too.
func (r *remote) cutting(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(every):
				if r.ex.Status().ConnectionID != "" {
					r.faults.CutNow()
				}
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); work.Wait() }
}

func TestRemote(t *testing.T) {
	r := newRemote(t, process.Options{})
	x := r.start(script(`echo out; echo err >&2; exit 3`))
	out, err := io.ReadAll(x)
	require.NoError(t, err)
	assert.Equal(t, "out\n", string(out))
	errs, err := io.ReadAll(x.Stderr())
	require.NoError(t, err)
	assert.Equal(t, "err\n", string(errs))
	state, err := x.Wait(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, 3, *state.ExitCode)
	assert.NotZero(t, state.PID)
	<-x.Ended()
	n, err := x.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, io.EOF)

	_, err = r.Process(r.ctx, protocol.ProcessStartParams{Argv: []string{"no-such-program"}})
	var refused *protocol.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, protocol.ReasonSpawnFailed, refused.Reason())
}

// There and back over a connection that is cut all the time: every byte once, in order (cases 25, 112).
func TestRemoteOverCuts(t *testing.T) {
	r := newRemote(t, process.Options{BufferBytes: 100_000})
	p := protocol.ProcessStartParams{Argv: []string{"cat"}, Stdin: protocol.StdinOpen, OnFull: protocol.OnFullBlock}
	x := r.start(p)
	want := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(want)
	stop := r.cutting(15 * time.Millisecond)
	defer stop()
	var work sync.WaitGroup
	work.Go(func() {
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(150_000))
			if _, err := x.Write(rest[:n]); !assert.NoError(t, err) {
				return
			}
			rest = rest[n:]
		}
		assert.NoError(t, x.Close())
		assert.NoError(t, x.Close())
	})
	got, err := io.ReadAll(x)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "%d bytes of %d", len(got), len(want))
	work.Wait()
	_, err = x.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	state, err := x.Wait(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, 0, *state.ExitCode)
}

// A process is started once, and its end is known, whatever message is lost with the connection.
func TestRemoteLostMessages(t *testing.T) {
	for name, rule := range map[string]rpctest.Rule{
		"start":         {Method: protocol.ProcessStart.Name, Do: rpctest.CutBefore},
		"start, behind": {Method: protocol.ProcessStart.Name, Do: rpctest.CutAfter},
		"its answer":    {Method: protocol.ProcessStart.Name, Answer: true, Do: rpctest.CutBefore},
		"read":          {Method: protocol.ProcessRead.Name, Answer: true, Do: rpctest.CutBefore},
		"start, twice":  {Method: protocol.ProcessStart.Name, Do: rpctest.Repeat},
		"status":        {Method: protocol.ProcessStatus.Name, Do: rpctest.CutBefore},
		"status, lost":  {Method: protocol.ProcessStatus.Name, Do: rpctest.Drop},
		"terminate":     {Method: protocol.ProcessTerminate.Name, Answer: true, Do: rpctest.CutBefore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, process.Options{})
			r.faults.Add(rule)
			x := r.start(script(`echo run >> counter; echo ready; sleep 700`))
			buf := make([]byte, 6)
			_, err := io.ReadFull(x, buf)
			require.NoError(t, err)
			grace := int64(0)
			if name != "status" && name != "status, lost" {
				_, err = x.Terminate(r.ctx, &grace)
				require.NoError(t, err)
			} else {
				require.NoError(t, x.Interrupt(r.ctx))
			}
			state, err := x.Wait(r.ctx)
			require.NoError(t, err)
			assert.Equal(t, protocol.ProcessKilled, state.State)
			text, err := os.ReadFile(filepath.Join(r.dir, "counter"))
			require.NoError(t, err)
			assert.Equal(t, "run\n", string(text))
		})
	}
}

// Who reads too slowly is told what is lost, and goes on behind it.
func TestRemoteGap(t *testing.T) {
	r := newRemote(t, process.Options{BufferBytes: 4096})
	x := r.start(script(`echo begin; seq 1 100000`))
	_, err := x.Wait(r.ctx)
	require.NoError(t, err)
	n, err := x.Read(make([]byte, 100))
	var gap *brain.GapError
	require.ErrorAs(t, err, &gap)
	assert.Zero(t, n)
	assert.Zero(t, gap.From)
	rest, err := io.ReadAll(x)
	require.NoError(t, err)
	assert.Len(t, rest, 4096)
	assert.True(t, strings.HasSuffix(string(rest), "100000\n"))
	assert.Contains(t, gap.Error(), fmt.Sprintf("%d bytes of stdout", gap.To))
}

func TestRemoteSessionEnds(t *testing.T) {
	r := newRemote(t, process.Options{})
	p := script(`sleep 700`)
	p.Stdin = protocol.StdinOpen
	x := r.start(p)
	reads := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(x.Stderr())
		reads <- err
	}()
	require.NoError(t, r.Stop(r.ctx, "enough"))
	if err := <-reads; err != nil { // or the end of the stream came first
		assert.ErrorIs(t, err, protocol.ErrSessionNotActive)
	}
	// The process.status is sent before the end of the session, but may be handled behind it.
	if state, err := x.Wait(r.ctx); err != nil {
		assert.ErrorIs(t, err, protocol.ErrSessionNotActive)
	} else {
		assert.Equal(t, "session_ended", state.Reason)
	}
	_, err := x.Write([]byte("x"))
	assert.ErrorIs(t, err, protocol.ErrSessionNotActive)
	_, err = r.Process(r.ctx, p)
	assert.ErrorIs(t, err, protocol.ErrSessionNotActive)
}

// Reading ends with the context, the process does not.
func TestRemoteContext(t *testing.T) {
	r := newRemote(t, process.Options{})
	ctx, cancel := context.WithCancel(r.ctx)
	x, err := r.Process(ctx, script(`sleep 700`))
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = x.Read(make([]byte, 1))
	assert.ErrorIs(t, err, context.Canceled)
	_, err = x.Wait(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	list, err := brain.Do(r.ctx, r.Executor(), protocol.ProcessList, protocol.ProcessListParams{SessionID: r.ID()})
	require.NoError(t, err)
	assert.Equal(t, protocol.ProcessRunning, list.Processes[0].State)
}

func TestRemotePTY(t *testing.T) {
	r := newRemote(t, process.Options{})
	var details protocol.ProcessDetails
	there, err := r.Executor().Capabilities().Get(protocol.CapabilityProcess, &details)
	require.NoError(t, err)
	require.True(t, there)
	if !details.PTY {
		t.Skip("this machine gives out no PTY")
	}
	p := script(`stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done`)
	p.IOMode, p.Cols, p.Rows = protocol.IOModePTY, 90, 30
	x := r.start(p)
	got := make([]byte, len("30 90\r\nready\r\n"))
	_, err = io.ReadFull(x, got)
	require.NoError(t, err)
	require.NoError(t, x.Resize(r.ctx, 100, 40))
	rest, err := io.ReadAll(x)
	require.NoError(t, err)
	assert.Equal(t, "30 90\r\nready\r\n40 100\r\n", string(got)+string(rest))
	state, err := x.Wait(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, 4, *state.ExitCode)
}

// A drain waits for a process, whose output can be read meanwhile; none is started any more.
func TestRemoteDrain(t *testing.T) {
	r := newRemote(t, process.Options{})
	x := r.start(script(`echo ready; while [ ! -e go ]; do sleep 0.02; done; echo done`))
	_, err := io.ReadFull(x, make([]byte, 6))
	require.NoError(t, err)
	_, err = r.Executor().Drain(r.ctx, protocol.DrainParams{Reason: "update", DeadlineMS: 60_000})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = r.Process(ctx, script(`true`))
	require.Error(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
	state, err := x.Wait(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, 0, *state.ExitCode)
}

// What is pushed over a connection that is cut: who finds a piece missing subscribes again.
func TestRemotePush(t *testing.T) {
	pieces := make(chan protocol.ProcessOutputParams, 1000)
	r := newRemote(t, process.Options{}, func(x *rpc.Mux) {
		rpc.HandleNotification(x, protocol.ProcessOutput, func(_ context.Context, p protocol.ProcessOutputParams) {
			p.Data = bytes.Clone(p.Data)
			pieces <- p
		})
	})
	p := protocol.ProcessStartParams{Argv: slowly("line $_", 0.01)}
	p.OnFull = protocol.OnFullBlock
	x := r.start(p)
	stop := r.cutting(100 * time.Millisecond)
	defer stop()
	var got []byte
	subscribe := func() {
		for r.ctx.Err() == nil {
			_, err := brain.Do(r.ctx, r.Executor(), protocol.ProcessSubscribe, protocol.ProcessSubscribeParams{
				SessionID: r.ID(), ProcessID: x.ID(), Cursor: int64(len(got)), WindowBytes: 4096})
			if err == nil {
				return
			}
		}
	}
	subscribe()
	for {
		select {
		case p := <-pieces:
			switch at := int64(len(got)); {
			case p.Cursor > at:
				subscribe()
				continue
			case p.Cursor+int64(len(p.Data)) > at:
				got = append(got, p.Data[at-p.Cursor:]...)
			}
			if p.EOF {
				var want strings.Builder
				for i := range 100 {
					fmt.Fprintf(&want, "line %d\n", i+1)
				}
				assert.Equal(t, want.String(), string(got))
				return
			}
			_ = r.ack(x, int64(len(got)))
		case <-time.After(300 * time.Millisecond): // the last piece or its acknowledgement is lost
			subscribe()
		case <-r.ctx.Done():
			t.Fatal("the end did not come")
		}
	}
}

func (r *remote) ack(x *brain.Process, cursor int64) error {
	return brain.Notify(r.ctx, r.Executor(), protocol.ProcessAck, protocol.ProcessAckParams{SessionID: r.ID(), ProcessID: x.ID(), Cursor: cursor})
}

// slowly prints a line a hundred times, with the number for $_, and waits after each.
func slowly(line string, seconds float64) []string {
	return []string{"perl", "-e", fmt.Sprintf(`$| = 1; for (1..100) { print "%s\n"; select(undef, undef, undef, %v) }`, line, seconds)}
}
