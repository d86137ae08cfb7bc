//go:build unix

package rpc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func listenAt(t *testing.T, path string, token func(context.Context) (string, error)) *Listener {
	t.Helper()
	l, err := Listen(path, ListenOptions{Token: token})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func aToken(context.Context) (string, error) { return "a-token", nil }

func shortPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// A connection over the socket; the next is let in when it has ended, at either end.
func TestListen(t *testing.T) {
	path := shortPath(t)
	l := listenAt(t, path, aToken)
	for range 3 {
		type accepted struct {
			f   Frames
			err error
		}
		got := make(chan accepted, 1)
		go func() {
			f, err := l.Accept(t.Context())
			got <- accepted{f, err}
		}()
		near, err := Dial(t.Context(), "unix://"+path, DialOptions{Token: "a-token"})
		require.NoError(t, err)
		far := <-got
		require.NoError(t, far.err)
		require.NoError(t, near.WriteFrame(t.Context(), []byte(`"hello"`)))
		frame, err := far.f.ReadFrame(t.Context())
		require.NoError(t, err)
		require.Equal(t, `"hello"`, string(frame))
		_, err = Dial(t.Context(), "unix://"+path, DialOptions{Token: "a-token"})
		var dial *DialError
		require.True(t, errors.As(err, &dial) && dial.Status == 503 && dial.RetryAfter == time.Second, err)
		var ends sync.WaitGroup
		ends.Go(func() { _, _ = far.f.ReadFrame(context.Background()) })
		ends.Go(func() { _, _ = near.ReadFrame(context.Background()) })
		ends.Go(func() { _ = near.Close(1000, "") })
		ends.Wait()
		require.NoError(t, far.f.Close(1000, ""))
	}
}

// One that nobody takes is sent away again, and makes room.
func TestListenNobodyAccepts(t *testing.T) {
	path := shortPath(t)
	listenAt(t, path, aToken)
	for n := 0; n < 2; {
		f, err := Dial(t.Context(), "unix://"+path, DialOptions{Token: "a-token"})
		var busy *DialError
		if errors.As(err, &busy) { // the last one is just leaving
			require.Equal(t, 503, busy.Status)
			continue
		}
		require.NoError(t, err)
		_, err = f.ReadFrame(t.Context())
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, "retry-after=1", closed.Reason)
		_ = f.Close(1000, "")
		n++
	}
}

// A token that cannot be read lets nobody in, and neither does an empty one.
func TestListenWithoutAToken(t *testing.T) {
	_, err := Listen(shortPath(t), ListenOptions{})
	require.ErrorContains(t, err, "a token is required")
	for _, source := range []func(context.Context) (string, error){
		func(context.Context) (string, error) { return "", nil },
		func(context.Context) (string, error) { return "x", errors.New("away: secret") },
	} {
		path := shortPath(t)
		l := listenAt(t, path, source)
		for _, token := range []string{"", "x"} {
			_, err = Dial(t.Context(), "unix://"+path, DialOptions{Token: token})
			var dial *DialError
			require.True(t, errors.As(err, &dial) && dial.Status == 503, err)
			require.NotContains(t, err.Error(), "secret")
		}
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
	}
}

// A socket whose file was removed, or replaced by another's, is noticed, and Close
// leaves alone what is not its own.
func TestListenSocketGone(t *testing.T) {
	path := shortPath(t)
	l := listenAt(t, path, aToken)
	l.look = time.Millisecond
	require.NoError(t, os.Remove(path))
	_, err := l.Accept(t.Context())
	require.ErrorIs(t, err, ErrSocketGone)
	other := listenAt(t, path, aToken)
	_, err = l.Accept(t.Context())
	require.ErrorIs(t, err, ErrSocketGone)
	require.NoError(t, l.Close())
	_, err = l.Accept(t.Context())
	require.Error(t, err)
	_, err = os.Lstat(path)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = listenAt(t, path, aToken).Accept(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// Many that find the same dead socket at the same moment: one gets it.
func TestListenRace(t *testing.T) {
	path := shortPath(t)
	for range 20 {
		dead, err := net.Listen("unix", path)
		require.NoError(t, err)
		dead.(*net.UnixListener).SetUnlinkOnClose(false)
		require.NoError(t, dead.Close())
		var all sync.WaitGroup
		got := make(chan *Listener, 8)
		for range 8 {
			all.Go(func() {
				if l, err := Listen(path, ListenOptions{Token: aToken}); err == nil {
					got <- l
				}
			})
		}
		all.Wait()
		close(got)
		require.Len(t, got, 1)
		require.NoError(t, (<-got).Close())
	}
}
