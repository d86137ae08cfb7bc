package rpc

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tcpPair is a connection over loopback.
func tcpPair(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	far, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	near, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// Who waits for much is woken when much is there or the peer has gone, and a single byte wakes who waits
// for a little after that.
func TestDirectRead(t *testing.T) {
	near, far := tcpPair(t)
	raw, err := near.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	d := newDirectRead(near, raw)
	if d == nil {
		t.Skip("not read directly here")
	}
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i * 7)
	}
	written := make(chan error, 1)
	for round := range 20 {
		d.quick = round%2 == 0
		go func() {
			_, err := far.Write(want)
			written <- err
		}()
		got := make([]byte, len(want))
		for n := 0; n < len(got); {
			m, err := d.read(got[n:])
			require.NoError(t, err)
			n += m
		}
		require.NoError(t, <-written)
		require.True(t, bytes.Equal(want, got))

		go func() {
			time.Sleep(time.Millisecond) // so that it is waited for
			_, err := far.Write([]byte{1})
			written <- err
		}()
		n, err := d.read(got[:readBuffer])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, <-written)
	}

	// A deadline, and the peer's end, come although less is there than is waited for.
	d.quick = true
	require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = d.read(make([]byte, 1<<20))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Contains(t, err.Error(), "read tcp 127.0.0.1:")
	require.NoError(t, near.SetReadDeadline(time.Time{}))
	d.quick = true
	go func() {
		time.Sleep(time.Millisecond)
		_, _ = far.Write([]byte("rest"))
		_ = far.Close()
	}()
	var rest []byte
	for buf := make([]byte, 1<<20); ; {
		n, err := d.read(buf)
		rest = append(rest, buf[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.Equal(t, "rest", string(rest))
	require.NoError(t, near.Close())
	_, err = d.read(make([]byte, 10))
	require.ErrorIs(t, err, net.ErrClosed)
}

// Masked twice it is what it was, and each byte is masked by its place.
func TestMask(t *testing.T) {
	for n := range 200 {
		key := rand.Uint32()
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rand.Uint32())
		}
		masked, back := make([]byte, n), make([]byte, n)
		maskInto(masked, key, p)
		for i := range p {
			require.Equal(t, p[i]^byte(key>>(8*(i%4))), masked[i])
		}
		maskInto(back, key, masked)
		require.Equal(t, p, back)
	}
}

// Only to a peer that reads fast much goes out at once.
func TestQuickPeer(t *testing.T) {
	p := &pace{credit: firstCredit, ping: func([]byte) {}}
	pong := func(after time.Duration) {
		p.wrote(firstCredit)
		p.at = time.Now().Add(-after)
		p.pong("pace" + string([]byte{0, 0, 0, 0, 0, 0, 0, byte(p.marks)}))
	}
	require.False(t, p.isQuick())
	pong(time.Millisecond)
	require.True(t, p.isQuick())
	pong(100 * time.Millisecond)
	require.False(t, p.isQuick())
}
