package rpc

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// A large message goes in parts, over any transport, and is put together again: text
// and binary, requests and answers.
func TestParts(t *testing.T) {
	for _, size := range []int{maxPart - 200, maxPart - 1, maxPart, maxPart + 1, 2*maxPart - 2, 2*maxPart - 1, 700_000} {
		for _, data := range []bool{false, true} {
			near, far := Pipe()
			mux := NewMux(0)
			var got int
			Handle(mux, protocol.ProcessWrite, func(_ context.Context, p protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
				got = len(p.Data)
				return protocol.ProcessWriteResult{}, nil
			})
			Handle(mux, protocol.ToolResult, func(_ context.Context, p protocol.ToolResultParams) (protocol.AcceptedResult, error) {
				got = len(p.Content[0].Text)
				return protocol.AcceptedResult{Accepted: true}, nil
			})
			a, b := NewConn(near, NewMux(0), nil), NewConn(far, mux, nil)
			a.SetParts(true)
			a.SetBinary(true)
			a.Start()
			b.Start()
			var err error
			if data {
				_, err = Call(t.Context(), a, protocol.ProcessWrite, protocol.ProcessWriteParams{SessionID: "s", ProcessID: "p", Data: bytes.Repeat([]byte{1, 2, 0}, size)[:size]})
			} else {
				_, err = Call(t.Context(), a, protocol.ToolResult, protocol.ToolResultParams{SessionID: "s", ToolCallID: "c", Outcome: "succeeded",
					Content: []protocol.Content{{Type: "text", Text: strings.Repeat("ü", size/2) + strings.Repeat("x", size%2)}}})
			}
			require.NoError(t, err)
			require.Equal(t, size, got)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	}
}

// What a peer may get wrong: too much, parts of nothing, a part in a part.
func TestBadParts(t *testing.T) {
	for name, c := range map[string]struct {
		frames []string
		tooBig bool
	}{
		"too much":   {[]string{"\x01" + strings.Repeat(" ", 600_000), "\x01" + strings.Repeat(" ", 600_000)}, true},
		"for ever":   {append(make([]string, 0), strings.Split(strings.Repeat("\x01"+strings.Repeat(" ", 50_000)+"|", 30), "|")[:30]...), true},
		"nothing":    {[]string{"\x02"}, false},
		"of nothing": {[]string{"\x01", "\x01", "\x02"}, false},
		"nested":     {[]string{"\x02\x02{}"}, false},
		"no JSON":    {[]string{"\x01{", "\x02{"}, false},
	} {
		near, far := Pipe()
		b := NewConn(far, NewMux(0), nil)
		b.Start()
		answered := make(chan []byte, 1)
		go func() {
			f, err := near.ReadFrame(context.Background())
			if err == nil {
				answered <- f
			}
			close(answered)
		}()
		for _, f := range c.frames {
			if near.WriteFrame(t.Context(), []byte(f)) != nil {
				break
			}
		}
		answer := <-answered
		if c.tooBig {
			require.Nil(t, answer, name)
			var closed *CloseError
			require.ErrorAs(t, b.Err(), &closed, name)
			require.Equal(t, protocol.CloseTooBig, closed.Code)
		} else {
			require.Contains(t, string(answer), "-32700", name)
			require.NoError(t, b.Err())
		}
		_ = near.Close(1000, "")
		require.NoError(t, b.Close())
	}
}

// thrift is a connection of which so many bytes a second are read.
type thrift struct {
	net.Conn
	perSecond int
}

func (s *thrift) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p[:min(len(p), max(1, s.perSecond/20))])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(s.perSecond))
	return n, err
}

type thriftListener struct {
	net.Listener
	perSecond int
}

func (l thriftListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &thrift{Conn: c, perSecond: l.perSecond}, nil
}

// Over a real network, whose kernels would hold megabytes for a peer that reads slowly,
// a small message behind a large one is not kept waiting: no more is on its way than
// the peer reads soon (case 119).
func TestSmallBesideLargeToASlowReader(t *testing.T) {
	for _, parts := range []bool{true, false} {
		mux := NewMux(0)
		Handle(mux, protocol.ExecutorHeartbeat, func(context.Context, protocol.HeartbeatParams) (protocol.HeartbeatResult, error) {
			return protocol.HeartbeatResult{}, nil
		})
		Handle(mux, protocol.ToolResult, func(context.Context, protocol.ToolResultParams) (protocol.AcceptedResult, error) {
			return protocol.AcceptedResult{Accepted: true}, nil
		})
		var conns sync.WaitGroup
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := Accept(w, r, AcceptOptions{MaxFrameBytes: 32 << 20})
			if err != nil {
				return
			}
			c := NewConn(f, mux, nil)
			c.SetMaxReceiveBytes(32 << 20)
			c.Start()
			conns.Go(func() { <-c.Done() })
		}))
		server.Listener = thriftListener{server.Listener, 1 << 20}
		server.Start()
		f, err := Dial(t.Context(), strings.Replace(server.URL, "http", "ws", 1), DialOptions{MaxFrameBytes: 32 << 20})
		require.NoError(t, err)
		c := NewConn(f, NewMux(0), &Options{MaxSendBytes: 32 << 20})
		c.SetParts(parts)
		c.Start()
		began := time.Now()
		sent := make(chan error, 1)
		require.NoError(t, Send(c, protocol.ToolResult, protocol.ToolResultParams{SessionID: "s", ToolCallID: "c", Outcome: "succeeded",
			Content: []protocol.Content{{Type: "text", Text: strings.Repeat("x", 3<<19)}}},
			func(_ protocol.AcceptedResult, err error) { sent <- err }))
		<-time.After(300 * time.Millisecond)
		before := time.Now()
		_, err = Call(t.Context(), c, protocol.ExecutorHeartbeat, protocol.HeartbeatParams{ConnectionID: "c"})
		require.NoError(t, err)
		waited := time.Since(before)
		require.NoError(t, <-sent)
		all := time.Since(began)
		t.Logf("in parts %v: the small message took %v, the large one %v", parts, waited, all)
		if parts {
			require.Less(t, waited, all/2)
		}
		require.NoError(t, c.Close())
		conns.Wait()
		server.Close()
	}
}

// The credit follows how fast the peer reads; a peer that sends no pongs is sent to all
// the same, after a while.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pings []string
		resumed := 0
		p := &pace{credit: firstCredit, ping: func(payload []byte) { pings = append(pings, string(payload)) }, resume: func() { resumed++ }}
		p.wrote(firstCredit/2 - 1)
		require.Empty(t, pings)
		p.wrote(1)
		require.Len(t, pings, 1)
		p.wrote(firstCredit / 2)
		require.False(t, p.ready())
		changed := p.wait()
		require.NotNil(t, changed)
		for _, other := range []string{"", "pace", "pace12345678", "else00000001"} {
			p.pong(other)
			require.False(t, p.ready())
		}
		time.Sleep(100 * time.Millisecond)
		p.pong(pings[0])
		<-changed
		require.Nil(t, p.wait())
		require.Equal(t, 1, resumed)
		require.EqualValues(t, 2*firstCredit, p.credit)
		p.pong(pings[0]) // twice
		require.Equal(t, 1, resumed)

		for range 20 { // slow
			for p.ready() {
				p.wrote(16 << 10)
			}
			time.Sleep(3 * time.Second)
			p.pong(pings[len(pings)-1])
		}
		require.EqualValues(t, minCredit, p.credit)
		for range 20 { // quick
			for p.ready() {
				p.wrote(16 << 10)
			}
			p.pong(pings[len(pings)-1])
		}
		require.EqualValues(t, maxCredit, p.credit)

		for p.ready() {
			p.wrote(16 << 10)
		}
		before := resumed
		time.Sleep(pongPatience - time.Second)
		p.late()
		require.False(t, p.ready())
		time.Sleep(time.Second)
		p.late()
		require.True(t, p.ready())
		require.Equal(t, before+1, resumed)
		p.wrote(100 << 20)
		require.True(t, p.ready())
	})
}
