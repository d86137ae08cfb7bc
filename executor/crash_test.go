package executor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// crashing is what an executor that will be killed is told, in EXECUTOR_CRASH.
type crashing struct{ URL, State, Work string }

// crashExecutor is the other process. Each run of its tool and each start of a session
// appends a line to a file in the workspace. It ends with its standard input.
func crashExecutor(told string) {
	var c crashing
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		panic(err)
	}
	note := func(name, line string) error {
		f, err := os.OpenFile(filepath.Join(c.Work, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.WriteString(line + "\n")
			_ = f.Close()
		}
		return err
	}
	ex, err := New(Options{URL: c.URL, StateDir: c.State, MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		Workspace: Workspace{Roots: []capabilities.Root{{Path: c.Work}}}})
	if err == nil {
		err = ex.Register(
			tool("count", func(_ context.Context, c *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.Text("counted"), note("counter", c.ID())
			}),
			&hooks{name: "hooks", start: func(_ context.Context, s *capabilities.Session) error { return note("starts", s.ID()) }},
		)
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

// site is a brain, and an executor in a process of its own that can be killed.
type site struct {
	t *testing.T
	*brain.Brain
	crashing
	child *exec.Cmd
	stdin io.Closer
}

func newSite(t *testing.T) *site {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &site{t: t, Brain: brain.New(brain.Options{}),
		crashing: crashing{URL: "ws://" + l.Addr().String() + "/", State: t.TempDir(), Work: t.TempDir()}}
	server := &http.Server{Handler: s.Brain}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	s.start()
	t.Cleanup(func() {
		_ = s.stdin.Close()
		_ = s.child.Wait()
		_ = s.Close("test ends")
		_ = server.Close()
		served.Wait()
	})
	return s
}

func (s *site) start() {
	told, err := json.Marshal(s.crashing)
	require.NoError(s.t, err)
	s.child = exec.Command(os.Args[0])
	s.child.Env = append(os.Environ(), "EXECUTOR_CRASH="+string(told))
	s.child.Stderr = os.Stderr
	s.stdin, err = s.child.StdinPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.child.Start())
}

// kill kills the executor as kill -9 does, and starts another one.
func (s *site) kill() {
	require.NoError(s.t, s.child.Process.Kill())
	_ = s.child.Wait()
	_ = s.stdin.Close()
	s.start()
}

func (s *site) lines(name string) []string {
	raw, err := os.ReadFile(filepath.Join(s.Work, name))
	require.NoError(s.t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// needsJournal skips a test while calls are not kept over a restart.
func (s *site) needsJournal() {
	entries, err := os.ReadDir(s.State)
	require.NoError(s.t, err)
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), "state.") }) {
		s.t.Skip("calls are not kept over a restart")
	}
}

// A session lives on over kill -9, and is prepared once by each process.
func TestKilled(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := s.WaitExecutor(ctx)
	require.NoError(t, err)
	p := protocol.SessionAssignParams{SessionID: "s1", WorkID: "w1"}
	session, err := x.Assign(ctx, p)
	require.NoError(t, err)
	for n := range 4 {
		r, err := session.Call(ctx, "count", nil)
		require.NoError(t, err)
		require.Equal(t, "counted", text(r))
		same, err := x.Assign(ctx, p)
		require.NoError(t, err)
		require.Same(t, session, same)
		require.Len(t, s.lines("starts"), n+1)
		s.kill()
	}
	require.NoError(t, session.Err())
	require.NoError(t, session.Stop(ctx, "done"))
	require.Len(t, s.lines("starts"), 5)
	require.Len(t, s.Executors(), 1)
}

// A call that is delivered again after kill -9 has its stored result, and does not run
// again (case 108).
func TestKilledAndDeliveredAgain(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := s.WaitExecutor(ctx)
	require.NoError(t, err)
	session, err := x.Assign(ctx, protocol.SessionAssignParams{})
	require.NoError(t, err)
	for range 3 {
		c, err := session.Start(ctx, protocol.ToolCallParams{ToolCallID: "X", Tool: "count"})
		require.NoError(t, err)
		r, err := c.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "counted", text(r))
		s.needsJournal()
		s.kill()
	}
	require.Equal(t, []string{"X"}, s.lines("counter"))
}

// Killed again and again at any moment: what the brain was told holds, every file is
// whole, and nothing piles up (cases 134, 135). 9 times, and with EXECUTOR_STRESS 30.
func TestKilledAtAnyMoment(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x, err := s.WaitExecutor(ctx)
	require.NoError(t, err)
	_, err = x.Assign(ctx, protocol.SessionAssignParams{SessionID: "first"}) // its identity is recorded with it
	require.NoError(t, err)
	over := make(chan struct{})
	var done atomic.Int32
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				session, err := x.Assign(ctx, protocol.SessionAssignParams{})
				if err == nil {
					err = session.Stop(ctx, "done")
				}
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	var written [2]bool // from its first time on a file is there
	kills := 9
	if os.Getenv("EXECUTOR_STRESS") != "" {
		kills = 30
	}
	for n := range kills {
		if n%3 != 0 {
			_, err := s.WaitExecutor(ctx)
			require.NoError(t, err)
		}
		wait := time.NewTimer(time.Duration(rand.IntN(60)) * time.Millisecond)
		<-wait.C
		s.kill()
		for i, name := range []string{"state.json", "state.copy.json"} { // each, whenever the other is in doubt
			raw, err := os.ReadFile(filepath.Join(s.State, name))
			if errors.Is(err, fs.ErrNotExist) && !written[i] {
				continue
			}
			require.NoError(t, err)
			written[i] = true
			require.True(t, json.Valid(raw), name)
			require.Equal(t, 1, bytes.Count(raw, []byte(`"sha256"`)))
		}
	}
	close(over)
	all.Wait()
	require.Len(t, x.Sessions(), 1) // the first
	require.Len(t, s.Executors(), 1)
	entries, err := os.ReadDir(s.State)
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), 6)
	t.Logf("%d sessions over %d kills", done.Load(), kills)
}
