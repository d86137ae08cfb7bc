//go:build unix

package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

const doorToken = "the-token-of-the-door"

// listening is an executor at whose socket the brain dials, in earnest time.
type listening struct {
	t    *testing.T
	path string
	*Executor
	ran chan error
}

func listen(t *testing.T, path string, caps ...capabilities.Capability) *listening {
	t.Helper()
	l := &listening{t: t, path: path, ran: make(chan error, 1)}
	var err error
	l.Executor, err = New(Options{URL: "unix+listen://" + path, Workspace: Workspace{Roots: []capabilities.Root{{Path: t.TempDir()}}},
		Token: func(context.Context) (string, error) { return doorToken, nil }})
	require.NoError(t, err)
	require.NoError(t, l.Register(caps...))
	ctx, leave := context.WithCancel(context.Background())
	go func() { l.ran <- l.Run(ctx) }()
	t.Cleanup(func() {
		leave()
		<-l.ran
		close(l.ran)
	})
	return l
}

// exists waits for the socket.
func (l *listening) exists() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		c, err := net.Dial("unix", l.path)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "door") // short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// cable is what a brain dials over, and can be cut.
type cable struct {
	mu   sync.Mutex
	conn net.Conn
}

func (c *cable) options(path string) rpc.DialOptions {
	return rpc.DialOptions{Token: doorToken, NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conn = conn
		return conn, err
	}}
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.Close()
}

// The brain dials the executor's socket: the same register, session and calls; the
// cable is cut while a call runs, the brain dials again, and the result comes once.
func TestTheBrainDials(t *testing.T) {
	h := hold()
	l := listen(t, socketPath(t), h, hello())
	l.exists()
	info, err := os.Stat(l.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	stored := newStored()
	b := brain.New(brain.Options{Results: stored})
	ctx, leave := context.WithCancel(t.Context())
	var ca cable
	var errs []error
	var dialling sync.WaitGroup
	dialling.Go(func() {
		for ctx.Err() == nil {
			if err := b.Dial(ctx, "ws://localhost/executor", brain.Principal{Name: "n"}, ca.options(l.path)); err != nil {
				errs = append(errs, err)
			}
		}
	})
	x, err := b.WaitExecutor(ctx)
	require.NoError(t, err)
	s, err := x.Assign(ctx, protocol.SessionAssignParams{})
	require.NoError(t, err)
	_, err = s.Call(ctx, "hello", nil)
	require.NoError(t, err)
	c, err := s.Start(ctx, protocol.ToolCallParams{Tool: "hold"})
	require.NoError(t, err)
	before := l.Status().ConnectionID
	ca.cut()
	require.Eventually(t, func() bool {
		st := l.Status()
		return st.State == StateReady && st.ConnectionID != before
	}, 10*time.Second, time.Millisecond)
	close(h.release)
	r, err := c.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "released", text(r))
	require.EqualValues(t, 1, h.started.Load())
	require.Len(t, stored.stored(), 2)
	require.Len(t, l.Status().Sessions, 1)

	// One connection at a time; others wait. Who has no token does not come in.
	var dial *rpc.DialError
	require.ErrorAs(t, b.Dial(ctx, "unix://"+l.path, brain.Principal{}, rpc.DialOptions{Token: doorToken}), &dial)
	require.Equal(t, http.StatusServiceUnavailable, dial.Status)
	require.Equal(t, time.Second, dial.RetryAfter)
	for _, token := range []string{"", "another", doorToken + "x"} {
		require.ErrorAs(t, b.Dial(ctx, "unix://"+l.path, brain.Principal{}, rpc.DialOptions{Token: token}), &dial)
		require.Equal(t, http.StatusUnauthorized, dial.Status)
	}
	leave()
	dialling.Wait()
	require.ErrorContains(t, errs[0], "closed network connection") // that of the cut
	for _, err := range errs[1:] {                                 // until the executor had noticed it
		require.True(t, errors.As(err, &dial) && dial.Status == http.StatusServiceUnavailable, err)
	}
	require.NoError(t, b.Close("test ends"))
	require.ErrorIs(t, b.Dial(t.Context(), "unix://"+l.path, brain.Principal{}, rpc.DialOptions{Token: doorToken}), brain.ErrClosed)

	// It leaves as any executor does, and takes its socket with it.
	require.NoError(t, l.Drain(t.Context()))
	require.Eventually(t, func() bool { return l.Status().State == StateStopped }, 10*time.Second, time.Millisecond)
	_, err = os.Lstat(l.path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The socket of a process that died is replaced, one that somebody listens at is not,
// and neither is anything else.
func TestTheDoorIsTaken(t *testing.T) {
	path := socketPath(t)
	dead, err := net.Listen("unix", path)
	require.NoError(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	l := listen(t, path, hello())
	l.exists()

	second, err := New(Options{URL: "unix+listen://" + path, Token: func(context.Context) (string, error) { return doorToken, nil }})
	require.NoError(t, err)
	require.ErrorContains(t, second.Run(t.Context()), "another process listens at "+path)
	l.exists()

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	for path, says := range map[string]string{file: "is no socket", filepath.Join(file, "below"): "not a directory"} {
		e, err := New(Options{URL: "unix+listen://" + path, Token: func(context.Context) (string, error) { return doorToken, nil }})
		require.NoError(t, err)
		require.ErrorContains(t, e.Run(t.Context()), says)
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(kept))

	_, err = New(Options{URL: "unix+listen://" + path})
	require.ErrorContains(t, err, "a token is required to listen")
	for _, scheme := range []string{"unix+listen", "unix"} {
		_, err = New(Options{URL: scheme + "://" + fmt.Sprintf("/%0103d", 1), Token: func(context.Context) (string, error) { return doorToken, nil }})
		require.ErrorContains(t, err, "the path is longer than the 103 bytes a socket's may have; use a shorter one")
	}
	_, err = New(Options{URL: "unix+listen://host/x"})
	require.ErrorContains(t, err, "want unix+listen:///absolute/path")
}

// A socket that was removed, or another file put in its place, is made anew soon after:
// while nobody is there, and when the brain that was there leaves.
func TestTheDoorIsRemoved(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path, hello())
	l.exists()
	began := time.Now()
	require.NoError(t, os.Remove(path))
	l.exists()
	require.Less(t, time.Since(began), 5*time.Second)

	b := brain.New(brain.Options{})
	var ca cable
	ended := make(chan error, 1)
	go func() { ended <- b.Dial(t.Context(), "ws://localhost/executor", brain.Principal{}, ca.options(path)) }()
	_, err := b.WaitExecutor(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	ca.cut()
	require.Error(t, <-ended)
	l.exists()
	require.NoError(t, b.Close("test ends"))
}

// What else may knock: no HTTP, no upgrade, and a peer of another version. The door
// stays open for the brain.
func TestStrangersAtTheDoor(t *testing.T) {
	l := listen(t, socketPath(t), hello())
	l.exists()
	raw, err := net.Dial("unix", l.path)
	require.NoError(t, err)
	_, _ = io.WriteString(raw, "hello?\r\n\r\n")
	_, _ = io.ReadAll(raw)
	_ = raw.Close()
	half, err := net.Dial("unix", l.path) // and says nothing
	require.NoError(t, err)
	defer half.Close()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.path)
	}}}
	for _, token := range []string{"", "Bearer " + doorToken} {
		r, err := http.NewRequest(http.MethodGet, "http://localhost/executor", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", token)
		answer, err := web.Do(r)
		require.NoError(t, err)
		_ = answer.Body.Close()
		require.GreaterOrEqual(t, answer.StatusCode, 400)
	}
	_, err = rpc.Dial(t.Context(), "unix://"+l.path, rpc.DialOptions{Token: doorToken, Subprotocols: []string{"executor.v9"}})
	require.ErrorIs(t, err, protocol.ErrUnsupportedProtocol)

	b := brain.New(brain.Options{})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := errors.New("not dialled")
		for err != nil && ctx.Err() == nil { // the stranger may still be leaving
			err = b.Dial(ctx, "unix://"+l.path, brain.Principal{}, rpc.DialOptions{Token: doorToken})
		}
		ended <- err
	}()
	x, err := b.WaitExecutor(ctx)
	require.NoError(t, err)
	s, err := x.Assign(ctx, protocol.SessionAssignParams{})
	require.NoError(t, err)
	_, err = s.Call(ctx, "hello", nil)
	require.NoError(t, err)
	leave()
	require.NoError(t, <-ended)
	require.NoError(t, b.Close("test ends"))
}
