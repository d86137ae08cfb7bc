package cli

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limited serves h with a limit until the test ends.
func limited(t *testing.T, limit *Limit, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := limit.Guard(&http.Server{Handler: h})
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(limit.Listen(l)) })
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
	})
	return l.Addr().String()
}

func (x *Limit) count(few bool) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.conns {
		if c.few == few {
			n++
		}
	}
	return n
}

func (x *Limit) busy() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.conns {
		if c.busy {
			n++
		}
	}
	return n
}

// say opens a connection that sends something and no more.
func say(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Write([]byte(text))
	require.NoError(t, err)
	return c
}

func answered(t *testing.T, c net.Conn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	return line
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// Who opens connections and says nothing, half a request, or nothing more, keeps nobody out.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	limit := &Limit{Max: 8}
	addr := limited(t, limit, hello)
	for i := range 100 {
		c := say(t, addr, []string{"", "GET / HTTP/1.1\r\nHo", request}[i%3])
		if i%3 == 2 {
			assert.Contains(t, answered(t, c), "200 OK")
		}
	}
	assert.Contains(t, answered(t, say(t, addr, request)), "200 OK")
	assert.LessOrEqual(t, limit.count(false), 8)
}

// What is being answered keeps its place, and further ones wait.
func TestAnswersKeepTheirPlace(t *testing.T) {
	limit := &Limit{Max: 2}
	begun, go1 := make(chan struct{}, 9), make(chan struct{})
	addr := limited(t, limit, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-go1
		hello(w, r)
	})
	conns := []net.Conn{say(t, addr, request), say(t, addr, request)}
	<-begun
	<-begun
	conns = append(conns, say(t, addr, request), say(t, addr, request))
	assert.Equal(t, 2, limit.count(false))
	close(go1)
	for _, c := range conns {
		assert.Contains(t, answered(t, c), "200 OK")
	}
}

// Those of one kind have few places among themselves.
func TestFewPlaces(t *testing.T) {
	var few atomic.Bool
	limit := &Limit{Max: 10, MaxFew: 2, Few: func(net.Conn) bool { return few.Load() }}
	begun, end := make(chan struct{}, 9), make(chan struct{})
	addr := limited(t, limit, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			begun <- struct{}{}
			<-end
		}
		hello(w, r)
	})
	others := say(t, addr, "")
	require.Eventually(t, func() bool { return limit.count(false) == 1 }, 10*time.Second, time.Millisecond)
	few.Store(true)
	for range 50 {
		say(t, addr, "GET")
	}
	assert.Contains(t, answered(t, say(t, addr, request)), "200 OK")
	assert.Equal(t, 2, limit.count(true))
	assert.Equal(t, 1, limit.count(false), "that of others is older and has its place")
	require.Eventually(t, func() bool { return limit.busy() == 0 }, 10*time.Second, time.Millisecond)
	held := []net.Conn{say(t, addr, "PUT / HTTP/1.1\r\nHost: x\r\n\r\n"), nil}
	<-begun
	held[1] = say(t, addr, "PUT / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	refused := say(t, addr, "")
	require.NoError(t, refused.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := refused.Read(make([]byte, 1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "it is closed at once")
	few.Store(false)
	assert.Contains(t, answered(t, say(t, addr, request)), "200 OK")
	_, err = others.Write([]byte(request))
	require.NoError(t, err)
	assert.Contains(t, answered(t, others), "200 OK")
	close(end)
	for _, c := range held {
		assert.Contains(t, answered(t, c), "200 OK")
	}
}

// A request on a connection whose place was given away is not carried out.
func TestNothingIsDoneWithoutAPlace(t *testing.T) {
	limit := &Limit{Max: 2}
	done := 0
	server := limit.Guard(&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done++ })})
	var conns []*limitedConn
	for range 3 {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		c := &limitedConn{Conn: a, limit: limit}
		full, _ := limit.enter(c)
		require.Nil(t, full)
		conns = append(conns, c)
	}
	ask := func(c net.Conn) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		server.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(server.ConnContext(r.Context(), c)))
	}
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(conns[0]) })
	assert.Zero(t, done)
	ask(conns[1])
	assert.Equal(t, 1, done)
	require.NoError(t, conns[0].Close())
	assert.Equal(t, 2, limit.count(false), "a place is given back once")
}

// While all places are being answered, the listener can be closed.
func TestLimitedListenerCloses(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limit := &Limit{Max: 1}
	l := limit.Listen(inner)
	say(t, l.Addr().String(), "")
	first, err := l.Accept()
	require.NoError(t, err)
	defer first.Close()
	require.True(t, first.(*limitedConn).work())
	say(t, l.Addr().String(), "")
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	require.NoError(t, l.Close())
	assert.ErrorIs(t, <-ended, net.ErrClosed)
}

func TestGaveUp(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	assert.False(t, GaveUp(r, nil))
	for at, want := range map[string]bool{"": false, "soon": false,
		strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10): false, strconv.FormatInt(time.Now().UnixMilli()-1, 10): true} {
		r.Header.Set(giveUpHeader, at)
		assert.Equal(t, want, GaveUp(r, nil), at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.True(t, GaveUp(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx), nil))
}

// The client says until when it waits.
func TestClientSaysUntilWhen(t *testing.T) {
	dir := t.TempDir()
	serveControl(t, dir, func(w http.ResponseWriter, r *http.Request) { Answer(w, http.StatusOK, r.Header.Get(giveUpHeader)) })
	c := &Client{Program: "prog", Dir: dir, Patience: time.Minute}
	var said string
	require.NoError(t, c.Do(t.Context(), http.MethodGet, "/", nil, &said))
	at, err := strconv.ParseInt(said, 10, 64)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(time.Minute), time.UnixMilli(at), 30*time.Second)
	c.Patience = 0
	require.NoError(t, c.Do(t.Context(), http.MethodGet, "/", nil, &said))
	assert.Empty(t, said)
}
