package cli

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/executor"
)

// serveControl answers at the control socket of a directory until the test ends.
func serveControl(t *testing.T, dir string, h http.HandlerFunc) *ControlListener {
	t.Helper()
	l, err := ListenControl(dir)
	require.NoError(t, err)
	limit := &Limit{Max: MaxControlConns}
	server := limit.Guard(&http.Server{Handler: h})
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(limit.Listen(l)) })
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
	})
	return l
}

func hello(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, "hello") }

func TestControlSocketIsPrivate(t *testing.T) {
	dir := t.TempDir()
	// What a program left that was killed, in the middle of making its socket too.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: ControlSocket(dir), Net: "unix"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	require.NoError(t, os.MkdirAll(filepath.Join(dir, controlNew, "s"), 0o700))

	l := serveControl(t, dir, hello)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(ControlSocket(dir))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	var said string
	require.NoError(t, (&Client{Program: "prog", Dir: dir}).Do(t.Context(), http.MethodGet, "/", nil, &said))
	assert.Equal(t, "hello", said)
	require.NoError(t, l.Check())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing else is left")

	// Somebody else's socket in its place stays.
	require.NoError(t, os.Remove(ControlSocket(dir)))
	require.ErrorIs(t, l.Check(), os.ErrNotExist)
	other := serveControl(t, dir, hello)
	require.ErrorContains(t, l.Check(), "replaced")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.NoError(t, other.Check())
	require.NoError(t, other.Close())
	assert.NoFileExists(t, ControlSocket(dir))
}

func TestControlSocketOfALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), strings.Repeat("long", 30))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if runtime.GOOS != "linux" {
		_, err := ListenControl(dir)
		assert.ErrorContains(t, err, "name a shorter --state-dir")
		assert.Equal(t, ExitUsage, Code(err))
		return
	}
	serveControl(t, dir, hello)
	var said string
	require.NoError(t, (&Client{Program: "prog", Dir: dir}).Do(t.Context(), http.MethodGet, "/", nil, &said))
	assert.Equal(t, "hello", said)
}

func TestControlSocketReplacesNothingElse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(ControlSocket(dir), nil, 0o600))
	_, err := ListenControl(dir)
	assert.ErrorContains(t, err, "is no socket; remove it")
	assert.FileExists(t, ControlSocket(dir))
	_, err = ListenControl(filepath.Join(dir, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestPeer(t *testing.T) {
	dir := t.TempDir()
	l, err := ListenControl(dir)
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("unix", ControlSocket(dir))
	require.NoError(t, err)
	defer c.Close()
	in, err := l.Accept()
	require.NoError(t, err)
	defer in.Close()
	peer, ok := PeerOf(in)
	if runtime.GOOS == "linux" {
		require.True(t, ok)
		assert.Equal(t, Peer{UID: os.Geteuid(), PID: os.Getpid()}, peer)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	_, ok = PeerOf(a)
	assert.False(t, ok)
	assert.False(t, PeerLeft(a))
	if runtime.GOOS == "linux" {
		assert.False(t, PeerLeft(in))
		_, err = c.Write([]byte("there is something to read yet"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		assert.True(t, PeerLeft(in))
		require.NoError(t, in.Close())
		assert.True(t, PeerLeft(in))
	}
}

func TestClientExplains(t *testing.T) {
	dir := t.TempDir()
	c := &Client{Program: "prog", Start: "prog run", Dir: dir}
	err := c.Do(t.Context(), http.MethodGet, "/", nil, nil)
	var none *NotRunningError
	require.ErrorAs(t, err, &none)
	assert.EqualError(t, err, "no prog runs with the state directory "+dir+"; start one with prog run, or name its --state-dir")

	lock, err := executor.LockDir(dir)
	require.NoError(t, err)
	err = c.Do(t.Context(), http.MethodGet, "/", nil, nil)
	assert.ErrorContains(t, err, "has no control socket just now")
	assert.Regexp(t, `prog with pid \d+ uses`, err.Error())
	require.NoError(t, lock.Close())

	serveControl(t, dir, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			Answer(w, http.StatusUnprocessableEntity, AnswerError{Error: "not so"})
		case "/odd":
			w.WriteHeader(http.StatusTeapot)
		case "/hang":
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte("no json"))
		}
	})
	assert.EqualError(t, c.Do(t.Context(), http.MethodPost, "/refused", 1, nil), "not so")
	assert.EqualError(t, c.Do(t.Context(), http.MethodGet, "/odd", nil, nil), "the prog answered 418 I'm a teapot")
	var v any
	assert.ErrorContains(t, c.Do(t.Context(), http.MethodGet, "/", nil, &v), "the prog's answer: ")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, c.Do(ctx, http.MethodGet, "/hang", nil, nil), context.DeadlineExceeded)
	c.Patience = 20 * time.Millisecond
	assert.ErrorContains(t, c.Do(t.Context(), http.MethodGet, "/hang", nil, nil), "it may be stuck")
}
