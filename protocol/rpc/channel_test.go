package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
	"github.com/agent-executor/executor/protocol/rpc/rpctest"
)

// channelEnds are two channels whose transports a test makes and cuts.
type channelEnds struct {
	t      *testing.T
	ctx    context.Context
	net    *rpctest.Listener
	near   *rpc.Channel // dials
	far    *rpc.Channel // accepts
	resume bool
	served sync.WaitGroup
	farErr chan error
}

func channels(t *testing.T, resume bool, test func(t *testing.T, e *channelEnds)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		e := &channelEnds{t: t, ctx: ctx, net: rpctest.Listen(), near: rpc.NewChannel(0), far: rpc.NewChannel(0), resume: resume,
			farErr: make(chan error, 1000)}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := rpc.Accept(w, r, rpc.AcceptOptions{})
			if err != nil {
				return
			}
			e.served.Go(func() { e.farErr <- e.far.Serve(ctx, f, resume) })
		})}
		e.served.Go(func() { _ = server.Serve(e.net) })
		test(t, e)
		e.near.End(errors.New("test ends"))
		e.far.End(errors.New("test ends"))
		cancel()
		_ = server.Close()
		_ = e.net.Close()
		e.served.Wait()
	})
}

// connect carries the channels over one transport until it is lost.
func (e *channelEnds) connect() error {
	f, err := rpc.Dial(e.ctx, "ws://brain/", e.net.DialOptions())
	if err != nil {
		return err
	}
	return e.near.Serve(e.ctx, f, e.resume)
}

// keep connects again and again.
func (e *channelEnds) keep() {
	e.served.Go(func() {
		for e.ctx.Err() == nil && e.near.Err() == nil {
			_ = e.connect()
			select {
			case <-time.After(5 * time.Millisecond):
			case <-e.ctx.Done():
			}
		}
	})
}

func numbered(n, size int) []byte {
	return []byte(fmt.Sprintf(`{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", size)))
}

// TestChannelResumes: with transports cut at any moment each message comes once, in
// order, both ways, whatever its size, and also to a reader that is slow.
func TestChannelResumes(t *testing.T) {
	channels(t, true, func(t *testing.T, e *channelEnds) {
		const messages = 1000
		rng := rand.New(rand.NewPCG(1, 2))
		sizes := make([]int, messages)
		for i := range sizes {
			if sizes[i] = rng.IntN(200); i%97 == 0 {
				sizes[i] = rng.IntN(300_000)
			}
		}
		e.keep()
		stop := make(chan struct{})
		e.served.Go(func() {
			r := rand.New(rand.NewPCG(3, 4))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(40)) * time.Millisecond):
					e.net.Cut()
				}
			}
		})
		var ends sync.WaitGroup
		for i, pair := range [][2]*rpc.Channel{{e.near, e.far}, {e.far, e.near}} {
			ends.Go(func() {
				for n := range messages {
					require.NoError(t, pair[0].WriteFrame(e.ctx, numbered(n, sizes[n])))
					if n%10 == 0 {
						time.Sleep(3 * time.Millisecond)
					}
				}
			})
			ends.Go(func() {
				for n := range messages {
					f, err := pair[1].ReadFrame(e.ctx)
					require.NoError(t, err)
					require.Equal(t, string(numbered(n, sizes[n])), string(f), "message %d", n)
					if n%100 == i {
						time.Sleep(40 * time.Millisecond)
					}
				}
			})
		}
		ends.Wait()
		close(stop)
		require.Greater(t, len(e.farErr), 10, "transports that were cut")
	})
}

// TestChannelHoldsUpTheWriter: what nobody reads is bounded, and the transport does not
// seem dead meanwhile. Without windows it is a writer that waits for long that gives up.
func TestChannelHoldsUpTheWriter(t *testing.T) {
	for _, resume := range []bool{true, false} {
		t.Run(fmt.Sprint("resume ", resume), func(t *testing.T) {
			channels(t, resume, func(t *testing.T, e *channelEnds) {
				e.keep()
				written := make(chan int, 1)
				messages := 45 // more than is held on the way
				if !resume {
					messages = 90
				}
				e.served.Go(func() {
					n := 0
					for ; n < messages; n++ {
						if e.near.WriteFrame(e.ctx, numbered(n, 100_000)) != nil {
							break
						}
					}
					written <- n
				})
				held := 5 * time.Minute
				if !resume {
					held = 20 * time.Second
				}
				time.Sleep(held)
				synctest.Wait()
				require.Empty(t, written, "the writer waits")
				require.Empty(t, e.farErr, "the transport lives")
				for n := range messages {
					f, err := e.far.ReadFrame(e.ctx)
					require.NoError(t, err)
					require.True(t, bytes.Equal(numbered(n, 100_000), f), "message %d", n)
				}
				require.Equal(t, messages, <-written)
			})
		})
	}
}

// TestChannelClose: what was written comes before the close, with its code and reason,
// also when there is no transport yet.
func TestChannelClose(t *testing.T) {
	for _, resume := range []bool{true, false} {
		channels(t, resume, func(t *testing.T, e *channelEnds) {
			for n := range 10 {
				require.NoError(t, e.near.WriteFrame(e.ctx, numbered(n, 50_000)))
			}
			require.NoError(t, e.near.Close(protocol.CloseMCPServerExited, "exit status 3"))
			require.NoError(t, e.near.Close(protocol.CloseNormal, "not this"))
			require.Error(t, e.near.WriteFrame(e.ctx, []byte("{}")))
			require.Error(t, e.far.WriteFrame(e.ctx, make([]byte, protocol.DefaultMaxMCPFrame+1)))
			require.NoError(t, e.far.WriteFrame(e.ctx, []byte(`{"to":"near"}`)))
			require.Error(t, e.connect())
			var ce *rpc.CloseError
			require.ErrorAs(t, e.near.Err(), &ce)
			require.Equal(t, rpc.CloseError{Code: protocol.CloseMCPServerExited, Reason: "exit status 3", Local: true}, *ce)
			err := <-e.farErr
			require.ErrorAs(t, err, &ce)
			require.Equal(t, rpc.CloseError{Code: protocol.CloseMCPServerExited, Reason: "exit status 3"}, *ce)
			e.far.End(err)
			for n := range 10 {
				f, err := e.far.ReadFrame(e.ctx)
				require.NoError(t, err)
				require.Equal(t, string(numbered(n, 50_000)), string(f))
			}
			_, err = e.far.ReadFrame(e.ctx)
			require.ErrorIs(t, err, ce)
		})
	}
}

// TestChannelIsForgotten: an end that does not remember what it had taken ends the
// channel, instead of losing a message or saying one twice.
func TestChannelIsForgotten(t *testing.T) {
	channels(t, true, func(t *testing.T, e *channelEnds) {
		first := make(chan error, 1)
		e.served.Go(func() { first <- e.connect() })
		for n := range 100 {
			require.NoError(t, e.near.WriteFrame(e.ctx, numbered(n, 10)))
			_, err := e.far.ReadFrame(e.ctx)
			require.NoError(t, err)
		}
		synctest.Wait()
		e.net.Cut()
		<-first
		<-e.farErr
		e.far = rpc.NewChannel(0) // the brain was restarted
		require.ErrorIs(t, e.connect(), rpc.ErrNotResumed)
		require.ErrorIs(t, e.near.Err(), rpc.ErrNotResumed)
		_, err := e.near.ReadFrame(e.ctx)
		require.ErrorIs(t, err, rpc.ErrNotResumed)
	})
}

// TestChannelGoesOnFromTheFirstWord: a receiver that takes what it had received before,
// while a new transport begins, counts from its first word all the same.
func TestChannelGoesOnFromTheFirstWord(t *testing.T) {
	const messages = 10
	taken := func(n byte) []byte { return []byte{3, 0, 0, 0, 0, 0, 0, 0, n} }
	channels(t, true, func(t *testing.T, e *channelEnds) {
		for n := range messages {
			require.NoError(t, e.far.WriteFrame(e.ctx, numbered(n, 10)))
		}
		f, err := rpc.Dial(e.ctx, "ws://brain/", e.net.DialOptions())
		require.NoError(t, err)
		require.NoError(t, f.WriteFrame(e.ctx, taken(0)))
		require.NoError(t, f.WriteFrame(e.ctx, taken(7)))
		_, err = f.ReadFrame(e.ctx)
		require.NoError(t, err)
		for n := range messages {
			got, err := f.ReadFrame(e.ctx)
			require.NoError(t, err)
			require.Equal(t, string(numbered(n, 10)), string(got))
		}
		require.NoError(t, f.Close(protocol.CloseNormal, ""))
		require.Error(t, <-e.farErr)
		f, err = rpc.Dial(e.ctx, "ws://brain/", e.net.DialOptions())
		require.NoError(t, err)
		require.NoError(t, f.WriteFrame(e.ctx, taken(7)))
		_, err = f.ReadFrame(e.ctx)
		require.NoError(t, err)
		got, err := f.ReadFrame(e.ctx)
		require.NoError(t, err)
		require.Equal(t, string(numbered(7, 10)), string(got), "those it has taken are not kept")
		require.NoError(t, f.Close(protocol.CloseNormal, ""))
	})
}

// TestChannelReplacesTransport: a newer transport takes over from one that is half open.
func TestChannelReplacesTransport(t *testing.T) {
	channels(t, true, func(t *testing.T, e *channelEnds) {
		ends := make(chan error, 2)
		e.served.Go(func() { ends <- e.connect() })
		synctest.Wait()
		e.served.Go(func() { ends <- e.connect() })
		require.Error(t, <-ends)
		require.NoError(t, e.near.WriteFrame(e.ctx, []byte(`{"n":1}`)))
		f, err := e.far.ReadFrame(e.ctx)
		require.NoError(t, err)
		require.JSONEq(t, `{"n":1}`, string(f))
	})
}

// TestChannelAgainstHostilePeer: what is no message of a channel ends the transport.
func TestChannelAgainstHostilePeer(t *testing.T) {
	tests := map[string]struct {
		resume bool
		send   [][]byte
	}{
		"an acknowledgement of what was not sent": {true, [][]byte{{3, 0, 0, 0, 0, 0, 0, 0, 9}}},
		"a short acknowledgement":                 {true, [][]byte{{3, 0}}},
		"one where none is agreed":                {false, [][]byte{{3, 0, 0, 0, 0, 0, 0, 0, 0}}},
		"a huge message":                          {true, [][]byte{{3, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 5<<20)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			channels(t, test.resume, func(t *testing.T, e *channelEnds) {
				f, err := rpc.Dial(e.ctx, "ws://brain/", e.net.DialOptions())
				require.NoError(t, err)
				for _, frame := range test.send {
					_ = f.WriteFrame(e.ctx, frame)
				}
				require.Error(t, <-e.farErr)
				_ = f.Close(protocol.CloseNormal, "")
			})
		})
	}
}
